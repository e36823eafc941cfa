"""Error groups: found, retried and discarded as one."""

import pytest
from tests.unit.ops.conftest import NOW

from rota.errors import NotFoundError
from rota.jobs import JobStatus, RetryPolicy
from rota.ops.error_groups import (
    discard_group,
    find_error_group,
    find_group_letters,
    list_error_groups,
    retry_group,
)
from rota.rail import read_audit
from rota.rail.jobs import RailContext
from rota.stores.memory import MemoryStore
from rota.telemetry.error_groups import ErrorGroup
from rota.telemetry.stats_recorder import StatsRecorder
from rota.testing import VirtualClock, a_job
from rota.worker import Context, Worker

ONCE = RetryPolicy(max_attempts=1)


def charge(key: str) -> None:
    raise KeyError(key)


def refund(key: str) -> None:
    raise KeyError(key)


async def work(context: Context) -> None:
    (charge if context.payload["n"] % 2 else refund)(f"rota_secret {context.payload['n']}")


async def fail_jobs(store: MemoryStore, clock: VirtualClock, count: int = 5) -> None:
    """Odd numbers fail at one place, even ones at another."""
    worker, stats = Worker(store, {"work": work}, clock=clock), StatsRecorder(store, clock)
    stats.follow(worker.events)
    jobs = [a_job(kind="work", payload={"n": it}, retry_policy=ONCE) for it in range(count)]
    await store.insert(jobs, NOW)
    await worker.run_once()
    await stats.flush()


async def find_odd(store: MemoryStore) -> ErrorGroup:
    groups = await list_error_groups(store, "default")
    return next(it for it in groups if it.place.endswith("test_error_groups.py:charge"))


async def test_failures_at_two_places_are_two_groups(
    store: MemoryStore, clock: VirtualClock, around: RailContext
) -> None:
    await fail_jobs(store, clock)
    groups = await list_error_groups(store, "default")
    assert sorted((it.name, it.count, it.dead_count) for it in groups) == [
        ("KeyError", 2, 2),
        ("KeyError", 3, 3),
    ]
    odd = await find_odd(store)
    letters = await find_group_letters(around, odd)
    assert {job.payload["n"] for job in letters.jobs} == {1, 3}
    assert (await find_group_letters(around, odd, limit=1)).has_more
    assert await list_error_groups(store, "default", kind="other") == ()
    with pytest.raises(NotFoundError):
        await find_error_group(store, "other", odd.id)


async def test_a_retried_group_leaves_the_other_alone(
    store: MemoryStore, clock: VirtualClock, around: RailContext
) -> None:
    await fail_jobs(store, clock)
    odd = await find_odd(store)
    letters = await find_group_letters(around, odd)
    retried = await retry_group(around, letters.ids, who="ann", why="fixed")
    assert set(retried.replacements) == set(letters.ids)
    again = (await store.get("default", [*retried.replacements.values()])).values()
    assert {(job.status, job.payload["n"] % 2) for job in again} == {(JobStatus.READY, 1)}
    assert (await find_group_letters(around, odd)).jobs == ()
    (entry,) = [it async for it in read_audit(store, "default")]
    assert (entry.action, entry.who, entry.why, len(entry.job_ids)) == ("retry", "ann", "fixed", 2)


async def test_a_discarded_group_keeps_what_others_depend_on(
    store: MemoryStore, clock: VirtualClock, around: RailContext
) -> None:
    await fail_jobs(store, clock)
    odd = await find_odd(store)
    letters = await find_group_letters(around, odd)
    await store.insert([a_job(dependencies=(letters.ids[0],))], NOW)
    gone = await discard_group(around, letters.ids, who="ann")
    assert (gone.discarded_count, gone.kept_count) == (1, 1)
    assert [*await store.get("default", letters.ids)] == [letters.ids[0]]
