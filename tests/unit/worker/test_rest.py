"""How a worker waits that has nothing to do, and what ends its rest."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, SECOND, HookedStore, Workshop, starts, succeed

from rota.clock.protocol import Clock
from rota.errors import StoreClosedError
from rota.jobs import Job, JobStatus
from rota.policy.limits import Limit
from rota.policy.watch import GateWatch
from rota.rail.settings import set_limit
from rota.stores.protocol import Document, Inserted, Reach
from rota.stores.wakeups import Wakeups
from rota.worker import Context, Worker, WorkerSettings
from rota.worker import rest as resting
from rota.worker.rest import (
    LONGEST_LOOK,
    POLL_JITTER,
    SHORTEST_LOOK,
    choose_look,
    choose_rest,
)

TICK = timedelta(milliseconds=1)


def test_a_rest_lasts_until_the_next_job_is_due_or_the_next_poll() -> None:
    assert choose_rest(SECOND, None, 0.0) == SECOND
    assert choose_rest(SECOND, MINUTE, 0.0) == SECOND
    assert choose_rest(SECOND, SECOND / 4, 0.0) == SECOND / 4


def test_polls_come_early_by_chance_and_never_late() -> None:
    assert choose_rest(SECOND, None, 0.999) > SECOND * (1 - POLL_JITTER)
    assert choose_rest(SECOND, None, 0.999) < SECOND


def test_a_job_that_stays_due_is_not_asked_for_in_a_busy_loop() -> None:
    assert choose_rest(SECOND, -MINUTE, 0.0) == timedelta(milliseconds=1)


async def test_a_new_job_wakes_an_idle_worker(shop: Workshop) -> None:
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=MINUTE))
    shop.start()
    await shop.pass_time(10 * SECOND)
    assert await starts(shop, await shop.add()) <= timedelta(milliseconds=1)


async def test_a_job_that_is_due_later_is_taken_when_it_is(shop: Workshop) -> None:
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=MINUTE))
    shop.start()
    await shop.pass_time(SECOND)
    job = await shop.add(due_at=shop.clock.now() + 7 * SECOND)
    assert timedelta(0) <= await starts(shop, job) - 7 * SECOND <= timedelta(milliseconds=2)


def look_slowly(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, looking_for: timedelta, error: Exception | None
) -> None:
    """Have the store take so long to say when the next job is due."""
    look = shop.hooked.next_due_at

    async def look_later(*asked: Any) -> datetime | None:
        await shop.clock.sleep(looking_for)
        if error is not None:
            raise error
        return await look(*asked)

    monkeypatch.setattr(shop.hooked, "next_due_at", look_later)


async def test_a_call_is_answered_before_it_is_known_when_the_next_job_is_due(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_slowly(shop, monkeypatch, 10 * SECOND, None)
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=MINUTE))
    shop.start()
    await shop.pass_time(SECOND)
    assert await starts(shop, await shop.add()) <= timedelta(milliseconds=1)


async def test_an_answer_about_the_next_job_that_comes_late_still_counts(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_slowly(shop, monkeypatch, 3 * SECOND, None)
    monkeypatch.setattr(shop.hooked._wakeups, "ring_at", lambda _: None)
    job = await shop.add(due_at=shop.clock.now() + 7 * SECOND)
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=MINUTE))
    shop.start()
    assert timedelta(0) <= await starts(shop, job) - 7 * SECOND <= timedelta(milliseconds=2)


async def test_a_worker_ends_when_its_store_is_found_closed_while_it_rests(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_slowly(shop, monkeypatch, SECOND, StoreClosedError())
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=MINUTE))
    began_at = shop.clock.now()
    with pytest.raises(StoreClosedError):
        await shop.clock.run(shop.start())
    assert shop.clock.now() - began_at <= 2 * SECOND


async def test_a_lost_notification_costs_no_more_than_the_poll_interval(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop.hooked._wakeups, "ring_at", lambda _: None)
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=5 * SECOND))
    shop.start()
    await shop.pass_time(12 * SECOND)
    assert await starts(shop, await shop.add()) <= 5 * SECOND + timedelta(milliseconds=1)


async def test_an_idle_worker_asks_no_more_often_than_it_polls(shop: Workshop) -> None:
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=SECOND))
    shop.start()
    await shop.pass_time(MINUTE)
    assert 60 <= len(shop.hooked.sizes("lease")) <= 60 / (1 - POLL_JITTER) + 1


class TickingClock:
    """Every look at it takes a microsecond, as it does with a real one."""

    def __init__(self, inner: Clock) -> None:
        self._inner = inner
        self._look_count = 0
        self.sleep = inner.sleep
        self.sleep_until = inner.sleep_until

    def now(self) -> datetime:
        self._look_count += 1
        return self._inner.now() + timedelta(microseconds=self._look_count)


async def test_a_job_due_at_the_end_of_the_calendar_disturbs_no_other(shop: Workshop) -> None:
    await shop.add(due_at=datetime.max.replace(tzinfo=UTC))
    settings = WorkerSettings(poll_for=MINUTE)
    run = shop.start(
        Worker(shop.store, {"work": succeed}, clock=TickingClock(shop.clock), settings=settings)
    )
    await shop.pass_time(10 * SECOND)
    assert not run.done()
    assert await starts(shop, await shop.add()) <= TICK


async def test_a_clock_that_is_set_back_does_not_put_off_the_next_poll(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop.hooked._wakeups, "ring_at", lambda _: None)
    await shop.add(due_at=shop.clock.now() + 30 * SECOND)
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=MINUTE))
    shop.start()
    await shop.pass_time(SECOND)
    await shop.clock.jump_to(shop.clock.now() - 60 * MINUTE)
    assert await starts(shop, await shop.add()) <= MINUTE + TICK


def test_looks_come_often_while_there_is_work_and_seldom_later() -> None:
    assert choose_look(timedelta(0)) == SHORTEST_LOOK
    assert choose_look(SECOND) == SECOND / 50
    assert choose_look(MINUTE) == LONGEST_LOOK
    assert choose_look(-MINUTE) == SHORTEST_LOOK


class Unheard(Wakeups):
    """Notifies no listener, as if another process had written."""

    def ring_at(self, places: Iterable[tuple[str, str]]) -> None:
        pass


class QuietStore(HookedStore):
    """Notifies no listener; changes can be seen by asking."""

    reach = Reach.HOST

    def __init__(self) -> None:
        super().__init__()
        self.version = 1
        self.look_count = 0
        self._wakeups = Unheard()

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        answers = await super().insert(jobs, now)
        self.version += 1
        return answers

    def read_version(self) -> int | None:
        self.look_count += 1
        return self.version


@pytest.fixture
async def quiet() -> AsyncIterator[Workshop]:
    """A workshop on this store, with a worker that polls once a minute."""
    shop = Workshop()
    shop.store = shop.hooked = QuietStore()
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=MINUTE))
    yield shop
    await shop.close()


@pytest.fixture
def real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who rest take the virtual clock for the machine's."""
    monkeypatch.setattr(resting, "keeps_real_time", lambda _: True)


