"""A server that is killed while it is written to: nothing acknowledged is lost, nothing doubled."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.process.stores.counting import Counters
from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerProcess

from rota import open_store
from rota.errors import StoreUnavailableError
from rota.stores.protocol import DocumentStore, DocumentWrite

pytestmark = pytest.mark.process

WRITER_COUNT = 4
WRITES_BEFORE_KILL = 60
WRITES_AFTER_RESTART = 40


@pytest.fixture(params=["own_postgres", "own_mysql", "own_redis"])
def server(request: pytest.FixtureRequest) -> PostgresServer | ServerProcess:
    """A server that the test may kill."""
    chosen: PostgresServer | ServerProcess = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
async def store(server: PostgresServer | ServerProcess) -> AsyncIterator[DocumentStore]:
    async with await open_store(server.url) as store:
        yield store


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    server: PostgresServer | ServerProcess, store: DocumentStore
) -> None:
    counters = Counters(store)
    keys = [f"writer-{number}" for number in range(WRITER_COUNT)]
    writers = [asyncio.create_task(counters.count_up(key)) for key in keys]
    for _ in range(2):
        await counters.reach(counters.total + WRITES_BEFORE_KILL)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)
    await counters.reach(counters.total + WRITES_AFTER_RESTART)
    counters.is_stopping = True
    await asyncio.gather(*writers)
    assert counters.errors, "the server was never missed"
    for key, document in (await store.read("counters", keys)).items():
        assert document.version == counters.acknowledged[key] + counters.unknown[key]


async def test_a_server_that_is_down_is_an_error_at_once_and_no_more_when_it_is_back(
    server: PostgresServer | ServerProcess, store: DocumentStore
) -> None:
    await store.write_each([DocumentWrite("tasks", "a", None, b"kept")])
    await asyncio.to_thread(server.stop)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError) as caught:
            await store.read("tasks", ["a"])
    assert caught.value.details["reason"] == "no server listens at that address"
    assert caught.value.details["outcome"] == "nothing was written"
    with pytest.raises(StoreUnavailableError):
        await open_store(server.url)
    await asyncio.to_thread(server.restart)
    assert (await store.read("tasks", ["a"]))["a"].body == b"kept"
