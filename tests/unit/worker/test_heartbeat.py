"""Leases are kept while jobs are in hand, and nothing runs on one that is over."""

import asyncio
import threading
from datetime import datetime

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, be_down, succeed

from rota.clock import SystemClock
from rota.clock.loop import turn
from rota.clock.protocol import keeps_real_time
from rota.errors import StoreClosedError, StoreUnavailableError
from rota.events import Event, JobSettled, JobStalled, StoreFailed, StoreRecovered
from rota.jobs import Job, JobStatus
from rota.stores.protocol import HeldLease
from rota.worker import CancelReason, Context, Worker, WorkerSettings


def lease_end(job: Job) -> datetime:
    assert job.lease is not None
    return job.lease.until


async def test_a_job_may_run_for_longer_than_its_lease(shop: Workshop) -> None:
    async def linger(_: Context) -> None:
        await shop.clock.sleep(30 * MINUTE)

    shop.make_worker({"work": linger})
    job = await shop.add()
    shop.start()
    shop.make_worker({"work": linger})  # another, who would rescue it
    shop.start()
    await shop.pass_time(29 * MINUTE)
    kept = await shop.look(job)
    assert lease_end(kept) > shop.clock.now() + 54 * SECOND
    await shop.pass_time(2 * MINUTE)
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    assert (shop.told(JobStalled), await shop.attempts(job)) == ([], [])


async def test_leases_of_waiting_attempts_are_extended_too(shop: Workshop) -> None:
    async def linger(_: Context) -> None:
        await shop.clock.sleep(5 * MINUTE)

    shop.make_worker({"work": linger}, WorkerSettings(concurrency=1))
    await shop.add_many(3)
    settled = await shop.clock.run(shop.worker.run_once())
    assert [it.is_stale for it in settled] == [False] * 3


async def test_beats_come_every_quarter_of_a_lease_and_no_less_often_than_every_five_seconds(
    shop: Workshop,
) -> None:
    async def linger(_: Context) -> None:
        await shop.clock.sleep(MINUTE - SECOND / 2)

    for lease_for, count in ((MINUTE, 11), (4 * SECOND, 59)):
        shop.hooked.calls.clear()
        shop.make_worker({"work": linger}, WorkerSettings(lease_for=lease_for))
        await shop.add()
        await shop.clock.run(shop.worker.run_once())
        assert shop.hooked.sizes("extend") == [1] * count


