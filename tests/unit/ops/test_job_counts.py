"""Counts of jobs by state: the same words and numbers as in the list."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.jobs import PAUSED_UNTIL, Ending, Job, JobFilter, JobState, JobStatus, find_state
from rota.jobs.record import Deferral, Lease, Recurrence
from rota.ops import job_counts
from rota.ops.job_counts import StateCounts, count_states
from rota.ops.search import search_jobs
from rota.search.query import JobQuery, parse_query
from rota.stores.memory import MemoryStore
from rota.stores.protocol import KeptJob
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def lease_until(until: datetime) -> Lease:
    return Lease(token=1, worker="w", taken_at=NOW - HOUR, until=until)


EVERY_HOUR = Recurrence(cron="0 * * * *", start=NOW - 2 * HOUR)

JOBS: dict[JobState, dict[str, Any]] = {
    JobState.PENDING: {"status": JobStatus.PENDING},
    JobState.SCHEDULED: {"due_at": NOW + HOUR},
    JobState.HELD: {
        "due_at": NOW + HOUR,
        "deferral": Deferral(reason="quiet_hours", until=NOW + HOUR),
    },
    JobState.RETRYING: {"due_at": NOW + HOUR, "attempt_count": 1},
    JobState.PAUSED: {"due_at": PAUSED_UNTIL, "is_paused": True, "recurrence": EVERY_HOUR},
    JobState.DUE: {"due_at": NOW - HOUR},
    JobState.RUNNING: {"status": JobStatus.RUNNING, "lease": lease_until(NOW + HOUR)},
    JobState.STALLED: {"status": JobStatus.RUNNING, "lease": lease_until(NOW - HOUR / 2)},
    JobState.COMPLETED: {"status": JobStatus.COMPLETED},
    JobState.DEAD: {"status": JobStatus.FAILED, "ending": Ending.EXHAUSTED},
    JobState.DISCARDED: {"status": JobStatus.FAILED, "ending": Ending.DISCARDED},
    JobState.CANCELLED: {"status": JobStatus.FAILED, "ending": Ending.CANCELLED},
    JobState.BLOCKED: {"status": JobStatus.BLOCKED},
}
"""What makes a job be in each state."""


async def load(store: MemoryStore, counts: dict[JobState, int], **fields: Any) -> list[Job]:
    jobs = [
        a_job(**{"created_at": NOW - 2 * HOUR, "kind": "mail", **JOBS[state], **fields})
        for state, count in counts.items()
        for _ in range(count)
    ]
    await store.load([KeptJob(job) for job in jobs], NOW)
    return jobs


async def count(store: MemoryStore, text: str = "", queue: str | None = None) -> StateCounts:
    query = parse_query(text, NOW).within(JobFilter(queue=queue))
    return await count_states(store, "default", query, NOW)


@pytest.mark.parametrize("text", ["", "kind:mail", "state:dead", "mail state:due,running"])
async def test_each_state_has_the_number_that_the_list_shows(store: MemoryStore, text: str) -> None:
    numbers = {state: place + 1 for place, state in enumerate(JobState)}
    jobs = await load(store, numbers)
    assert Counter(find_state(job, NOW) for job in jobs) == numbers
    assert await count(store, text) == StateCounts(counts=numbers)
    for state, number in numbers.items():
        page = await search_jobs(store, "default", parse_query(f"state:{state}", NOW), limit=100)
        assert {find_state(job, NOW) for job in page.items} == {state}
        assert len(page.items) == number


async def test_the_filter_narrows_the_counts(store: MemoryStore) -> None:
    await load(store, {JobState.DUE: 3, JobState.DEAD: 2}, queue="mail")
    await load(store, {JobState.DUE: 7, JobState.COMPLETED: 1}, queue="slow", kind="other")
    assert (await count(store, queue="mail")).counts[JobState.DUE] == 3
    assert (await count(store, "kind:other")).counts[JobState.DUE] == 7
    assert (await count(store, "kind:other")).counts[JobState.DEAD] == 0


async def test_of_many_jobs_a_count_says_at_least(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_counts, "MOST_COUNTED", 100)
    monkeypatch.setattr(job_counts, "SAMPLED", 100)
    await load(store, {JobState.COMPLETED: 101, JobState.DEAD: 120, JobState.PENDING: 100})
    found = await count(store)
    assert found.counts[JobState.COMPLETED] == found.counts[JobState.DEAD] == 100
    assert found.counts[JobState.PENDING] == 100
    assert set(found.at_least) == {
        JobState.COMPLETED,
        JobState.DEAD,
        JobState.DISCARDED,
        JobState.CANCELLED,
    }


async def test_due_running_and_dead_jobs_are_counted_behind_many_others(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_counts, "MOST_COUNTED", 100)
    monkeypatch.setattr(job_counts, "SAMPLED", 100)
    await load(store, {JobState.DUE: 2, JobState.DEAD: 3})
    newer = {JobState.SCHEDULED: 150, JobState.CANCELLED: 150}
    await load(store, newer, created_at=NOW - HOUR)
    found = await count(store)
    assert (found.counts[JobState.DUE], found.counts[JobState.DEAD]) == (2, 3)
    assert JobState.DUE not in found.at_least
    assert JobState.DEAD not in found.at_least
    assert {JobState.SCHEDULED, JobState.RETRYING, JobState.CANCELLED} <= set(found.at_least)
    since = JobFilter(created_after=NOW - 3 * HOUR)  # a survey knows nothing about this
    narrow = await count_states(store, "default", JobQuery(wanted=since), NOW)
    assert JobState.DUE in narrow.at_least


async def test_jobs_of_another_tenant_are_refused(store: MemoryStore) -> None:
    with pytest.raises(InvalidInputError, match='the tenant "other", but only jobs of "default"'):
        await count(store, "tenant:other")
    with pytest.raises(InvalidInputError, match='the tenant "other"'):
        await search_jobs(store, "default", parse_query("tenant:other"))
    await load(store, {JobState.DUE: 1})
    assert (await count(store, "tenant:default")).counts[JobState.DUE] == 1
