"""How a store stands, on every store."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from rota import open_store
from rota.errors import InvalidInputError, StoreUnavailableError
from rota.jobs import (
    Cancelled,
    Discarded,
    Failed,
    JobStatus,
    Outcome,
    RetryPolicy,
    Succeeded,
    decide_outcome,
)
from rota.runtime.wiring import inspect_store
from rota.scheduler.storage import SET_ASIDE
from rota.stores.inspection import StoreInspection
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentWrite, LeaseRequest, QueueDepth
from rota.telemetry.health import (
    Finding,
    Sampler,
    StoreStatus,
    Thresholds,
    list_findings,
    read_store_status,
)
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WELL = StoreStatus(taken_at=NOW, job_counts={})


async def find_nothing() -> StoreInspection:
    return StoreInspection("memory://", "memory")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store of each sort."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'rota.db'}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[OpenStore]:
    async with await open_store(url) as opened:
        yield opened


async def look(store: OpenStore, now: datetime = NOW, *tenants: str) -> StoreStatus:
    return await read_store_status(store, find_nothing, now, tenants)


async def end(store: OpenStore, outcome: Outcome, tenant: str, job_count: int = 1) -> None:
    """Jobs of the tenant that have ended this way at their first attempt."""
    policy = RetryPolicy(max_attempts=1)
    jobs = [a_job(tenant=tenant, retry_policy=policy) for _ in range(job_count)]
    await store.insert(jobs, NOW)
    request = LeaseRequest(worker="w", limit=job_count, lease_for=MINUTE, tenants=[tenant])
    leased = await store.lease(request, NOW)
    await store.apply([decide_outcome(job, outcome, NOW) for job in leased], NOW)


async def test_an_empty_store_stands_well(store: OpenStore) -> None:
    standing = await look(store)
    assert standing.job_counts == dict.fromkeys(JobStatus, 0)
    assert (standing.oldest_due_at, standing.oldest_due_for) == (None, timedelta(0))
    assert (standing.stalled_count, standing.dead_count, standing.queues) == (0, 0, ())


async def test_the_oldest_due_job_of_all_tenants_and_queues_is_found(store: OpenStore) -> None:
    jobs = [
        a_job(tenant="a", queue="x", due_at=NOW - MINUTE),
        a_job(tenant="b", queue="y", due_at=NOW - 3 * MINUTE, priority=1),
        a_job(tenant="b", queue="y", due_at=NOW - 2 * MINUTE, priority=9),
        a_job(tenant="c", queue="x", due_at=NOW + MINUTE),
    ]
    await store.insert(jobs, NOW)
    assert (await look(store)).oldest_due_at == NOW - 3 * MINUTE
    request = LeaseRequest(worker="w", limit=1, lease_for=MINUTE, tenants=["a"])
    await store.lease(request, NOW)  # has everything due join the line
    assert (await look(store)).oldest_due_for == 3 * MINUTE


async def test_jobs_that_are_due_later_are_not_late(store: OpenStore) -> None:
    await store.insert([a_job(due_at=NOW + MINUTE)], NOW)
    assert (await look(store)).oldest_due_at is None
    assert (await look(store, NOW + MINUTE)).oldest_due_at == NOW + MINUTE


async def test_reading_does_not_change_what_is_leased(store: OpenStore) -> None:
    jobs = [a_job(due_at=NOW - number * MINUTE, priority=number) for number in range(1, 6)]
    await store.insert(jobs, NOW)
    request = LeaseRequest(worker="w", limit=1, lease_for=MINUTE)
    taken = []
    for _ in jobs:
        await look(store)
        taken += await store.lease(request, NOW)
    assert [job.priority for job in taken] == [5, 4, 3, 2, 1]


async def test_stalled_jobs_of_all_tenants_are_counted(store: OpenStore) -> None:
    await store.insert([a_job(tenant=name, due_at=NOW) for name in "abc"], NOW)
    await store.lease(LeaseRequest(worker="w", limit=3, lease_for=MINUTE), NOW)
    assert (await look(store, NOW + MINUTE)).stalled_count == 0
    assert (await look(store, NOW + 2 * MINUTE)).stalled_count == 3


async def test_dead_letters_are_counted_apart_from_other_failures_per_tenant(
    store: OpenStore,
) -> None:
    for tenant in "ab":
        for outcome in (Failed("no"), Discarded("no"), Cancelled("no"), Succeeded()):
            await end(store, outcome, tenant)
    await end(store, Failed("no"), "many", job_count=230)
    assert (await look(store, NOW, "a")).dead_count == 1
    assert (await look(store, NOW, "a", "b", "a")).dead_count == 2
    assert (await look(store, NOW, "many")).dead_count == 230
    assert (await look(store)).dead_count == 232


async def test_each_queue_is_reported_over_all_tenants(store: OpenStore) -> None:
    jobs = [a_job(tenant=name, queue="mail", due_at=NOW - MINUTE) for name in "ab"]
    await store.insert([*jobs, a_job(queue="call", due_at=NOW + MINUTE)], NOW)
    call = QueueDepth(queue="call", later_count=1)
    mail = QueueDepth(queue="mail", due_count=2, oldest_due_at=NOW - MINUTE)
    assert (await look(store)).queues == (call, mail)


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_counts_and_what_is_set_aside_come_from_the_inspection(
    store: OpenStore, url: str
) -> None:
    await end(store, Failed("no"), "a")
    await store.insert([a_job(), a_job()], NOW)
    await store.write_all([DocumentWrite(SET_ASIDE, "task", None, b"?")])
    standing = await read_store_status(store, partial(inspect_store, url), NOW)
    assert (standing.job_counts["READY"], standing.job_counts["FAILED"]) == (2, 1)
    assert standing.set_aside_count == 1


@pytest.mark.parametrize(
    ("standing", "concerns"),
    [
        (WELL, []),
        (StoreStatus(taken_at=NOW, job_counts={"FAILED": 2}), []),
        (StoreStatus(taken_at=NOW, job_counts={"FAILED": 2}, dead_count=1), [("dead_letters", 1)]),
        (StoreStatus(taken_at=NOW, job_counts={}, stalled_count=3), [("stalled", 3)]),
        (StoreStatus(taken_at=NOW, job_counts={}, oldest_due_at=NOW - 5 * MINUTE), []),
        (StoreStatus(taken_at=NOW, job_counts={}, oldest_due_at=NOW - 6 * MINUTE), [("late", 1)]),
        (StoreStatus(taken_at=NOW, job_counts={}, set_aside_count=1), [("set_aside", 1)]),
        (StoreStatus(taken_at=NOW, job_counts={}, pinned_by="process 7"), [("pinned", 1)]),
    ],
)
def test_problems_of_a_store_are_found(
    standing: StoreStatus, concerns: list[tuple[str, int]]
) -> None:
    assert [(it.concern, it.count) for it in list_findings(standing)] == concerns


@pytest.mark.parametrize(
    ("count", "texts"),
    [
        (
            1,
            [
                "1 dead letter: the job failed its last attempt",
                "1 job is stalled: its lease has run out, and no worker has rescued it",
                "1 record is set aside: it cannot be read, and is kept",
            ],
        ),
        (
            3,
            [
                "3 dead letters: the jobs failed their last attempt",
                "3 jobs are stalled: their leases have run out, and no worker has rescued them",
                "3 records are set aside: they cannot be read, and are kept",
            ],
        ),
    ],
)
def test_sentences_are_right_of_one_and_of_many(count: int, texts: list[str]) -> None:
    standing = StoreStatus(
        taken_at=NOW,
        job_counts={},
        dead_count=count,
        stalled_count=count,
        set_aside_count=count,
    )
    assert [it.text for it in list_findings(standing)] == texts


def test_the_process_that_pins_the_horizon_is_named() -> None:
    standing = StoreStatus(taken_at=NOW, job_counts={}, pinned_by="process 7 (a report)")
    (finding,) = list_findings(standing)
    assert finding.text == (
        "the database cannot remove dead rows: process 7 (a report) still needs them"
    )


def test_thresholds_are_the_operators_to_choose() -> None:
    standing = StoreStatus(
        taken_at=NOW,
        job_counts={"FAILED": 2},
        dead_count=2,
        stalled_count=1,
        oldest_due_at=NOW - timedelta(hours=50),
    )
    lenient = Thresholds(dead_letters=2, stalled=1, late_after=timedelta(days=3))
    assert list_findings(standing, lenient) == []
    strict = Thresholds(dead_letters=2, stalled=1, late_after=timedelta(days=1))
    text = "jobs are late: one is due since 2026-04-29T10:00:00Z, for 2 days"
    assert list_findings(standing, strict) == [Finding("late", 1, text)]


async def test_a_sampler_looks_again_and_again_and_shows_when_the_store_is_away() -> None:
    clock = VirtualClock(NOW)
    seen: list[tuple[datetime, StoreStatus | None]] = []

    async def see() -> StoreStatus:
        if len(seen) == 1:
            raise StoreUnavailableError("away")
        return WELL

    sampler = Sampler(see, lambda standing: seen.append((clock.now(), standing)), clock, MINUTE)
    task = asyncio.create_task(sampler.run())
    await clock.advance(2 * MINUTE)
    task.cancel()
    assert seen == [(NOW, WELL), (NOW + MINUTE, None), (NOW + 2 * MINUTE, WELL)]


def test_a_sampler_that_never_rests_is_refused() -> None:
    async def see() -> StoreStatus:
        return WELL

    with pytest.raises(InvalidInputError, match="every must be longer"):
        Sampler(see, lambda _: None, VirtualClock(NOW), timedelta(0))
