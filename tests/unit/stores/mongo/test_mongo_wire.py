"""What every command asks for, and what happens when the server is lost, or not the primary."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

import pytest
from pymongo import AsyncMongoClient, ReadPreference
from tests.servers.mongo import MongoServer, open_mongo
from tests.servers.shared import in_database, shared_mongo_url
from tests.unit.stores.mongo.overheard import WRITES, Overheard, overhear

from rota.errors import StoreUnavailableError
from rota.jobs import JobStatus, Lost, Succeeded, decide_outcome
from rota.stores.mongo.address import read_address
from rota.stores.mongo.connection import Raw, options
from rota.stores.mongo.schema import INDEXES
from rota.stores.mongo.store import MongoStore
from rota.stores.protocol import DocumentWrite, HeldLease, LeaseRequest
from rota.testing import VirtualClock
from rota.testing.builders import a_job
from rota.worker import Context, Worker

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NOT_PRIMARY, WRITE_CONFLICT = 10107, 112
REQUEST = LeaseRequest(worker="worker", limit=10, lease_for=MINUTE)


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Overheard:
    return overhear(monkeypatch)


async def test_every_write_asks_for_the_journals_of_a_majority(
    mongo_url: str, overheard: Overheard
) -> None:
    parent, brief = a_job(), a_job(auto_remove=True)
    child = a_job(dependencies=[parent.id])
    async with await open_mongo(f"{mongo_url}&w=1&journal=false") as store:
        await store.insert([parent, child], NOW)
        await store.insert([brief], NOW)
        leased = await store.lease(REQUEST, NOW)
        await store.extend([HeldLease(job.id, 1) for job in leased], NOW + MINUTE, NOW)
        await store.apply([decide_outcome(job, Succeeded(), NOW) for job in leased], NOW)
        await store.write_each([DocumentWrite("tasks", "a", None, b"")])
        await store.delete("default", child.id)
    writes = [each for each in overheard.of(WRITES) if each.get("insert") != "rota_wakeups"]
    writes += overheard.of(["commitTransaction"])
    assert {"insert", "update", "delete", "commitTransaction"} <= set(overheard.counts)
    for command in writes:
        if command.get("autocommit", True) or "commitTransaction" in command:
            assert command.get("writeConcern") == {"w": "majority", "j": True}, command


async def test_every_read_is_the_primarys_and_of_a_majority(
    mongo_url: str, overheard: Overheard
) -> None:
    async with await open_mongo(f"{mongo_url}&readPreference=secondary") as store:
        overheard.clear()
        await store.find("default")
        await store.get("default", [a_job().id])
        await store.survey(NOW)
        await store.lease(REQUEST, NOW)
    asked = overheard.of(["find", "aggregate"])
    assert len(asked) >= 5
    for command in asked:
        assert command.get("$readPreference", {"mode": "primary"})["mode"] == "primary", command
        assert command["readConcern"]["level"] in {"majority", "snapshot"}, command


async def test_indexes_are_built_by_a_majority_of_the_members(overheard: Overheard) -> None:
    """By default all members vote: with one of three down, opening a store would wait for it."""
    address = in_database(shared_mongo_url(), f"rota_test_{token_hex(6)}")
    async with await open_mongo(address), AsyncMongoClient[Raw](address) as client:
        await client.drop_database(client.get_default_database())
    (build,) = overheard.of(["createIndexes"])
    assert build["commitQuorum"] == "majority"
    assert {it["name"] for it in build["indexes"]} == {it.name for it in INDEXES}


async def test_an_address_cannot_weaken_that() -> None:
    url = "mongodb://host/rota?w=1&journal=false&retryWrites=false&retryReads=false"
    settings = read_address(f"{url}&readPreference=nearest&readConcernLevel=available")
    client = AsyncMongoClient[Raw](settings.url, **options(settings))
    try:
        assert client.write_concern.document == {"w": "majority", "j": True}
        assert client.read_preference == ReadPreference.PRIMARY
        assert client.read_concern.level == "majority"
        assert client.options.retry_writes
        assert client.options.retry_reads
        selection = client.options.server_selection_timeout
        assert selection == settings.connect_for.total_seconds() > 10.1, "an election is shorter"
    finally:
        await client.close()


@asynccontextmanager
async def failing(
    server: MongoServer, commands: Sequence[str], times: int = 1, **failure: Any
) -> AsyncIterator[None]:
    """Make the next few of these commands fail."""
    async with AsyncMongoClient[Raw](server.url) as client:
        fail = {"configureFailPoint": "failCommand"}
        asked = {"failCommands": list(commands), **failure}
        await client.admin.command({**fail, "mode": {"times": times}, "data": asked})
        yield
        await client.admin.command({**fail, "mode": "off"})


async def test_a_commit_with_an_unknown_result_is_asked_for_again(own_mongo: MongoServer) -> None:
    jobs = [a_job(), a_job()]
    async with await open_mongo(own_mongo.url) as store:
        async with failing(own_mongo, ["commitTransaction"], 3, closeConnection=True):
            answers = await store.insert(jobs, NOW)
        assert not any(each.is_existing for each in answers)
        leased = await store.lease(REQUEST, NOW)
        async with failing(own_mongo, ["commitTransaction"], 3, closeConnection=True):
            settled = await store.apply(
                [decide_outcome(each, Succeeded(), NOW) for each in leased], NOW
            )
        assert not any(each.is_stale for each in settled)
        stored = await store.get("default", [job.id for job in jobs])
        assert {(job.status, job.last_token) for job in stored.values()} == {
            (JobStatus.COMPLETED, 1)
        }


@pytest.mark.parametrize(
    "failure",
    [{"closeConnection": True}, {"writeConcernError": {"code": 91, "errmsg": "shutting down"}}],
)
async def test_a_lease_and_a_completion_whose_answer_is_lost_are_sent_again(
    own_mongo: MongoServer, failure: dict[str, Any]
) -> None:
    """The second failure is reported after the server has carried out the update."""
    jobs = [a_job(), a_job()]
    async with await open_mongo(own_mongo.url) as store:
        await store.insert(jobs, NOW)
        async with failing(own_mongo, ["update"], **failure):
            leased = await store.lease(REQUEST, NOW)
        assert {job.id for job in leased} == {job.id for job in jobs}
        assert {job.last_token for job in leased} == {1}
        changes = [decide_outcome(each, Succeeded(b"7"), NOW) for each in leased]
        async with failing(own_mongo, ["update"], **failure):
            settled = await store.apply(changes, NOW)
        assert not any(each.is_stale for each in settled)
        assert len(await store.results("default", [job.id for job in jobs])) == 2


async def test_a_conflict_or_a_lost_connection_starts_the_transaction_again(
    own_mongo: MongoServer,
) -> None:
    transient = {"errorLabels": ["TransientTransactionError"]}
    async with await open_mongo(own_mongo.url) as store:
        for failure in ({"errorCode": WRITE_CONFLICT, **transient}, {"closeConnection": True}):
            parent = a_job()
            await store.insert([parent], NOW)
            async with failing(own_mongo, ["insert", "update", "find"], 2, **failure):
                (child,) = await store.insert([a_job(dependencies=[parent.id])], NOW)
            assert not child.is_existing
            assert child.job.status is JobStatus.PENDING


async def test_a_write_of_one_document_that_is_lost_with_the_connection_is_done_once(
    own_mongo: MongoServer,
) -> None:
    job = a_job(idempotency_key="key")
    async with await open_mongo(own_mongo.url) as store:
        async with failing(own_mongo, ["insert"], closeConnection=True):
            (inserted,) = await store.insert([job], NOW)
        assert not inserted.is_existing
        async with failing(own_mongo, ["insert"], closeConnection=True):
            assert await store.write_each([DocumentWrite("tasks", "a", None, b"")]) == [1]


async def test_a_lease_whose_answer_is_lost_expires(own_mongo: MongoServer) -> None:
    """The driver does not repeat a write to many documents: no caller knows of the lease."""
    async with await open_mongo(own_mongo.url) as store:
        await store.insert([a_job()], NOW)
        async with failing(own_mongo, ["find"], 2, closeConnection=True, appName="rota"):
            with pytest.raises(StoreUnavailableError) as caught:
                await store.lease(REQUEST, NOW)
        assert caught.value.details["outcome"] == "unknown"
        (leased,) = await store.lease(REQUEST, NOW)
        late = NOW + 2 * MINUTE
        (expired,) = await store.find_expired(late, 10)
        assert expired == leased
        await store.apply([decide_outcome(expired, Lost(), late)], late)
        assert len(await store.lease(REQUEST, late + MINUTE)) == 1


async def test_a_demoted_primary_is_waited_for(
    own_mongo: MongoServer,
) -> None:
    """Reads and writes are asked again at once; a worker outlasts what that does not help."""
    clock, done = VirtualClock(NOW), []
    job = a_job(kind="kind")

    async def handle(context: Context) -> None:
        done.append(context.job.id)

    async with await open_mongo(own_mongo.url) as store:
        async with failing(own_mongo, ["insert"], errorCode=NOT_PRIMARY):
            await store.insert([job], NOW)
        async with failing(own_mongo, ["find"], errorCode=NOT_PRIMARY):
            assert list(await store.get("default", [job.id])) == [job.id]
        async with failing(own_mongo, ["update"], 3, errorCode=NOT_PRIMARY):
            worker = Worker(store, {"kind": handle}, clock=clock)
            running = asyncio.create_task(worker.run())
            await clock.advance(timedelta(seconds=40))
            worker.stop()
            await clock.run(running)
        assert done == [job.id]
        assert (await store.get("default", [job.id]))[job.id].status is JobStatus.COMPLETED


async def test_a_primary_that_steps_down_loses_nothing(own_mongo: MongoServer) -> None:
    async with await open_mongo(own_mongo.url) as store:
        jobs = [a_job() for _ in range(3)]
        await store.insert(jobs, NOW)
        async with AsyncMongoClient[Raw](own_mongo.direct_url) as client:
            await client.admin.command({"replSetStepDown": 1, "force": True})
        leased = await _until_available(store)
        keeper = store.make_keeper()
        try:
            held = [HeldLease(job.id, job.last_token) for job in leased]
            assert keeper.extend(held, NOW + 2 * MINUTE, NOW) == [True] * 3
        finally:
            keeper.close()
        settled = await store.apply(
            [decide_outcome(each, Succeeded(), NOW) for each in leased], NOW
        )
        assert not any(each.is_stale for each in settled)


async def _until_available(store: MongoStore) -> list[Any]:
    while True:
        try:
            return list(await store.lease(REQUEST, NOW))
        except StoreUnavailableError as error:
            assert "takes writes" in error.details["reason"]  # noqa: PT017 - and then once more
