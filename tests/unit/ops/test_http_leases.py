"""Leases over HTTP: a client that has gone gets no jobs, and its leases are returned."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from rota.errors import InvalidInputError, StoreUnavailableError
from rota.events import Event
from rota.fleet.presence import list_workers
from rota.gates import Maintenance, Scope
from rota.jobs import Failed, Job, JobStatus, Outcome, Succeeded
from rota.ops.leases import HttpLeaseRequest, HttpLeases, Settlement
from rota.rail.settings import set_maintenance
from rota.stores.memory import MemoryStore
from rota.stores.protocol import HeldLease, LeaseRequest
from rota.telemetry.counters import COUNTERS, Counters, Timing
from rota.testing import VirtualClock, a_job
from rota.worker import WorkerSettings

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def leases(store: MemoryStore, clock: VirtualClock) -> HttpLeases:
    return HttpLeases(store, clock, Random(1))


async def kept(store: MemoryStore, job: Job) -> Job:
    return (await store.get(job.tenant, [job.id]))[job.id]


async def test_a_disconnect_while_waiting_leaves_the_job_to_others(
    leases: HttpLeases, store: MemoryStore, clock: VirtualClock
) -> None:
    gone = asyncio.Event()

    async def hung_up() -> None:
        await gone.wait()

    wish = HttpLeaseRequest(worker="w", wait_for=timedelta(seconds=30))
    waiting = asyncio.create_task(leases.lease("default", wish, hung_up))
    await clock.advance(timedelta(seconds=1))
    gone.set()
    assert await asyncio.wait_for(waiting, 5) == []
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    assert (await kept(store, job)).status is JobStatus.READY


async def test_a_job_leased_for_a_disconnected_caller_is_released(
    leases: HttpLeases, store: MemoryStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    gone = asyncio.Event()
    plain = store.lease

    async def lease_and_lose_the_caller(request: LeaseRequest, now: datetime) -> list[Job]:
        leased = await plain(request, now)
        gone.set()
        await clock.advance(timedelta(milliseconds=1))
        return leased

    monkeypatch.setattr(store, "lease", lease_and_lose_the_caller)

    async def hung_up() -> None:
        await gone.wait()

    assert await leases.lease("default", HttpLeaseRequest(worker="w"), hung_up) == []
    now_kept = await kept(store, job)
    assert (now_kept.status, now_kept.attempt_count) == (JobStatus.READY, 0)


async def test_leases_that_ran_out_are_swept_for_all_tenants(
    leases: HttpLeases, store: MemoryStore, clock: VirtualClock
) -> None:
    jobs = [a_job(due_at=NOW, tenant=tenant) for tenant in ("a", "b")]
    await store.insert(jobs, NOW)
    await store.lease(LeaseRequest(worker="w", limit=10, lease_for=MINUTE), NOW)
    assert await leases.sweep() == 0
    await clock.advance(2 * MINUTE)
    assert await leases.sweep() == 2
    assert [(await kept(store, job)).loss_count for job in jobs] == [1, 1]


async def test_a_worker_that_keeps_asking_is_seen_and_then_forgotten(
    leases: HttpLeases, store: MemoryStore, clock: VirtualClock
) -> None:
    wish = HttpLeaseRequest(worker="w", queues=("mail",))
    for _ in range(4):
        await leases.lease("default", wish)
        await clock.advance(timedelta(seconds=20))
    (seen,) = await list_workers(store, clock.now())
    assert (seen.id, seen.started_at, seen.tenants) == ("w", NOW, ("default",))
    await clock.advance(MINUTE)
    assert await list_workers(store, clock.now()) == []


async def test_a_worker_over_http_shows_the_settings_of_its_requests(
    leases: HttpLeases, store: MemoryStore, clock: VirtualClock
) -> None:
    own = HttpLeaseRequest(worker="own", limit=3, lease_for=2 * MINUTE, kinds=("mail",))
    await leases.lease("default", own)
    more = HttpLeaseRequest(worker="more", limit=2, concurrency=8, wait_for=timedelta(seconds=1))
    async with asyncio.TaskGroup() as group:
        group.create_task(leases.lease("default", more))
        await clock.advance(timedelta(seconds=2))
    shown = {it.id: it for it in await list_workers(store, clock.now())}
    assert (shown["own"].kinds, shown["own"].concurrency) == (("mail",), 3)
    assert (shown["own"].batch, shown["own"].poll_ms, shown["own"].lease_ms) == (3, None, 120_000)
    poll_ms = WorkerSettings().poll_for // timedelta(milliseconds=1)
    assert (shown["more"].concurrency, shown["more"].batch) == (8, 2)
    assert (shown["more"].poll_ms, shown["more"].lease_ms) == (poll_ms, 60_000)


async def test_a_lease_of_an_invalid_length_is_refused(leases: HttpLeases) -> None:
    with pytest.raises(InvalidInputError, match="lease_seconds"):
        HttpLeaseRequest(worker="w", lease_for=timedelta(0))
    with pytest.raises(InvalidInputError, match="lease_seconds"):
        await leases.extend("default", "w", [], timedelta(hours=2))
    with pytest.raises(InvalidInputError, match="wait_seconds"):
        HttpLeaseRequest(worker="w", wait_for=MINUTE)


async def test_an_extended_lease_lasts_from_now_for_as_long_as_was_asked(
    leases: HttpLeases, store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    (leased,) = await leases.lease(
        "default", HttpLeaseRequest(worker="w", lease_for=MINUTE), _stays
    )
    assert leased.lease is not None
    await clock.advance(MINUTE / 2)
    held = HeldLease(job.id, leased.lease.token)
    assert await leases.extend("default", "w", [held], 2 * MINUTE) == [True]
    lease = (await kept(store, job)).lease
    assert lease is not None
    assert lease.until == clock.now() + 2 * MINUTE


async def _stays() -> None:
    """The client never disconnects."""
    await asyncio.Event().wait()


async def test_a_failing_listener_does_not_keep_asking(
    leases: HttpLeases, store: MemoryStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection may be lost while the store answers: then the server looks by itself."""
    lease_count = 0
    plain = store.lease

    async def count_leases(request: LeaseRequest, now: datetime) -> list[Job]:
        nonlocal lease_count
        lease_count += 1
        return await plain(request, now)

    class Deaf:
        async def wait(self) -> None:
            raise StoreUnavailableError("the connection was lost")

    @asynccontextmanager
    async def listen(*_: object) -> AsyncIterator[Deaf]:
        yield Deaf()

    monkeypatch.setattr(store, "lease", count_leases)
    monkeypatch.setattr(store, "listen", listen)
    wish = HttpLeaseRequest(worker="w", wait_for=timedelta(seconds=10))
    waiting = asyncio.create_task(leases.lease("default", wish))
    await clock.advance(timedelta(seconds=10))
    assert await waiting == []
    assert 10 <= lease_count <= 15


