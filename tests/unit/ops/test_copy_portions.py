"""The next portion is read while one is dealt with, and no longer than anybody wants it."""

import asyncio
from collections.abc import Sequence

import pytest

from rota.errors import StoreUnavailableError
from rota.ops.store_comparison import PROBE, read_portions, walk_through
from rota.stores.memory import MemoryStore
from rota.stores.protocol import KeptDocument, Portion
from rota.testing.job_store_fixture import NOW
from rota.testing.portable_store_contract import records_of_every_sort


class Watched(MemoryStore):
    """Portions of one; notes which are asked for and which are given, and may fail or hang."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_count = 0
        self.given_up_count = 0
        self.fails_at: int | None = None
        self.hangs_at: int | None = None

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        self.asked_count += 1
        if self.asked_count == self.fails_at:
            raise StoreUnavailableError("gone", {})
        if self.asked_count == self.hangs_at:
            await self._hang()
        return await super().dump(cursor, min(1, limit))

    async def _hang(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up_count += 1


@pytest.fixture
async def store() -> Watched:
    watched = Watched()
    await watched.load(records_of_every_sort(), NOW)
    return watched


async def test_the_next_one_is_asked_for_while_one_is_dealt_with(store: Watched) -> None:
    async with read_portions(store) as portions:
        await anext(portions)
        await asyncio.wait_for(_until(store, 2), 1)
        assert store.asked_count == 2


async def _until(store: Watched, count: int) -> None:
    turned = asyncio.Event()
    while store.asked_count < count:
        asyncio.get_running_loop().call_soon(turned.set)
        await turned.wait()
        turned.clear()


async def test_leaving_the_context_stops_the_reading(store: Watched) -> None:
    store.hangs_at = 2
    async with read_portions(store) as portions:
        await anext(portions)
        await _until(store, 2)
    assert store.given_up_count == 1


async def test_a_failure_is_heard_of_where_it_belongs(store: Watched) -> None:
    store.fails_at = 3
    async with read_portions(store) as portions:
        assert [len((await anext(portions)).records) for _ in range(2)] == [1, 1]
        with pytest.raises(StoreUnavailableError):
            await anext(portions)


async def test_a_walk_meets_everything_but_what_is_a_copys_own(store: Watched) -> None:
    await store.load([KeptDocument(PROBE, "target", 1, b"")], NOW)
    met: list[Sequence[object]] = [records async for records in walk_through(store)]
    assert sum(map(len, met)) == len(records_of_every_sort())
