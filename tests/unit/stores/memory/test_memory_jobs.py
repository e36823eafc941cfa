"""Jobs in memory: beside the rules, in any order of happenings."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.jobs import (
    Discarded,
    Job,
    JobId,
    JobStatus,
    Succeeded,
    decide_dependents,
    decide_outcome,
    select_next,
)
from rota.stores.memory import MemoryStore
from rota.testing import a_job
from rota.testing.job_store_fixture import DAY, NOW, SECOND, a_request, everything, take

always = settings(max_examples=60, deadline=None, derandomize=True)


def a_family(random: Random, size: int) -> list[Job]:
    """Jobs of which each depends on up to three of those before it, with any policy."""
    jobs: list[Job] = []
    for _ in range(size):
        near = [job.id for job in jobs]
        chosen = random.sample(near, random.randint(0, min(3, len(near))))
        policy = random.choice(["block", "block", "run", "skip"])
        priority = random.randint(1, 10)
        jobs.append(a_job(dependencies=chosen, priority=priority, on_parent_failure=policy))
    return jobs


@given(st.integers(0, 100_000), st.integers(1, 15), st.floats(0, 0.5))
@always
async def test_dependents_follow_the_rules_in_any_order_of_ends(
    seed: int, size: int, share_of_failures: float
) -> None:
    random = Random(seed)
    store = MemoryStore()
    family = a_family(random, size)
    await store.insert(family, NOW)
    expected = {job.id: job for job in family}
    running: list[Job] = []
    released: list[JobId] = []
    while running or any(job.status is JobStatus.READY for job in expected.values()):
        for leased in await take(store, limit=random.randint(1, 3)):
            expected[leased.id] = leased
            running.append(leased)
        ended = running.pop(random.randrange(len(running)))
        is_failure = random.random() < share_of_failures
        change = decide_outcome(ended, Discarded("no") if is_failure else Succeeded(), NOW)
        (applied,) = await store.apply([change], NOW)
        consequences = decide_dependents(change.job, expected.values(), NOW)
        told = {*applied.released, *applied.blocked}
        assert told == {consequence.job_id for consequence in consequences}
        released += applied.released
        for each in (change, *consequences):
            expected[each.job_id] = each.job
        assert {job.id: job for job in await everything(store)} == expected
    assert len(released) == len(set(released))


@given(st.integers(0, 100_000))
@always
async def test_leases_agree_with_the_rules_while_jobs_come_and_change(seed: int) -> None:
    random = Random(seed)
    store = MemoryStore()
    known: dict[JobId, Job] = {}
    for step in range(30):
        now = NOW + step * SECOND
        if known and random.random() < 0.3:
            fields = {
                "priority": random.randint(1, 10),
                "due_at": now + random.randint(-9, 9) * SECOND,
            }
            chosen = random.choice(sorted(known))
            known[chosen] = await store.amend("default", chosen, fields, now)
        else:
            job = a_job(due_at=now + random.randint(-3, 9) * SECOND, queue=random.choice("ab"))
            known[job.id] = job
            await store.insert([job], now)
        soonest = min(job.due_at for job in known.values())
        assert await store.next_due_at(now) == max(soonest, now)
        if random.random() < 0.4:
            limit = random.randint(1, 4)
            expected = select_next(known.values(), 0, limit, now)
            leased = await take(store, now, limit=limit)
            assert [job.id for job in leased] == [job.id for job in expected]
            for job in leased:
                await store.delete("default", job.id)
                del known[job.id]
        if not known:
            break


def test_no_verb_suspends_its_caller() -> None:
    store = MemoryStore()
    job = a_job()
    calls = [
        store.insert([job], NOW),
        store.lease(a_request(), NOW),
        store.extend([], NOW, NOW),
        store.apply([], NOW),
        store.amend("default", job.id, {"priority": 1}, NOW),
        store.delete("default", job.id),
        store.prune(NOW, 1),
    ]
    for call in calls:
        with pytest.raises(StopIteration):
            call.send(None)


async def test_indexes_do_not_remember_what_is_gone() -> None:
    store = MemoryStore()
    parent = a_job(idempotency_key="key")
    child = a_job(dependencies=[parent.id])
    await store.insert([parent, child], NOW)
    for _ in range(2):
        (leased,) = await take(store)
        await store.apply([decide_outcome(leased, Succeeded(), NOW)], NOW)
    assert (await store.prune(NOW + DAY, 10)).removed == 2
    tables = store._tables
    assert (tables.jobs, tables.leased, tables._identities, dict(tables.attempts)) == (
        {},
        {},
        {},
        {},
    )
    assert dict(tables._dependents) == {}
