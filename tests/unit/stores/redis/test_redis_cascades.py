"""The end of a job concerns all jobs that wait for it, however many they are."""

import asyncio

import pytest
from tests.contract.redis.filing import check_filing

from rota.errors import StoreUnavailableError
from rota.jobs import (
    Discarded,
    Job,
    JobFilter,
    JobStatus,
    Outcome,
    Succeeded,
    decide_cancel,
    decide_outcome,
)
from rota.stores.protocol import KeptJob
from rota.stores.redis import unit
from rota.stores.redis.store import RedisStore
from rota.testing import a_job
from rota.testing.job_store_fixture import DAY, NOW, end, take

MANY = 5_000
"""More than one script reads at once."""


@pytest.mark.parametrize("is_good", [True, False])
async def test_all_dependents_are_released_or_blocked_with_the_end(
    store: RedisStore, is_good: bool
) -> None:
    parent = a_job()
    children = [a_job(dependencies=[parent.id]) for _ in range(MANY)]
    await store.insert([parent, *children], NOW)
    (leased,) = await take(store)
    applied = await end(store, leased, Succeeded() if is_good else Discarded("no"))
    told = applied.released if is_good else applied.blocked
    assert list(told) == sorted(job.id for job in children)
    status = JobStatus.READY if is_good else JobStatus.BLOCKED
    assert await store.count("default", JobFilter(status=status)) == MANY


async def end_and_die(store: RedisStore, parent: Job, outcome: Outcome) -> None:
    """End a job in a process that dies before it has released or blocked all dependents."""

    async def die(*_: object) -> None:
        raise StoreUnavailableError("killed here", {"outcome": "nothing was written"})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(unit, "finish_intent", die)
        with pytest.raises(StoreUnavailableError) as caught:
            await end(store, parent, outcome)
    assert caught.value.details["outcome"] == "unknown"


@pytest.mark.parametrize("is_good", [True, False])
async def test_the_next_sweep_finishes_the_cascade_of_a_dead_process(
    store: RedisStore, redis_url: str, is_good: bool
) -> None:
    parent = a_job()
    await store.insert([parent, *(a_job(dependencies=[parent.id]) for _ in range(MANY))], NOW)
    (leased,) = await take(store)
    await end_and_die(store, leased, Succeeded() if is_good else Discarded("no"))
    assert await store.count("default", JobFilter(status=JobStatus.PENDING)) == MANY
    await store.find_expired(NOW, 10)
    status = JobStatus.READY if is_good else JobStatus.BLOCKED
    assert await store.count("default", JobFilter(status=status)) == MANY
    await asyncio.to_thread(check_filing, redis_url)


async def test_a_job_that_comes_amid_an_unfinished_end_finds_it_finished(
    store: RedisStore, redis_url: str
) -> None:
    parent, other = a_job(), a_job(due_at=NOW + DAY)
    children = [a_job(dependencies=[parent.id]) for _ in range(MANY)]
    await store.insert([parent, other, *children], NOW)
    (leased,) = await take(store)
    await end_and_die(store, leased, Succeeded())
    late = a_job(dependencies=[parent.id, other.id])
    await store.insert([late], NOW)
    found = await store.get("default", [late.id])
    assert found[late.id].status is JobStatus.PENDING
    assert await store.count("default", JobFilter(status=JobStatus.READY)) == MANY + 1
    await asyncio.to_thread(check_filing, redis_url)


async def test_a_dump_finishes_an_unfinished_end_first(store: RedisStore) -> None:
    parent = a_job()
    await store.insert([parent, *(a_job(dependencies=[parent.id]) for _ in range(MANY))], NOW)
    (leased,) = await take(store)
    await end_and_die(store, leased, Succeeded())
    portion = await store.dump(limit=2 * MANY)
    statuses = [record.job.status for record in portion.records if isinstance(record, KeptJob)]
    assert JobStatus.PENDING not in statuses


async def test_an_amendment_that_is_written_and_not_finished_is_in_doubt(
    store: RedisStore,
) -> None:
    failed, other = a_job(), a_job(due_at=NOW + DAY)
    parent = a_job(dependencies=[other.id])
    children = [a_job(dependencies=[parent.id]) for _ in range(MANY)]
    await store.insert([failed, other, parent, *children], NOW)
    (leased,) = await take(store)
    await end(store, leased, Discarded("no"))

    async def die(*_: object) -> None:
        raise StoreUnavailableError("killed here", {"outcome": "nothing was written"})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(unit, "finish_intent", die)
        with pytest.raises(StoreUnavailableError) as caught:
            await store.amend("default", parent.id, {"dependencies": [failed.id]}, NOW)
    assert caught.value.details["outcome"] == "unknown"
    assert (await store.get("default", [parent.id]))[parent.id].status is JobStatus.BLOCKED


async def test_a_long_chain_is_blocked_with_its_first_job(store: RedisStore) -> None:
    chain = [a_job()]
    while len(chain) < MANY:
        chain.append(a_job(dependencies=[chain[-1].id]))
    await store.insert(chain, NOW)
    (leased,) = await take(store)
    assert len((await end(store, leased, Discarded("no"))).blocked) == MANY - 1


async def test_a_change_behind_a_long_cascade_sees_all_of_it(store: RedisStore) -> None:
    parent = a_job()
    children = [a_job(dependencies=[parent.id]) for _ in range(MANY)]
    await store.insert([parent, *children], NOW)
    (leased,) = await take(store)
    last = max(children, key=lambda job: job.id)
    kept = (await store.get("default", [last.id]))[last.id]
    changes = [decide_outcome(leased, Discarded("no"), NOW), decide_cancel(kept, "no", NOW)]
    first, second = await store.apply(changes, NOW)
    assert len(first.blocked) == MANY
    assert second.is_stale


async def test_dependents_that_come_amid_an_end_are_not_forgotten(store: RedisStore) -> None:
    parents = [a_job() for _ in range(20)]
    await store.insert(parents, NOW)
    leased = await take(store, limit=20)

    async def add_dependents() -> None:
        for parent in parents:
            await store.insert([a_job(dependencies=[parent.id]) for _ in range(3)], NOW)

    await asyncio.gather(add_dependents(), *(end(store, job) for job in leased))
    assert await store.count("default", JobFilter(status=JobStatus.PENDING)) == 0
    assert await store.count("default", JobFilter(status=JobStatus.READY)) == 60
