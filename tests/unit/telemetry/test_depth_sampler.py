"""How full queues are, minute by minute."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec

from rota.errors import StoreUnavailableError
from rota.events import EventEmitter, JobSettled
from rota.stores.memory import MemoryStore
from rota.stores.protocol import LeaseRequest, QueueDepth
from rota.telemetry.stats import DepthSample, MinuteStats, read_stats
from rota.telemetry.stats_recorder import MOST_TENANTS, DepthSampler, StatsRecorder
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LATER = timedelta(hours=1)


def settled(tenant: str) -> JobSettled:
    return JobSettled(
        outcome="succeeded", state="done", wait_ms=20.0, duration_ms=1.0, tenant=tenant,
        job_id="a", kind="work", queue="mail", attempt=1,
    )  # fmt: skip


async def name_default() -> list[str]:
    return ["default"]


async def test_due_and_running_jobs_are_sampled_every_minute() -> None:
    clock, store = VirtualClock(NOW), MemoryStore()
    recorder = StatsRecorder(store, clock)
    sampler = DepthSampler(store, clock, recorder, name_default)
    jobs = [a_job(due_at=NOW, queue="ab"[number % 2]) for number in range(5)]
    await store.insert([*jobs, a_job(due_at=NOW + LATER), a_job(tenant="other", due_at=NOW)], NOW)
    await store.lease(
        LeaseRequest(worker="anna", limit=2, lease_for=LATER, tenants=["default"]), NOW
    )
    running = asyncio.create_task(sampler.run())
    await clock.advance(MINUTE)
    await store.lease(
        LeaseRequest(worker="anna", limit=3, lease_for=LATER, tenants=["default"]), NOW
    )
    await clock.advance(MINUTE)
    running.cancel()
    await recorder.flush()
    found = await read_stats(store, "default", NOW, NOW + LATER)
    assert [it.depth for it in found] == [
        DepthSample(3, 2),
        DepthSample(3, 2),
        DepthSample(0, 5),
    ]
    assert await read_stats(store, "other", NOW, NOW + LATER) == []


async def test_tenants_that_workers_report_are_watched_up_to_a_bound() -> None:
    clock, store = VirtualClock(NOW), MemoryStore()
    asked: list[str | None] = []

    class Watched(MemoryStore):
        async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
            asked.append(tenant)
            return await super().survey(now, tenant)

    journal = EventEmitter("rota.test")
    sampler = DepthSampler(Watched(), clock, StatsRecorder(store, clock), name_default)
    sampler.follow(journal)
    journal.emit(settled("guild-7"))
    await sampler.sample()
    assert asked == ["default", "guild-7"]
    asked.clear()
    for number in range(MOST_TENANTS + 5):
        sampler.observe(settled(f"guild-{number}"))
    await sampler.sample()
    assert (len(asked), asked[-1]) == (MOST_TENANTS, f"guild-{MOST_TENANTS + 4}")


async def test_a_store_at_fault_is_asked_again() -> None:
    clock = VirtualClock(NOW)
    asked_at: list[datetime] = []

    class Failing(MemoryStore):
        async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
            asked_at.append(now)
            raise StoreUnavailableError(f"away, says {tenant}")

    store = Failing()
    sampler = DepthSampler(store, clock, StatsRecorder(store, clock), name_default)
    running = asyncio.create_task(sampler.run())
    await clock.advance(MINUTE)
    running.cancel()
    assert asked_at == [NOW, NOW + MINUTE]


def test_the_higher_of_two_counts_in_a_minute_wins() -> None:
    low, high = DepthSample(2, 9), DepthSample(3, 0)
    one, other = MinuteStats(at=NOW, depth=low), MinuteStats(at=NOW, depth=high)
    assert (one + other).depth == (other + one).depth == high
    assert (one + MinuteStats(at=NOW)).depth == low
    assert (MinuteStats(at=NOW) + MinuteStats(at=NOW)).depth is None
    kept = msgspec.json.encode(one)
    assert msgspec.json.decode(kept, type=MinuteStats) == one
