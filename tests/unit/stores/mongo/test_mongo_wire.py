"""What is agreed with every server, and what becomes of a server that is not the primary."""

from datetime import UTC, datetime, timedelta

import pytest
from pymongo import AsyncMongoClient, ReadPreference
from tests.servers.mongo import open_mongo
from tests.unit.stores.mongo.overheard import WRITES, Overheard, overhear

from rota.jobs import Succeeded, decide_outcome
from rota.stores.mongo.address import read_address
from rota.stores.mongo.connection import options
from rota.stores.mongo.gateway import Raw
from rota.stores.protocol import DocumentWrite, LeaseRequest
from rota.testing.builders import a_job

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
    async with await open_mongo(f"{mongo_url}&w=1&journal=false") as store:
        await store.insert([parent, child], NOW)
        await store.insert([brief], NOW)
        leased = await store.lease(REQUEST, NOW)
        await store.apply([decide_outcome(job, Succeeded(), NOW) for job in leased], NOW)
        await store.write_each([DocumentWrite("tasks", "a", None, b"")])
        await store.delete("default", child.id)
    writes = overheard.of(WRITES)
    assert {next(iter(command)) for command in writes} >= {"insert", "update", "delete"}
    for command in writes:
        assert command.get("writeConcern") == {"w": "majority", "j": True}, command


async def test_every_read_is_the_primarys(mongo_url: str, overheard: Overheard) -> None:
    async with await open_mongo(f"{mongo_url}&readPreference=secondary") as store:
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
