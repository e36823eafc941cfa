"""How maintenance and quiet hours defer a job between the store and its handler."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota import open_store
from rota.jobs import (
    Job,
    JobStatus,
    Recurrence,
    admit_job,
    decide_complete,
    decide_defer,
    make_job_id,
    rail_word,
)
from rota.policy.gate_settings import Scope
from rota.policy.gates import Closed, Maintenance, Spread
from rota.policy.quiet_hours import QuietHours
from rota.policy.watch import GateWatch
from rota.rail.settings import clear_maintenance, set_maintenance, set_quiet_hours
from rota.stores.memory import MemoryStore
from rota.stores.opened import OpenStore
from rota.stores.protocol import LeaseRequest
from rota.testing import VirtualClock

TENANT = "guild-7"
SCOPE = Scope(tenant=TENANT)
LONDON = ZoneInfo("Europe/London")
NIGHT = QuietHours(start=time(22), end=time(7), zone=LONDON)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MONDAY_18 = "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=18;BYMINUTE=0;BYSECOND=0"


def utc(day: int, hour: int, minute: int = 0) -> datetime:
    """In January 2026, when London keeps UTC."""
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


class Rig:
    """One turn of a worker at a time: lease, gate, handler, settle."""

    def __init__(self, store: OpenStore, spread: Spread | None = None) -> None:
        self.store = store
        self.watch = GateWatch(store) if spread is None else GateWatch(store, spread=spread)
        self.notifies = True
        self.sent: list[tuple[str, datetime]] = []
        self._made_count = 0

    async def add(self, due_at: datetime, **fields: object) -> Job:
        self._made_count += 1
        request = {"name": "reminder.send", "queue": "rail", **fields}
        if "recurrence" not in fields:
            request["due_at"] = due_at
        job_id = make_job_id(due_at, self._made_count)
        job = admit_job(request, job_id=job_id, now=due_at, tenant=TENANT)
        await self.store.insert([job], due_at)
        return job

    async def turn(self, now: datetime, *, handler: Callable[[Job], None] | None = None) -> None:
        request = LeaseRequest(worker="w", limit=1000, lease_for=MINUTE)
        for job in await self.store.lease(request, now):
            await self.watch.refresh(now)
            verdict = self.watch.judge(job, now, notifies=self.notifies)
            if isinstance(verdict, Closed):
                change = decide_defer(job, verdict.reopens_at, verdict.reason, now)
            else:
                if handler is not None:
                    handler(job)
                self.sent.append((job.id, now))
                change = decide_complete(job, now)
            await self.store.apply([change], now)

    async def set_maintenance(self, scope: Scope, window: Maintenance) -> None:
        clock = VirtualClock(utc(1, 0))
        await clock.run(set_maintenance(self.store, scope, window, clock=clock))

    async def set_quiet_hours(self, hours: QuietHours) -> None:
        clock = VirtualClock(utc(1, 0))
        await clock.run(set_quiet_hours(self.store, TENANT, hours, clock=clock))

    async def get(self, job: Job) -> Job:
        return (await self.store.get(TENANT, [job.id]))[job.id]


@pytest.fixture
async def rig(store_url: str) -> AsyncIterator[Rig]:
    async with await open_store(store_url) as store:
        yield Rig(store)


async def test_maintenance_moves_a_job_to_its_end_and_counts_it_without_an_attempt(
    rig: Rig,
) -> None:
    rig.notifies = False
    window = Maintenance(from_at=utc(5, 9), until=utc(5, 11), reason="upgrade", who="ops")
    await rig.set_maintenance(SCOPE, window)
    job = await rig.add(utc(5, 10))
    await rig.turn(utc(5, 10))
    held = await rig.get(job)
    assert rig.sent == []
    assert (rail_word(held.status, held.ending), held.lease) == ("queued", None)
    assert (held.due_at, held.attempt_count) == (utc(5, 11), 0)
    assert held.deferral is not None
    assert held.deferral.until == utc(5, 11)
    assert held.deferral.reason == "maintenance: upgrade"
    assert held.deferral.count == 1
    await rig.turn(utc(5, 11))
    assert rig.sent == [(job.id, utc(5, 11))]


async def test_maintenance_of_one_tenant_does_not_concern_another(rig: Rig) -> None:
    rig.notifies = False
    await rig.set_maintenance(Scope(tenant="guild-8"), Maintenance())
    job = await rig.add(utc(5, 10))
    await rig.turn(utc(5, 10))
    assert rig.sent == [(job.id, utc(5, 10))]


async def test_open_ended_maintenance_is_looked_at_every_five_minutes_until_it_is_lifted(
    rig: Rig,
) -> None:
    rig.notifies = False
    await rig.set_maintenance(SCOPE, Maintenance(reason="incident"))
    job = await rig.add(utc(5, 10))
    for minute in (0, 5, 10):
        await rig.turn(utc(5, 10, minute))
        held = await rig.get(job)
        assert held.due_at == utc(5, 10, minute + 5)
        assert (held.attempt_count, held.status) == (0, JobStatus.READY)
    assert held.deferral is not None
    assert held.deferral.count == 3
    await clear_maintenance(rig.store, SCOPE)
    await rig.turn(utc(5, 10, 15))
    assert rig.sent == [(job.id, utc(5, 10, 15))]


async def test_a_job_that_notifies_waits_for_the_end_of_the_quiet_hours(rig: Rig) -> None:
    await rig.set_quiet_hours(NIGHT)
    job = await rig.add(utc(5, 23))
    await rig.turn(utc(5, 23))
    held = await rig.get(job)
    assert held.deferral is not None
    assert (held.due_at, held.deferral.until) == (utc(6, 7), utc(6, 7))
    assert (held.deferral.reason, held.attempt_count) == ("quiet hours", 0)
    await rig.turn(utc(6, 6, 59))
    assert rig.sent == []
    await rig.turn(utc(6, 7))
    assert rig.sent == [(job.id, utc(6, 7))]


async def test_a_job_that_does_not_notify_runs_in_quiet_hours(rig: Rig) -> None:
    rig.notifies = False
    await rig.set_quiet_hours(NIGHT)
    job = await rig.add(utc(5, 23))
    await rig.turn(utc(5, 23))
    assert rig.sent == [(job.id, utc(5, 23))]


async def test_with_both_gates_a_job_is_deferred_once_to_the_instant_that_passes_both(
    rig: Rig,
) -> None:
    await rig.set_quiet_hours(NIGHT)
    morning = Maintenance(from_at=utc(6, 6, 30), until=utc(6, 8), reason="upgrade")
    await rig.set_maintenance(SCOPE, morning)
    job = await rig.add(utc(5, 23))
    await rig.turn(utc(5, 23))
    held = await rig.get(job)
    assert held.deferral is not None
    assert held.due_at == utc(6, 8)
    assert held.deferral.reason == "quiet hours; maintenance: upgrade"
    await rig.turn(utc(6, 8))
    ended = await rig.get(job)
    assert rig.sent == [(job.id, utc(6, 8))]
    assert ended.deferral is not None
    assert ended.deferral.count == 1


async def test_a_series_keeps_its_rhythm_when_an_occurrence_is_deferred(rig: Rig) -> None:
    await rig.set_quiet_hours(QuietHours(time(17), time(9), LONDON))
    start = utc(5, 0)
    series = Recurrence(rrule=MONDAY_18, zone="Europe/London", start=start)
    job = await rig.add(start, recurrence=series)
    assert job.due_at == utc(5, 18)
    await rig.turn(utc(5, 18))
    held = await rig.get(job)
    assert (held.due_at, held.occurrence_at) == (utc(6, 9), utc(5, 18))
    await rig.turn(utc(6, 9))
    assert rig.sent == [(job.id, utc(6, 9))]
    request = LeaseRequest(worker="w", limit=10, lease_for=MINUTE)
    assert await rig.store.lease(request, utc(19, 17, 59)) == []
    (following,) = await rig.store.lease(request, utc(19, 18))
    assert following.occurrence_at == utc(19, 18)


async def test_nothing_of_the_handler_happens_while_a_gate_is_closed(rig: Rig) -> None:
    effects = list[str]()
    await rig.set_quiet_hours(NIGHT)
    job = await rig.add(utc(5, 23))
    await rig.turn(utc(5, 23), handler=lambda held: effects.append(held.id))
    assert effects == []
    await rig.turn(utc(6, 7), handler=lambda held: effects.append(held.id))
    assert effects == [job.id]


async def test_a_gate_that_was_changed_counts_within_seconds(rig: Rig) -> None:
    first = await rig.add(utc(5, 23))
    await rig.turn(utc(5, 23))
    await rig.set_quiet_hours(NIGHT)
    second = await rig.add(utc(5, 23) + timedelta(seconds=2))
    await rig.turn(utc(5, 23) + timedelta(seconds=2))
    assert [job_id for job_id, _ in rig.sent] == [first.id]
    assert (await rig.get(second)).due_at == utc(6, 7)


async def test_a_burst_that_was_held_back_overnight_can_be_spread_over_minutes() -> None:
    rig = Rig(MemoryStore(), Spread())
    await rig.set_quiet_hours(NIGHT)
    jobs = [await rig.add(utc(5, 23)) for _ in range(300)]
    await rig.turn(utc(5, 23))
    starts = sorted([(await rig.get(job)).due_at for job in jobs])
    assert starts[:10] == [utc(6, 7)] * 10
    per_second = [start.replace(microsecond=0) for start in starts[10:]]
    assert max(per_second.count(second) for second in set(per_second)) < 10
    assert utc(6, 7, 4) < starts[-1] < utc(6, 7, 5)
    for step in range(301):
        await rig.turn(utc(6, 7) + timedelta(seconds=step))
    assert len({job_id for job_id, _ in rig.sent}) == len(rig.sent) == 300
