"""How often the server is asked: by the batch, not by the job."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from tests.servers.mongo import open_mongo
from tests.unit.stores.mongo.overheard import WRITES, Overheard, overhear

from rota.jobs import Discarded, Job, JobStatus, Succeeded, decide_outcome
from rota.stores.mongo.connection import WAKEUPS
from rota.stores.mongo.store import MongoStore
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MANY = 300


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Overheard:
    return overhear(monkeypatch)


async def _lease(store: MongoStore, limit: int, after_tenant: str = "") -> list[Job]:
    request = LeaseRequest(
        worker="worker", limit=limit, lease_for=timedelta(hours=1), after_tenant=after_tenant
    )
    return await store.lease(request, NOW)


async def test_a_batch_of_plain_jobs_costs_a_handful_of_commands(
    mongo_url: str, overheard: Overheard
) -> None:
    async with await open_mongo(mongo_url) as store:
        for count in (3, MANY):
            overheard.clear()
            await store.insert([a_job() for _ in range(count)], NOW)
            assert _count(overheard) == {"insert": 1, "commitTransaction": 1}
            overheard.clear()
            leased = await _lease(store, count)
            assert len(leased) == count
            assert overheard.counts["update"] == 1
            assert overheard.counts["find"] <= 4
            overheard.clear()
            changes = [decide_outcome(job, Succeeded(), NOW) for job in leased]
            assert not any(answer.is_stale for answer in await store.apply(changes, NOW))
            assert _count(overheard) == {"update": 1}


def _count(overheard: Overheard) -> Counter[str]:
    """Without wake-ups, which are sent beside the caller."""
    commands = (each for each in overheard.commands if each.get("insert") != WAKEUPS)
    return Counter(next(iter(command)) for command in commands)


@pytest.mark.parametrize("is_routed", [False, True])
async def test_single_jobs_of_one_moment_go_together_but_not_behind_a_mongos(
    mongo_url: str, overheard: Overheard, *, is_routed: bool
) -> None:
    """There a shard that is away would keep out the tenants of the others."""
    async with await open_mongo(mongo_url) as store:
        store._connection.is_routed = is_routed
        overheard.clear()
        await asyncio.gather(*(store.insert([a_job()], NOW) for _ in range(5)))
        expected = {"insert": 5} if is_routed else {"insert": 2, "commitTransaction": 1}
        assert _count(overheard) == expected


async def test_a_single_job_is_inserted_without_a_transaction(
    mongo_url: str, overheard: Overheard
) -> None:
    async with await open_mongo(mongo_url) as store:
        overheard.clear()
        await store.insert([a_job()], NOW)
        assert _count(overheard) == {"insert": 1}


async def test_the_last_jobs_are_leased_without_a_further_search(
    mongo_url: str, overheard: Overheard
) -> None:
    async with await open_mongo(mongo_url) as store:
        await store.insert([a_job() for _ in range(3)], NOW)
        overheard.clear()
        assert len(await _lease(store, 10)) == 3
        assert _count(overheard) == {"find": 3, "update": 1}


async def test_jobs_of_many_tenants_are_leased_as_those_of_one(
    mongo_url: str, overheard: Overheard
) -> None:
    jobs = [a_job(tenant=tenant) for tenant in "abcde" for _ in range(2)]
    async with await open_mongo(mongo_url) as store:
        await store.insert(jobs, NOW)
        overheard.clear()
        leased = await _lease(store, 20, after_tenant="c")
        assert [job.tenant for job in leased] == list("ddeeaabbcc")
        assert _count(overheard) == {"find": 4, "update": 1}


async def test_jobs_with_dependents_are_settled_in_one_transaction(
    mongo_url: str, overheard: Overheard
) -> None:
    async with await open_mongo(mongo_url) as store:
        for count in (2, 12):
            parents = [a_job() for _ in range(count)]
            children = [a_job(dependencies=[parent.id]) for parent in parents]
            brief = [a_job(auto_remove=True) for _ in range(2)]
            await store.insert([*parents, *children, *brief], NOW)
            leased = await _lease(store, count + 2)
            overheard.clear()
            changes = [decide_outcome(job, Succeeded(), NOW) for job in leased]
            answers = {each.job.id: each for each in await store.apply(changes, NOW) if each.job}
            assert [answers[each.id].released for each in parents] == [
                (child.id,) for child in children
            ]
            assert all(answers[each.id].is_removed for each in brief)
            assert overheard.counts["commitTransaction"] == 1
            assert len(overheard.commands) <= 12
            released = await _lease(store, count)
            assert {job.id for job in released} == {child.id for child in children}


async def test_a_cascade_asks_once_for_each_level_of_a_chain(
    mongo_url: str, overheard: Overheard
) -> None:
    chain = [a_job()]
    for _ in range(MANY):
        chain.append(a_job(dependencies=[chain[-1].id]))
    await _fail_the_first(mongo_url, overheard, chain)
    assert overheard.counts["find"] <= len(chain) + 3


async def test_a_cascade_asks_once_however_many_wait_for_one_job(
    mongo_url: str, overheard: Overheard
) -> None:
    first = a_job()
    fan = [first, *(a_job(dependencies=[first.id]) for _ in range(MANY))]
    await _fail_the_first(mongo_url, overheard, fan)
    assert overheard.counts["find"] <= 4


async def _fail_the_first(mongo_url: str, overheard: Overheard, jobs: list[Job]) -> None:
    """All others are blocked by it, in one transaction with one write command."""
    async with await open_mongo(mongo_url) as store:
        await store.insert(jobs, NOW)
        (leased,) = await _lease(store, 10)
        overheard.clear()
        (answer,) = await store.apply([decide_outcome(leased, Discarded("no"), NOW)], NOW)
        assert len(answer.blocked) == len(jobs) - 1
        assert len(overheard.of(WRITES)) == 1
        heard = list(overheard.commands)
        stored = await store.get("default", [job.id for job in jobs[1:]])
        assert {job.status for job in stored.values()} == {JobStatus.BLOCKED}
        overheard.commands[:] = heard
