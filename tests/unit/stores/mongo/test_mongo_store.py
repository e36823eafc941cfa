"""What only this store does: servers it refuses, servers that go away, damage, old layouts."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace as replace_job
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from tests.servers.mongo import MongoServer, open_mongo

from rota.errors import (
    InvalidInputError,
    SchemaOutdatedError,
    StoreUnavailableError,
    UnsupportedConnectionError,
)
from rota.jobs import Job, JobStatus, Lost, Succeeded, decide_outcome
from rota.runtime.wiring import inspect_store, migrate_store, open_store
from rota.stores.mongo.address import read_address
from rota.stores.mongo.connection import DOCUMENTS, JOBS, SCHEMA, Raw
from rota.stores.mongo.lease import WIDEST, Spread
from rota.stores.mongo.rows import encode_job
from rota.stores.mongo.schema import INDEXES, SCHEMA_VERSION
from rota.stores.mongo.store import MongoStore
from rota.stores.protocol import Cap, DocumentWrite, HeldLease, LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
REQUEST = LeaseRequest(worker="worker", limit=10, lease_for=MINUTE)


async def test_a_keeper_extends_what_is_held_and_nothing_else(mongo_url: str) -> None:
    async with await open_mongo(mongo_url) as store:
        await store.insert([a_job()], NOW)
        (leased,) = await store.lease(REQUEST, NOW)
        keeper = store.make_keeper()
        try:
            held = [HeldLease(leased.id, leased.last_token), HeldLease(leased.id, 7)]
            assert keeper.extend(held, NOW + 5 * MINUTE, NOW) == [True, False]
            assert keeper.extend(held[:1], NOW + 5 * MINUTE, NOW) == [True]
        finally:
            keeper.close()
        kept = (await store.get("default", [leased.id]))[leased.id]
        assert kept.lease
        assert kept.lease.until == NOW + 5 * MINUTE


async def test_an_unreadable_job_is_set_aside_and_delays_no_other(mongo_url: str) -> None:
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


async def test_a_server_outside_a_replica_set_is_refused_with_the_way_out(
    lone_mongo: MongoServer,
) -> None:
    with pytest.raises(StoreUnavailableError, match=r"--replSet rs0.*rs\.initiate\(\)"):
        await open_mongo(lone_mongo.url)


async def test_a_record_that_mongodb_cannot_store_is_refused(mongo_url: str) -> None:
    large = "x" * (17 << 20)
    async with await open_mongo(mongo_url) as store:
        with pytest.raises(InvalidInputError, match="16 MiB"):
            await store.insert([a_job(payload={"text": large})], NOW)
        with pytest.raises(InvalidInputError, match="16 MiB"):
            await store.insert([a_job(), a_job(payload={"text": large})], NOW)
        assert await store.count("default") == 0


async def test_a_large_job_is_leased_under_caps(mongo_url: str) -> None:
    large = a_job(payload={"text": "x" * (9 << 20)})
    async with await open_mongo(mongo_url) as store:
        await store.insert([large, a_job()], NOW)
        leased = await store.lease(replace_job(REQUEST, caps=(Cap(running=5),)), NOW)
        assert len(leased) == 2


async def test_every_index_is_there_once_a_store_is_opened(mongo_url: str) -> None:
    await migrate_store(mongo_url)
    async with AsyncMongoClient[Raw](mongo_url) as client:
        jobs = client.get_default_database()[JOBS]
        await jobs.drop_index("due")
        await (await open_mongo(mongo_url)).close()
        assert set(await jobs.index_information()) == {"_id_", *(each.name for each in INDEXES)}


async def test_jobs_can_be_sharded_by_tenant() -> None:
    unique = [index for index in INDEXES if index.is_unique]
    assert [index.keys[0][0] for index in unique] == ["tenant"]


async def _make_version_2(database: "AsyncDatabase[Raw]", jobs: Sequence[Job]) -> None:
    """The layout of the last version without transactions."""
    for job in jobs:
        raw = encode_job(job, NOW)
        raw["lane"] = raw.pop("phase", None)
        raw["version"] = 1
        if raw["lane"] is None:
            del raw["lane"]
        if "key" in raw:
            raw["keys"] = [raw["key"]]
        raw.pop("ended_at", None)
        await database[JOBS].insert_one(raw)
    await database[JOBS].create_index([("keys", 1)], name="keys", unique=True, sparse=True)
    await database[JOBS].create_index([("lock", 1)], name="claims", sparse=True)
    await database[DOCUMENTS].create_index([("lock", 1)], name="claims", sparse=True)
    await database[SCHEMA].insert_one({"_id": "schema", "version": 2})


async def test_a_database_of_the_version_before_transactions_is_migrated(mongo_url: str) -> None:
    parent, keyed = a_job(), a_job(idempotency_key="key")
    child = replace_job(a_job(dependencies=[parent.id]), status=JobStatus.PENDING)
    ended = replace_job(a_job(), status=JobStatus.COMPLETED)
    async with AsyncMongoClient[Raw](mongo_url) as client:
        database = client.get_default_database()
        await client.drop_database(database.name)
        await _make_version_2(database, [parent, keyed, child, ended])
        await database["rota_intents"].insert_one({"_id": "step", "state": "pending"})
        with pytest.raises(SchemaOutdatedError, match="not finished"):
            await open_mongo(mongo_url)
        await database["rota_intents"].delete_many({})
    assert [each.number for each in (await inspect_store(mongo_url)).pending] == [3, 4]
    async with await open_mongo(mongo_url) as store:
        (twin,) = await store.insert([a_job(idempotency_key="key")], NOW)
        assert (twin.job.id, twin.is_existing) == (keyed.id, True)
        leased = {job.id: job for job in await store.lease(REQUEST, NOW)}
        assert leased.keys() == {parent.id, keyed.id}
        (done,) = await store.apply([decide_outcome(leased[parent.id], Succeeded(), NOW)], NOW)
        assert done.released == (child.id,)
        assert (await store.prune(NOW + MINUTE, 10)).removed == 1
    assert (await migrate_store(mongo_url)).applied == ()


async def test_listeners_of_other_processes_are_woken(mongo_url: str) -> None:
    async with (
        await open_mongo(mongo_url) as store,
        await open_mongo(mongo_url) as other,
        other.listen(queues=["mail"]) as listener,
    ):
        await store.insert([a_job(queue="report")], NOW)
        waiting = asyncio.create_task(listener.wait())
        await store.insert([a_job(queue="mail")], NOW)
        async with asyncio.timeout(20):
            await waiting


async def test_two_callers_that_lease_at_once_start_at_different_jobs(mongo_url: str) -> None:
    """After a claim that another caller won, a caller passes over some jobs of equal priority."""
    spread = Spread()
    assert (spread.window(10), spread.choose_start(10, [5] * 30)) == (10, 0)
    spread.note("worker", 10, 4)
    assert spread.window(10) == 30
    starts = {spread.choose_start(10, [5] * 20) for _ in range(200)}
    assert starts == set(range(11))
    assert spread.choose_start(10, [5] * 8 + [1] * 12) == 0, "never past a higher priority"
    spread.note("worker", 10, 10)
    assert spread.window(10) == 29, "it shrinks slowly"
    for _ in range(20):
        spread.note("worker", 10, 4)
    assert spread.window(10) == 10 + WIDEST
    for _ in range(200):
        spread.note("worker", 10, 10)
    assert spread.window(10) == 10
    jobs = [a_job() for _ in range(200)]
    async with await open_mongo(mongo_url) as store, await open_mongo(mongo_url) as other:
        await store.insert(jobs, NOW)
        taken: list[Job] = []
        while len(taken) < len(jobs):
            for leased in await asyncio.gather(
                store.lease(REQUEST, NOW), other.lease(REQUEST, NOW)
            ):
                taken += leased
        assert {job.id for job in taken} == {job.id for job in jobs}
        assert {job.last_token for job in taken} == {1}


async def test_callers_that_lease_at_once_seldom_want_the_same_jobs(
    mongo_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four callers drain one line: most of what each of them tries to claim is still free."""
    claims: list[tuple[int, int]] = []
    whole = Spread.note

    def note(spread: Spread, worker: str, chosen_count: int, leased_count: int) -> None:
        claims.append((chosen_count, leased_count))
        whole(spread, worker, chosen_count, leased_count)

    monkeypatch.setattr(Spread, "note", note)
    jobs = [a_job() for _ in range(1_200)]
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(await open_mongo(mongo_url)) for _ in range(4)]
        await stores[0].insert(jobs, NOW)
        for _ in range(20):
            wants = [replace_job(REQUEST, worker=f"w{number}") for number in range(4)]
            asked = zip(stores, wants, strict=True)
            leased = await asyncio.gather(*(store.lease(want, NOW) for store, want in asked))
            assert [len(each) for each in leased] == [10] * 4
    chosen, taken = (sum(each) for each in zip(*claims, strict=True))
    assert taken == 800
    assert chosen < 1.5 * taken, f"{chosen - taken} of {chosen} claims were lost to others"


async def test_one_caller_leases_in_order_even_after_contention(mongo_url: str) -> None:
    jobs = [a_job() for _ in range(40)]
    async with await open_mongo(mongo_url) as store:
        await store.insert(jobs, NOW)
        leased = [job.id for _ in range(4) for job in await store.lease(REQUEST, NOW)]
        assert leased == sorted(job.id for job in jobs)
