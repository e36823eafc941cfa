"""What is agreed with every server, and what becomes of a server that is not the primary."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from pymongo import AsyncMongoClient, ReadPreference
from pymongo.errors import OperationFailure
from tests.servers.mongo import MongoServer
from tests.servers.patience import open_patiently
from tests.unit.stores.mongo.overheard import WRITES, Overheard, overhear

from rota.errors import StoreUnavailableError
from rota.jobs import JobStatus, Succeeded, decide_outcome
from rota.stores.mongo.address import read_address
from rota.stores.mongo.connection import options
from rota.stores.mongo.gateway import Raw
from rota.stores.protocol import DocumentWrite, LeaseRequest
from rota.testing import VirtualClock
from rota.testing.builders import a_job
from rota.worker import Context, Worker

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOT_PRIMARY = 10107
REQUEST = LeaseRequest(worker="worker", limit=10, lease_for=timedelta(minutes=1))


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Overheard:
    return overhear(monkeypatch)


async def test_every_write_is_to_be_on_the_disks_of_a_majority(
    mongo_url: str, overheard: Overheard
) -> None:
    parent, brief = a_job(), a_job(auto_remove=True)
    child = a_job(dependencies=[parent.id])
    async with await open_patiently(f"{mongo_url}&w=1&journal=false") as store:
        await store.insert([parent, child], NOW)
        await store.insert([brief], NOW)
        leased = await store.lease(REQUEST, NOW)
        await store.apply([decide_outcome(job, Succeeded(), NOW) for job in leased], NOW)
        await store.write_each([DocumentWrite("tasks", "a", None, b"")])
        await store.delete("default", child.id)
    writes = overheard.of(WRITES)
    assert {next(iter(command)) for command in writes} == WRITES - {"findAndModify"}
    for command in writes:
        assert command.get("writeConcern") == {"w": "majority", "j": True}, command


async def test_every_read_is_the_primarys(mongo_url: str, overheard: Overheard) -> None:
    async with await open_patiently(f"{mongo_url}&readPreference=secondary") as store:
        await store.find("default")
        await store.survey(NOW)
    asked = overheard.of(["find", "aggregate"])
    assert len(asked) >= 5
    for command in asked:
        told = command.get("$readPreference", {"mode": "primary"})
        assert told["mode"] in {"primary", "primaryPreferred"}, command  # the latter when direct


async def test_an_address_cannot_talk_the_driver_out_of_it() -> None:
    url = "mongodb://host/rota?w=1&journal=false&retryWrites=false&retryReads=false"
    settings = read_address(f"{url}&readPreference=nearest&readConcernLevel=available")
    client = AsyncMongoClient[Raw](settings.url, **options(settings))
    try:
        assert client.write_concern.document == {"w": "majority", "j": True}
        assert client.read_preference == ReadPreference.PRIMARY
        assert client.options.retry_writes
        assert client.options.retry_reads
        assert client.options.server_selection_timeout == settings.connect_for.total_seconds()
    finally:
        await client.close()


async def _refuse(server: MongoServer, commands: list[str], times: int) -> None:
    """Let the server say so many times that it is not the primary."""
    async with AsyncMongoClient[Raw](server.url) as client:
        data = {"failCommands": commands, "errorCode": NOT_PRIMARY}
        try:
            await client.admin.command(
                {"configureFailPoint": "failCommand", "mode": {"times": times}, "data": data}
            )
        except OperationFailure:
            pytest.skip("this server was started without enableTestCommands")


async def test_a_server_that_is_no_longer_the_primary_is_waited_for(
    own_mongo: MongoServer,
) -> None:
    """A read is asked again at once. A write is an error that says so; a worker outlasts it."""
    clock, done = VirtualClock(NOW), []
    job = a_job(kind="kind")

    async def handle(context: Context) -> None:
        done.append(context.job.id)

    async with await open_patiently(own_mongo.url) as store:
        await _refuse(own_mongo, ["insert"], 1)
        with pytest.raises(StoreUnavailableError) as caught:
            await store.insert([job], NOW)
        assert "the one that takes writes" in caught.value.details["reason"]
        await store.insert([job], NOW)
        await _refuse(own_mongo, ["find"], 1)
        assert list(await store.get("default", [job.id])) == [job.id]
        await _refuse(own_mongo, ["update"], 3)
        worker = Worker(store, {"kind": handle}, clock=clock)
        running = asyncio.create_task(worker.run())
        await clock.advance(timedelta(seconds=40))
        worker.stop()
        await clock.run(running)
        assert done == [job.id]
        assert (await store.get("default", [job.id]))[job.id].status is JobStatus.COMPLETED
