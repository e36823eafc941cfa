"""The end of a job concerns all that wait for it, in one step however many they are."""

import asyncio

import pytest

from rota.jobs import Discarded, JobFilter, JobStatus, Succeeded, decide_cancel, decide_outcome
from rota.stores.redis.store import RedisStore
from rota.testing import a_job
from rota.testing.job_store_fixture import NOW, end, take

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
