"""How often the server is asked: by the batch, not by the job.

A thousand jobs take a stand-in for MongoDB minutes. There, what is counted is counted with fewer,
unless ROTA_TEST_PATIENTLY=1 asks for all of it; then say ``--timeout=1200``.
"""

from datetime import UTC, datetime, timedelta

import pytest
from tests.servers.patience import is_patient, open_patiently
from tests.unit.stores.mongo.overheard import WRITES, Overheard, overhear

from rota.jobs import Discarded, Job, JobStatus, Succeeded, decide_outcome
from rota.stores.mongo.jobs.queries import IDS_AT_ONCE, VALUES_AT_ONCE
from rota.stores.mongo.store import MongoStore
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MANY = 1_000 if is_patient() else 10

A_STEP = 6
"""Declare, stage, commit, reveal (what stays, what goes), forget."""
READ_BEFORE = 6
"""The jobs, who waits for them, what else those wait for; what may go, and keys that are taken."""


@pytest.fixture
def overheard(monkeypatch: pytest.MonkeyPatch) -> Overheard:
    return overhear(monkeypatch)


async def _lease(store: MongoStore, limit: int) -> list[Job]:
    request = LeaseRequest(worker="worker", limit=limit, lease_for=timedelta(hours=1))
    return await store.lease(request, NOW)


async def test_a_batch_of_plain_jobs_costs_a_handful_of_commands(
    mongo_url: str, overheard: Overheard
) -> None:
    async with await open_patiently(mongo_url) as store:
        for count in (3, MANY // 2):
            overheard.clear()
            await store.insert([a_job() for _ in range(count)], NOW)
            batches = -(-count // IDS_AT_ONCE)
            assert len(overheard.commands) <= A_STEP + 2 * batches
            overheard.clear()
            leased = await _lease(store, count)
            assert len(leased) == count
            assert overheard.counts == {"find": 3 + batches, "update": batches}
            overheard.clear()
            changes = [decide_outcome(job, Succeeded(), NOW) for job in leased]
            assert not any(answer.is_stale for answer in await store.apply(changes, NOW))
            assert overheard.counts == {"update": 1}


async def test_what_is_left_of_a_line_is_leased_without_looking_again(
    mongo_url: str, overheard: Overheard
) -> None:
    async with await open_patiently(mongo_url) as store:
        await store.insert([a_job() for _ in range(3)], NOW)
        overheard.clear()
        assert len(await _lease(store, 10)) == 3
        assert overheard.counts == {"find": 3, "update": 1}


async def test_jobs_of_many_tenants_are_leased_as_those_of_one(
    mongo_url: str, overheard: Overheard
) -> None:
    jobs = [a_job(tenant=tenant) for tenant in "abcde" for _ in range(2)]
    async with await open_patiently(mongo_url) as store:
        await store.insert(jobs, NOW)
        overheard.clear()
        request = LeaseRequest(
            worker="worker", limit=20, lease_for=timedelta(hours=1), after_tenant="c"
        )
        leased = await store.lease(request, NOW)
        assert [job.tenant for job in leased] == list("ddeeaabbcc")
        assert overheard.counts == {"find": 4, "update": 1}


async def test_jobs_for_which_others_wait_are_settled_in_one_step(
    mongo_url: str, overheard: Overheard
) -> None:
    async with await open_patiently(mongo_url) as store:
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
            assert len(overheard.commands) <= 1 + 1 + READ_BEFORE + A_STEP
            released = await _lease(store, count)
            assert {job.id for job in released} == {child.id for child in children}


async def test_a_cascade_asks_once_for_each_level_of_a_chain(
    mongo_url: str, overheard: Overheard
) -> None:
    chain = [a_job()]
    for _ in range(MANY):
        chain.append(a_job(dependencies=[chain[-1].id]))
    await _fail_the_first(mongo_url, overheard, chain)
    assert overheard.counts["find"] <= len(chain) + READ_BEFORE


async def test_a_cascade_asks_once_however_many_wait_for_one_job(
    mongo_url: str, overheard: Overheard
) -> None:
    first = a_job()
    fan = [first, *(a_job(dependencies=[first.id]) for _ in range(MANY))]
    await _fail_the_first(mongo_url, overheard, fan)
    assert overheard.counts["find"] <= READ_BEFORE + -(-len(fan) // VALUES_AT_ONCE)


async def _fail_the_first(mongo_url: str, overheard: Overheard, family: list[Job]) -> None:
    """All others are blocked by it, in a number of writes that hardly grows with theirs."""
    async with await open_patiently(mongo_url) as store:
        await store.insert(family, NOW)
        (leased,) = await _lease(store, 10)
        overheard.clear()
        (answer,) = await store.apply([decide_outcome(leased, Discarded("no"), NOW)], NOW)
        assert len(answer.blocked) == len(family) - 1
        assert len(overheard.of(WRITES)) <= A_STEP + 2 * -(-len(family) // 250)
        heard = list(overheard.commands)
        kept = await store.get("default", [job.id for job in family[1:]])
        assert {job.status for job in kept.values()} == {JobStatus.BLOCKED}
        overheard.commands[:] = heard
