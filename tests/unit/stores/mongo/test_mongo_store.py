"""What only this store does: servers that go away, steps that are met half-way, damage."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pymongo import AsyncMongoClient
from tests.servers.mongo import MongoServer, open_mongo

from rota.errors import StoreUnavailableError, UnsupportedConnectionError
from rota.jobs import JobStatus, Lost, decide_outcome
from rota.runtime.wiring import inspect_store, migrate_store, open_store
from rota.stores.mongo.address import read_address
from rota.stores.mongo.gateway import Query, Raw
from rota.stores.mongo.schema.preparation import SCHEMA_VERSION
from rota.stores.mongo.steps.names import INTENTS, JOBS, SCHEMA
from rota.stores.mongo.steps.step import StagedWrite, Step
from rota.stores.mongo.store import MongoStore
from rota.stores.protocol import DocumentWrite, HeldLease, LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
REQUEST = LeaseRequest(worker="worker", limit=10, lease_for=MINUTE)


async def test_a_step_under_way_is_not_seen_and_does_not_last(mongo_url: str) -> None:
    job = a_job()
    async with await open_mongo(mongo_url) as store, await open_mongo(mongo_url) as other:
        await store.insert([job], NOW)
        step = Step(store._gateway)
        await step.begin()
        assert await step.stage(JOBS, [StagedWrite(JOBS, job.id, 1, None)])
        assert await other.get("default", [job.id]) == {job.id: job}
        (leased,) = await other.lease(REQUEST, NOW)
        assert leased.id == job.id
        assert not await step.commit()
        assert (await store.get("default", [job.id]))[job.id].status is JobStatus.RUNNING


async def test_a_keeper_clears_what_somebody_has_left_on_a_job(mongo_url: str) -> None:
    async with await open_mongo(mongo_url) as store:
        await store.insert([a_job()], NOW)
        (leased,) = await store.lease(REQUEST, NOW)
        step = Step(store._gateway)
        await step.begin()
        assert await step.stage(JOBS, [StagedWrite(JOBS, leased.id, 2, None)])
        keeper = store.make_keeper()
        try:
            held = [HeldLease(leased.id, leased.last_token), HeldLease(leased.id, 7)]
            assert keeper.extend(held, NOW + 5 * MINUTE, NOW) == [True, False]
        finally:
            keeper.close()
        kept = (await store.get("default", [leased.id]))[leased.id]
        assert kept.lease
        assert kept.lease.until == NOW + 5 * MINUTE


async def test_a_job_that_cannot_be_read_is_set_aside_and_holds_up_nobody(mongo_url: str) -> None:
    damaged, whole = a_job(), a_job()
    async with (
        await open_mongo(mongo_url) as store,
        AsyncMongoClient[Raw](mongo_url) as client,
    ):
        await store.insert([damaged], NOW)
        await store.insert([whole], NOW)
        jobs = client.get_default_database()[JOBS]
        await jobs.update_one({"_id": damaged.id}, {"$set": {"body": b"{"}})
        assert [job.id for job in await store.lease(REQUEST, NOW)] == [whole.id]
        assert await store.find_expired(NOW + MINUTE * 2, 10) != []
        assert [job.id for job in (await store.find("default")).items] == [whole.id]
        (raw,) = await jobs.find({"_id": damaged.id}).to_list()
        assert (raw["status"], raw["body"]) == ("DAMAGED", b"{")
    assert (await inspect_store(mongo_url)).set_aside_job_count == 1


async def test_a_store_is_inspected_and_migrated_by_its_address(mongo_url: str) -> None:
    found = await inspect_store(mongo_url)
    assert (found.exists, found.kind, len(found.pending)) == (False, "MongoDB", SCHEMA_VERSION)
    report = await migrate_store(mongo_url)
    assert (report.schema_version, len(report.applied)) == (SCHEMA_VERSION, SCHEMA_VERSION)
    async with await open_store(mongo_url) as store:
        await store.insert([a_job()], NOW)
        await store.write_each([DocumentWrite("tasks", "a", None, b"")])
        assert await store.read_clock() is not None
    found = await inspect_store(mongo_url)
    assert found.is_up_to_date
    assert (found.document_counts, found.job_counts) == ({"tasks": 1}, {"READY": 1})
    assert (await migrate_store(mongo_url)).applied == ()


async def test_a_database_of_a_later_version_is_refused(mongo_url: str) -> None:
    await migrate_store(mongo_url)
    async with AsyncMongoClient[Raw](mongo_url) as client:
        mark = client.get_default_database()[SCHEMA]
        await mark.update_one({"_id": "schema"}, {"$set": {"version": SCHEMA_VERSION + 1}})
    assert "upgrade Rota" in ((await inspect_store(mongo_url)).problem or "")
    with pytest.raises(Exception, match="upgrade Rota"):
        await open_store(mongo_url)


async def test_no_transaction_is_taken_part_in(mongo_url: str) -> None:
    async with await open_mongo(mongo_url) as store:
        with pytest.raises(UnsupportedConnectionError):
            await store.insert_within(object(), [], NOW)
        with pytest.raises(UnsupportedConnectionError):
            await store.write_within(object(), [])
        with pytest.raises(UnsupportedConnectionError):
            await store.read_within(object(), "tasks", [])


async def test_a_server_killed_and_started_again_has_all_that_was_acknowledged(
    own_mongo: MongoServer,
) -> None:
    settings = replace(read_address(own_mongo.url), connect_for=timedelta(seconds=2))
    parent = a_job()
    child = a_job(dependencies=[parent.id])
    async with await MongoStore.open(settings) as store:
        await store.insert([parent, child], NOW)
        (leased,) = await store.lease(REQUEST, NOW)
        own_mongo.kill()
        with pytest.raises(StoreUnavailableError) as caught:
            await store.insert([a_job()], NOW)
        assert caught.value.details["outcome"] in {"unknown", "nothing was written"}
    own_mongo.restart()
    async with await open_mongo(own_mongo.url) as again:
        late = NOW + 2 * MINUTE
        (expired,) = await again.find_expired(late, 10)
        assert expired == leased
        await again.apply([decide_outcome(expired, Lost(), late)], late)
        kept = await again.get("default", [parent.id, child.id])
        assert [kept[job.id].status for job in (parent, child)] == [
            JobStatus.READY,
            JobStatus.PENDING,
        ]
        assert await again._gateway.find(_everything(INTENTS)) == []


def _everything(collection: str) -> Query:
    return Query(collection, {})
