"""Both stores are gone through at once; what one of them fails at ends both."""

import asyncio

import pytest

from rota.errors import StoreUnavailableError
from rota.ops.store_comparison import Phase, compare
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Portion
from rota.testing.job_store_fixture import NOW
from rota.testing.portable_store_contract import records_of_every_sort


def ignore(_phase: Phase, _count: int) -> None:
    pass


class Meeting(MemoryStore):
    """Answers only when the other store has been asked too."""

    def __init__(self, both_asked: asyncio.Barrier) -> None:
        super().__init__()
        self._both_asked = both_asked

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        await self._both_asked.wait()
        return await super().dump(cursor, limit)


async def test_both_are_read_at_the_same_time() -> None:
    barrier = asyncio.Barrier(2)
    source, target, records = Meeting(barrier), Meeting(barrier), records_of_every_sort()
    for store in (source, target):
        await store.load(records, NOW)
    async with asyncio.timeout(5):
        recorder, differences = await compare(source, target, ignore)
    assert (recorder.job_count, differences) == (8, [])


class Endless(MemoryStore):
    is_given_up = False

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        try:
            await asyncio.Event().wait()
        finally:
            self.is_given_up = True
        return await super().dump(cursor, limit)


class Gone(MemoryStore):
    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        raise StoreUnavailableError("gone", {"limit": limit, "cursor": cursor})


async def test_when_one_fails_the_other_is_given_up_first() -> None:
    endless = Endless()
    with pytest.raises(StoreUnavailableError):
        await compare(endless, Gone(), ignore)
    assert endless.is_given_up
