"""A server that is killed while it is written to: nothing acknowledged is lost, nothing doubled."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import pytest
from tests.servers.postgres import PostgresServer

from rota import open_store
from rota.clock.system import SystemClock
from rota.errors import StoreUnavailableError
from rota.stores.protocol import DocumentStore, DocumentWrite

pytestmark = pytest.mark.process

Result = TypeVar("Result")

CLOCK, A_MOMENT = SystemClock(), timedelta(milliseconds=10)
WRITER_COUNT = 4
WRITES_BEFORE_KILL = 60
WRITES_AFTER_RESTART = 40


class Counters:
    """Writers that each count up a document of their own, and know what was acknowledged."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self.acknowledged: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.errors: list[StoreUnavailableError] = []
        self.is_stopping = False

    @property
    def total(self) -> int:
        return self.acknowledged.total()

    async def reach(self, goal: int) -> None:
        while self.total < goal:
            await CLOCK.sleep(A_MOMENT)

    async def count_up(self, key: str) -> None:
        version: int | None = None
        while not self.is_stopping:
            try:
                (written,) = await self._store.write_each(
                    [DocumentWrite("counters", key, version, key.encode())]
                )
            except StoreUnavailableError as error:
                version = await self._look_up(key, version, error)
            else:
                assert written == (version or 0) + 1, "a write was refused that nobody else made"
                version = written
                self.acknowledged[key] += 1

    async def _look_up(
        self, key: str, before: int | None, error: StoreUnavailableError
    ) -> int | None:
        """The version there is after a write that failed, which may have been carried out."""
        self.errors.append(error)
        found = await _until_available(lambda: self._store.read("counters", [key]))
        now = found[key].version if found else None
        if now != before:
            assert now == (before or 0) + 1, "a write was carried out twice"
            assert error.details["outcome"] == "unknown"
            self.unknown[key] += 1
        return now


@pytest.fixture
async def store(own_postgres: PostgresServer) -> AsyncIterator[DocumentStore]:
    async with await open_store(own_postgres.url) as store:
        yield store


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    own_postgres: PostgresServer, store: DocumentStore
) -> None:
    counters = Counters(store)
    keys = [f"writer-{number}" for number in range(WRITER_COUNT)]
    writers = [asyncio.create_task(counters.count_up(key)) for key in keys]
    for _ in range(2):
        await counters.reach(counters.total + WRITES_BEFORE_KILL)
        await asyncio.to_thread(own_postgres.kill)
        await asyncio.to_thread(own_postgres.restart)
    await counters.reach(counters.total + WRITES_AFTER_RESTART)
    counters.is_stopping = True
    await asyncio.gather(*writers)
    assert counters.errors, "the server was never missed"
    for key, document in (await store.read("counters", keys)).items():
        assert document.version == counters.acknowledged[key] + counters.unknown[key]


async def test_a_server_that_is_down_is_an_error_at_once_and_no_more_when_it_is_back(
    own_postgres: PostgresServer, store: DocumentStore
) -> None:
    await store.write_each([DocumentWrite("tasks", "a", None, b"kept")])
    await asyncio.to_thread(own_postgres.stop)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError) as caught:
            await store.read("tasks", ["a"])
    assert caught.value.details["reason"] == "nobody listens at that address"
    assert caught.value.details["outcome"] == "nothing was written"
    with pytest.raises(StoreUnavailableError):
        await open_store(own_postgres.url)
    await asyncio.to_thread(own_postgres.restart)
    assert (await store.read("tasks", ["a"]))["a"].body == b"kept"


async def _until_available(call: Callable[[], Awaitable[Result]]) -> Result:
    while True:
        try:
            return await call()
        except StoreUnavailableError:
            await CLOCK.sleep(A_MOMENT)