async def test_an_idle_worker_has_nothing_to_keep(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    shop.start()
    await shop.pass_time(MINUTE)
    assert shop.hooked.sizes("extend") == []


async def test_a_beat_the_store_does_not_answer_is_made_up_for(shop: Workshop) -> None:
    started: list[str] = []

    async def linger(context: Context) -> None:
        started.append(context.job.id)
        await shop.clock.sleep(3 * MINUTE)

    shop.make_worker({"work": linger})
    job = await shop.add()
    shop.start()
    await shop.pass_time(10 * SECOND)
    shop.hooked.before["extend"] = be_down
    await shop.pass_time(55 * SECOND)  # beyond the lease as it was taken, not as it was kept
    del shop.hooked.before["extend"]
    await shop.pass_time(3 * MINUTE)
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    assert started == [job.id]
    assert (len(shop.told(StoreFailed)), len(shop.told(StoreRecovered))) == (1, 1)


class Lingering:
    """A handler that takes an hour unless it is cancelled; notes when and why it ended."""

    def __init__(self, shop: Workshop) -> None:
        self._clock = shop.clock
        self.ended: list[tuple[datetime, CancelReason | None]] = []

    async def __call__(self, context: Context) -> None:
        try:
            await self._clock.sleep(60 * MINUTE)
        finally:
            self.ended.append((self._clock.now(), context.cancel_reason))


async def test_nothing_runs_on_beyond_a_lease_that_could_not_be_kept(shop: Workshop) -> None:
    lease_for = 10.5 * SECOND  # it ends between two beats
    linger = Lingering(shop)
    shop.make_worker({"work": linger}, WorkerSettings(lease_for=lease_for))
    job = await shop.add()
    shop.hooked.before["extend"] = be_down
    shop.hooked.before["apply"] = be_down
    shop.start()
    await shop.pass_time(2 * MINUTE)
    assert linger.ended == [(NOW + lease_for, CancelReason.LAPSED)]
    shop.hooked.before.clear()
    await shop.finish()
    kept = await shop.look(job)
    assert (kept.status, kept.attempt_count) == (JobStatus.READY, 0)


async def test_nothing_runs_on_beyond_its_lease_while_the_store_hangs(shop: Workshop) -> None:
    async def hang() -> None:
        await shop.clock.sleep(10 * MINUTE)

    linger = Lingering(shop)
    shop.make_worker({"work": linger})
    await shop.add()
    shop.hooked.before["extend"] = hang
    shop.start()
    await shop.pass_time(2 * MINUTE - SECOND)
    assert linger.ended == [(NOW + MINUTE, CancelReason.LAPSED)]


async def test_nothing_runs_on_beyond_a_lease_of_which_a_slow_store_left_little(
    shop: Workshop,
) -> None:
    """It ends before the first beat."""

    async def be_slow() -> None:
        await shop.clock.sleep(59 * SECOND)

    linger = Lingering(shop)
    shop.make_worker({"work": linger})
    await shop.add()
    shop.hooked.before["lease"] = be_slow
    shop.start()
    await shop.pass_time(MINUTE + SECOND)
    assert linger.ended == [(NOW + MINUTE, CancelReason.LAPSED)]


async def test_waiting_jobs_with_a_lost_lease_are_returned(shop: Workshop) -> None:
    started: list[str] = []

    async def linger(context: Context) -> None:
        started.append(context.job.id)
        await shop.clock.sleep(60 * MINUTE)

    shop.make_worker({"work": linger}, WorkerSettings(concurrency=1))
    first, second = await shop.add_many(2)
    shop.hooked.before["extend"] = be_down
    once = asyncio.create_task(shop.worker.run_once())
    await shop.pass_time(MINUTE + 2 * SECOND)
    settled = await shop.clock.run(once)
    assert started == [first.id]
    assert {it.job.id for it in settled} == {first.id, second.id}
    for job in (first, second):
        kept = await shop.look(job)
        assert (kept.status, kept.attempt_count) == (JobStatus.READY, 0)


async def test_a_store_that_is_closed_between_two_beats_ends_the_worker(shop: Workshop) -> None:
    async def linger(_: Context) -> None:
        await shop.clock.sleep(60 * MINUTE)

    shop.make_worker({"work": linger})
    await shop.add()
    once = asyncio.create_task(shop.worker.run_once())
    await shop.pass_time(SECOND)
    await shop.store.close()
    with pytest.raises(StoreClosedError):
        await shop.clock.run(once)


async def test_a_job_settled_between_two_beats_is_not_lost(shop: Workshop) -> None:
    async def linger(_: Context) -> None:
        await shop.clock.sleep(5 * SECOND)

    async def answer_late() -> None:
        await shop.clock.sleep(SECOND)

    shop.make_worker({"work": linger})
    await shop.add()
    shop.hooked.before["extend"] = answer_late
    shop.start()
    await shop.pass_time(MINUTE)
    assert shop.hooked.sizes("extend") == [1]
    assert [type(event) for event in shop.events[-1:]] == [JobSettled]


def test_a_clock_says_whether_a_thread_can_wait_beside_it(shop: Workshop) -> None:
    assert keeps_real_time(SystemClock())
    assert not keeps_real_time(shop.clock)


async def test_by_the_machines_time_a_thread_keeps_the_leases() -> None:
    shop = Workshop()
    beats = asyncio.Event()
    loop = asyncio.get_running_loop()
    keeper = shop.hooked.make_keeper()
    seen: list[int] = []

    class Watched:
        def extend(self, held: list[object], until: datetime, now: datetime) -> list[bool]:
            seen.append(len(held))
            if len(seen) >= 2:
                loop.call_soon_threadsafe(beats.set)
            return keeper.extend(held, until, now)  # type: ignore[arg-type]  # handed through

        def close(self) -> None:
            seen.append(-1)

    shop.hooked.make_keeper = Watched  # type: ignore[method-assign,assignment]  # looked at
    settings = WorkerSettings(lease_for=SECOND)
    worker = Worker(shop.store, {}, settings=settings)

    @worker.handler("work")
    async def wait(_: Context) -> None:
        await beats.wait()

    now = SystemClock().now()
    job = await shop.add(created_at=now)
    settled = await worker.run_once()
    assert [it.is_stale for it in settled] == [False]
    assert seen[:2] == [1, 1]
    assert seen[-1] == -1
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_a_keeper_is_made_for_the_first_beat_and_by_the_thread_that_beats() -> None:
    shop = Workshop()
    loop, keeper, is_held = asyncio.get_running_loop(), shop.hooked.make_keeper(), asyncio.Event()
    made_in: list[str] = []
    beat_count = 0

    class Watched:
        def __init__(self) -> None:
            made_in.append(threading.current_thread().name)

        def extend(self, held: list[HeldLease], until: datetime, now: datetime) -> list[bool]:
            nonlocal beat_count
            beat_count += 1
            if beat_count == 2:
                loop.call_soon_threadsafe(is_held.set)
            return keeper.extend(held, until, now)

        def close(self) -> None:
            """Nothing was opened."""

    shop.hooked.make_keeper = Watched  # type: ignore[method-assign,assignment]  # counted
    worker = Worker(shop.store, {"short": succeed}, settings=WorkerSettings(lease_for=SECOND))

    @worker.handler("long")
    async def wait(_: Context) -> None:
        await is_held.wait()

    await shop.add("short", created_at=SystemClock().now())
    assert len(await worker.run_once()) == 1
    assert made_in == []
    await shop.add("long", created_at=SystemClock().now())
    assert len(await worker.run_once()) == 1
    assert made_in == ["rota-heartbeat"]


async def test_a_loop_that_was_blocked_for_longer_than_a_lease_has_lost_nothing_that_was_kept() -> (
    None
):
    """All that the thread had to tell is heard at once, what is out of date first."""
    shop = Workshop()
    keeper, beat_count, was_kept = shop.hooked.make_keeper(), 0, threading.Event()

    class Watched:
        def extend(self, held: list[HeldLease], until: datetime, now: datetime) -> list[bool]:
            nonlocal beat_count
            beat_count += 1
            if beat_count >= 10:  # two and a half leases later
                was_kept.set()
            return keeper.extend(held, until, now)

        def close(self) -> None:
            """Nothing was opened."""

    shop.hooked.make_keeper = Watched  # type: ignore[method-assign,assignment]  # counted
    worker = Worker(shop.store, {}, settings=WorkerSettings(lease_for=SECOND / 2))
    reasons: list[CancelReason | None] = []

    @worker.handler("work")
    async def block(context: Context) -> None:
        assert was_kept.wait(timeout=30)
        for _ in range(5):
            await turn()
        reasons.append(context.cancel_reason)

    job = await shop.add(created_at=SystemClock().now())
    await worker.run_once()
    assert reasons == [None]
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_a_thread_says_when_the_store_is_away_and_goes_on() -> None:
    shop = Workshop()
    keeper, call_count = shop.hooked.make_keeper(), 0
    recovered = asyncio.Event()

    class Flaky:
        def extend(self, held: list[HeldLease], until: datetime, now: datetime) -> list[bool]:
            nonlocal call_count
            call_count += 1
            if call_count == 1:
                raise StoreUnavailableError("away")
            return keeper.extend(held, until, now)

        def close(self) -> None:
            """Nothing was opened."""

    def note(event: Event) -> None:
        shop.events.append(event)
        if isinstance(event, StoreRecovered):
            recovered.set()

    shop.hooked.make_keeper = Flaky  # type: ignore[method-assign,assignment]  # what is tested
    worker = Worker(shop.store, {}, settings=WorkerSettings(lease_for=SECOND))
    worker.events.subscribe(note)

    @worker.handler("work")
    async def wait(_: Context) -> None:
        await recovered.wait()

    await shop.add(created_at=SystemClock().now())
    (settled,) = await worker.run_once()
    assert settled.job.status is JobStatus.COMPLETED
    assert len(shop.told(StoreFailed)) == 1


async def test_a_thread_that_finds_the_store_closed_ends_the_worker() -> None:
    shop = Workshop()
    settings = WorkerSettings(lease_for=SECOND)
    worker = Worker(shop.store, {}, settings=settings)

    class Closed:
        def extend(self, *_: object) -> list[bool]:
            raise StoreClosedError

        def close(self) -> None:
            """Nothing was opened."""

    shop.hooked.make_keeper = Closed  # type: ignore[method-assign]  # what is tested

    @worker.handler("work")
    async def wait(_: Context) -> None:
        await asyncio.Event().wait()

    await shop.add(created_at=SystemClock().now())
    with pytest.raises(StoreClosedError):
        await worker.run_once()
