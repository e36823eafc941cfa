"""Results in their own collection, and the ends of jobs that other processes hear."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from pymongo import AsyncMongoClient
from tests.servers.mongo import open_mongo
from tests.unit.stores.mongo.overheard import Overheard, overhear

from rota.jobs import Discarded, Succeeded, decide_outcome
from rota.stores.mongo.connection import RESULTS, Raw
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
REQUEST = LeaseRequest(worker="worker", limit=10, lease_for=MINUTE)


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Overheard:
    return overhear(monkeypatch)


async def test_listeners_of_other_processes_hear_the_end_of_a_job(mongo_url: str) -> None:
    plain, parent = a_job(), a_job()
    child = a_job(dependencies=[parent.id])
    async with await open_mongo(mongo_url) as store, await open_mongo(mongo_url) as other:
        await store.insert([plain, parent, child, a_job()], NOW)
        leased = {job.id: job for job in await store.lease(REQUEST, NOW)}
        for ended, outcome in ((plain, Succeeded(b"7")), (parent, Discarded("no"))):
            async with other.listen_for_end(ended.tenant, [ended.id]) as listener:
                waiting = asyncio.create_task(listener.wait())
                await store.apply([decide_outcome(leased[ended.id], outcome, NOW)], NOW)
                await asyncio.wait_for(waiting, 20)
        assert await other.results(plain.tenant, [plain.id]) == {plain.id: b"7"}


async def test_a_blocked_and_a_deleted_job_are_heard_by_other_processes(mongo_url: str) -> None:
    parent, later = a_job(), a_job(due_at=NOW + MINUTE)
    child = a_job(dependencies=[parent.id])
    async with await open_mongo(mongo_url) as store, await open_mongo(mongo_url) as other:
        await store.insert([parent, child, later], NOW)
        async with other.listen_for_end(child.tenant, [child.id]) as listener:
            (leased,) = await store.lease(REQUEST, NOW)
            await store.apply([decide_outcome(leased, Discarded("no"), NOW)], NOW)
            async with asyncio.timeout(20):
                await listener.wait()
        async with other.listen_for_end(later.tenant, [later.id]) as listener:
            await store.delete(later.tenant, later.id)
            async with asyncio.timeout(20):
                await listener.wait()


async def test_a_result_that_lost_its_lease_leaves_nothing_behind(mongo_url: str) -> None:
    job, gone = a_job(), a_job()
    async with await open_mongo(mongo_url) as store:
        await store.insert([job, gone], NOW)
        first = {each.id: each for each in await store.lease(REQUEST, NOW)}
        done = decide_outcome(first[job.id], Succeeded(b"1"), NOW)
        assert not (await store.apply([done], NOW))[0].is_stale
        assert (await store.apply([done], NOW))[0].is_stale, "the answer to the first was lost"
        await store.delete(gone.tenant, gone.id)
        late = decide_outcome(first[gone.id], Succeeded(b"2"), NOW)
        assert (await store.apply([late], NOW))[0].is_stale
        assert await store.results(job.tenant, [job.id, gone.id]) == {job.id: b"1"}
    async with AsyncMongoClient[Raw](mongo_url) as client:
        kept = await client.get_default_database()[RESULTS].find().to_list()
        assert [raw["_id"] for raw in kept] == [job.id]


async def test_a_result_of_an_earlier_lease_is_replaced(mongo_url: str) -> None:
    """A worker died after it had written its result, and before it had completed the job."""
    job = a_job()
    async with await open_mongo(mongo_url) as store:
        await store.insert([job], NOW)
        async with AsyncMongoClient[Raw](mongo_url) as client:
            results = client.get_default_database()[RESULTS]
            await results.insert_one({"_id": job.id, "token": 0, "body": b"0"})
        assert await store.results(job.tenant, [job.id]) == {}
        (leased,) = await store.lease(REQUEST, NOW)
        await store.apply([decide_outcome(leased, Succeeded(b"1"), NOW)], NOW)
        assert await store.results(job.tenant, [job.id]) == {job.id: b"1"}


async def test_results_and_listeners_cost_only_those_who_use_them(
    mongo_url: str, overheard: Overheard
) -> None:
    jobs = [a_job() for _ in range(3)]
    async with await open_mongo(mongo_url) as store:
        await store.insert(jobs, NOW)
        plain, kept, watched = await store.lease(REQUEST, NOW)
        async with store.listen_for_end(watched.tenant, [watched.id]):
            expected = ((plain, None, 1), (kept, b"1", 2), (watched, None, 4))
            for job, result, most in expected:
                overheard.clear()
                await store.apply([decide_outcome(job, Succeeded(result), NOW)], NOW)
                sent = overheard.of(["insert", "update", "find", "commitTransaction"])
                assert len([each for each in sent if "partitions" not in str(each)]) <= most