def name_events(leases: HttpLeases) -> list[tuple[Any, ...]]:
    """What an operator is shown, as it happens: name, job, state, error code."""
    seen: list[tuple[Any, ...]] = []

    def note(event: Event) -> None:
        fields = event.fields()
        seen.append((event.name, fields.get("jobId"), fields.get("state"), fields.get("errCode")))

    leases.events.subscribe(note)
    return seen


async def test_http_workers_emit_the_same_events_as_other_workers(
    leases: HttpLeases, store: MemoryStore, clock: VirtualClock
) -> None:
    seen, counters = name_events(leases), Counters()
    counters.follow(leases.events)
    done, bad = a_job(due_at=NOW), a_job(due_at=NOW)
    await store.insert([done, bad], NOW)
    await clock.advance(timedelta(seconds=1))
    first, second = await leases.lease("default", HttpLeaseRequest(worker="w", limit=2))
    await clock.advance(timedelta(milliseconds=250))
    outcomes: list[tuple[Job, Outcome, str]] = [
        (first, Succeeded(), ""),
        (second, Failed("KeyError: 'x'", traceback="Traceback ..."), "KeyError"),
    ]
    settlements = [
        Settlement(held=HeldLease(it.id, it.last_token), outcome=outcome, error_code=code)
        for it, outcome, code in outcomes
    ]
    await leases.settle("default", "w", settlements)
    await leases.settle("default", "w", settlements)  # stale: not counted again
    assert seen == [
        ("JobsLeased", None, None, None),
        ("JobSettled", first.id, "done", None),
        ("JobFailed", second.id, "queued", "KeyError"),
    ]
    assert [counters[name] for name in COUNTERS] == [2, 1, 1, 0, 0, 0]
    assert counters.timing("handler.duration_ms") == Timing(2, 500.0, 250.0)
    assert counters.timing("lease.wait_ms") == Timing(2, 2000.0, 1000.0)


async def test_jobs_that_a_gate_holds_back_and_jobs_of_lost_workers_are_emitted(
    leases: HttpLeases, store: MemoryStore, clock: VirtualClock
) -> None:
    held, lost = a_job(due_at=NOW, queue="closed"), a_job(due_at=NOW, queue="open")
    await store.insert([held, lost], NOW)
    window = Maintenance(until=NOW + timedelta(hours=1))
    await set_maintenance(store, Scope(queue="closed"), window)
    seen = name_events(leases)
    assert await leases.lease("default", HttpLeaseRequest(worker="w", queues=("closed",))) == []
    await leases.lease("default", HttpLeaseRequest(worker="w", queues=("open",)))
    await clock.advance(2 * MINUTE)
    assert await leases.sweep() == 1
    assert [it[:3] for it in seen if it[0] != "JobsLeased"] == [
        ("JobDeferred", held.id, None),
        ("JobStalled", lost.id, "queued"),
    ]


async def test_settings_say_how_long_a_lease_lasts_by_default(
    store: MemoryStore, clock: VirtualClock
) -> None:
    settings = WorkerSettings(lease_for=timedelta(seconds=5))
    assert HttpLeases(store, clock, settings=settings).lease_for == timedelta(seconds=5)
    long = WorkerSettings(lease_for=timedelta(hours=5))
    assert HttpLeases(store, clock, settings=long).lease_for == timedelta(hours=1)