@pytest.mark.usefixtures("real_time")
async def test_writes_of_others_are_seen_without_notifications(quiet: Workshop) -> None:
    quiet.start()
    await quiet.pass_time(10 * SECOND)
    assert await starts(quiet, await quiet.add()) <= LONGEST_LOOK + TICK
    assert await starts(quiet, await quiet.add()) <= SHORTEST_LOOK + TICK


@pytest.mark.usefixtures("real_time")
async def test_later_jobs_of_other_processes_are_leased_when_they_are_due(quiet: Workshop) -> None:
    quiet.start()
    await quiet.pass_time(SECOND)
    job = await quiet.add(due_at=quiet.clock.now() + 7 * SECOND)
    assert timedelta(0) <= await starts(quiet, job) - 7 * SECOND <= 2 * TICK


@pytest.mark.usefixtures("real_time")
async def test_a_wakeup_without_work_causes_no_lease(quiet: Workshop) -> None:
    quiet.start()
    await quiet.pass_time(SECOND)
    count = len(quiet.hooked.sizes("lease"))
    for _ in range(10):
        await quiet.add(due_at=quiet.clock.now() + 10 * MINUTE)
        await quiet.pass_time(SECOND)
    assert len(quiet.hooked.sizes("lease")) == count


@pytest.mark.usefixtures("real_time")
async def test_constant_writes_by_others_do_not_keep_an_idle_worker_busy(
    quiet: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, look_count = quiet.hooked, 0
    assert isinstance(store, QuietStore)
    look = store.next_due_at

    async def look_quickly(*asked: Any) -> datetime | None:
        nonlocal look_count
        look_count += 1
        await quiet.clock.sleep(TICK)
        return await look(*asked)

    def read_version() -> int:
        store.version += 1
        return store.version

    monkeypatch.setattr(store, "next_due_at", look_quickly)
    monkeypatch.setattr(store, "read_version", read_version)
    quiet.start()
    await quiet.pass_time(10 * SECOND)
    look_count = 0
    await quiet.pass_time(10 * SECOND)
    assert look_count <= 10 * SECOND / LONGEST_LOOK + 1
    assert await starts(quiet, await quiet.add()) <= LONGEST_LOOK + 2 * TICK


@pytest.mark.usefixtures("real_time")
async def test_writes_of_other_processes_are_seen_under_limits_too(quiet: Workshop) -> None:
    await set_limit(quiet.hooked, Limit(tenant="a", running=1), clock=quiet.clock)
    quiet.start()
    await quiet.pass_time(10 * SECOND)
    assert await starts(quiet, await quiet.add()) <= LONGEST_LOOK + TICK


@pytest.mark.usefixtures("real_time")
async def test_a_wakeup_does_not_ask_for_held_back_jobs(quiet: Workshop) -> None:
    async def linger(_: Context) -> None:
        await quiet.clock.sleep(10 * MINUTE)

    await set_limit(quiet.hooked, Limit(tenant="a", running=1), clock=quiet.clock)
    quiet.make_worker({"work": linger}, WorkerSettings(poll_for=MINUTE))
    await quiet.add_many(2, tenant="a")
    quiet.start()
    await quiet.pass_time(SECOND)
    count = len(quiet.hooked.sizes("lease"))
    for _ in range(10):
        await quiet.add(due_at=quiet.clock.now() + 10 * MINUTE)
        await quiet.pass_time(SECOND)
    assert len(quiet.hooked.sizes("lease")) == count


@pytest.mark.usefixtures("real_time")
async def test_an_unreadable_version_is_not_a_change(quiet: Workshop) -> None:
    store = quiet.hooked
    assert isinstance(store, QuietStore)
    quiet.start()
    await quiet.pass_time(SECOND)
    job = await quiet.add()
    store.read_version = lambda: None  # type: ignore[method-assign] # from now on
    await quiet.pass_time(SECOND)
    assert (await quiet.look(job)).status is JobStatus.READY
    await quiet.pass_time(MINUTE)
    assert (await quiet.look(job)).status is JobStatus.COMPLETED


async def test_time_that_is_made_up_does_not_stop_for_looks(quiet: Workshop) -> None:
    quiet.start()
    await quiet.pass_time(MINUTE)
    assert isinstance(quiet.hooked, QuietStore)
    assert quiet.hooked.look_count <= 20


async def test_gates_and_limits_are_read_again_while_no_job_waits_for_that(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[timedelta] = []
    read, read_count = shop.hooked.read, 0

    async def read_slowly(collection: str, keys: Sequence[str]) -> Mapping[str, Document]:
        nonlocal read_count
        read_count += 1
        await shop.clock.sleep(20 * TICK)
        return await read(collection, keys)

    async def note(context: Context) -> None:
        waits.append(shop.clock.now() - context.job.created_at)

    monkeypatch.setattr(shop.hooked, "read", read_slowly)
    shop.make_worker({"work": note}, WorkerSettings(poll_for=MINUTE))
    shop.start()
    await shop.pass_time(SECOND)
    for _ in range(100):
        await shop.add()
        await shop.pass_time(100 * TICK)
    assert len(waits) == 100
    assert waits[0] <= 20 * TICK  # after a second without jobs the gates are read once more
    assert max(waits[1:]) <= TICK
    assert read_count >= 10  # half a dozen times each


async def test_a_busy_worker_reads_the_gates_before_a_handler_has_to_wait_for_that(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0
    make_fresh = GateWatch.make_fresh

    async def count(watch: GateWatch, clock: Clock) -> None:
        nonlocal waits
        waits += 1
        await make_fresh(watch, clock)

    async def work(_: Context) -> None:
        await shop.clock.sleep(10 * TICK)

    monkeypatch.setattr(GateWatch, "make_fresh", count)
    for _ in range(400):
        await shop.add()
    shop.make_worker({"work": work}, WorkerSettings(concurrency=2, batch=2))
    shop.start()
    await shop.pass_time(2 * SECOND)
    assert waits == 0
