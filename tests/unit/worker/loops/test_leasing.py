"""How many jobs a worker takes, and when it looks for more."""

from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, be_down, once, succeed

from rota.errors import StoreClosedError, StoreUnavailableError
from rota.events import JobsLeased, StoreFailed, StoreRecovered
from rota.jobs import Job, JobStatus, Recurrence
from rota.stores.jobs import Listener
from rota.worker import Context, WorkerSettings
from rota.worker.loops.leasing import POLL_JITTER, Pace, choose_limit, choose_rest

SLOW = Pace(finished_count=1, since_for=MINUTE, asking_for=timedelta(milliseconds=5))
FAST = Pace(
    finished_count=100,
    since_for=timedelta(milliseconds=10),
    asking_for=timedelta(milliseconds=10),
)


def test_free_places_are_filled_but_by_no_more_than_a_batch() -> None:
    assert choose_limit(4, Pace(), batch=10) == 4
    assert choose_limit(40, Pace(), batch=10) == 10


def test_nothing_is_taken_without_room() -> None:
    assert choose_limit(0, Pace(), batch=10) == 0
    assert choose_limit(-7, SLOW, batch=10) == 0


def test_slow_jobs_are_not_taken_ahead() -> None:
    assert choose_limit(1, SLOW, batch=10) == 1
    assert choose_limit(0, SLOW, batch=10) == 0


def test_what_will_be_done_by_the_time_of_the_answer_is_taken_ahead() -> None:
    assert choose_limit(0, FAST, batch=1_000) == 200
    assert choose_limit(-150, FAST, batch=1_000) == 50
    assert choose_limit(-200, FAST, batch=1_000) == 0


def test_the_faster_the_store_answers_the_less_is_taken_ahead() -> None:
    near = FAST._replace(asking_for=timedelta(milliseconds=1))
    assert choose_limit(0, near, batch=1_000) == 20


@pytest.mark.parametrize("since_for", [timedelta(0), timedelta(seconds=-5)])
def test_a_clock_that_stands_still_or_is_set_back_takes_nothing_ahead(since_for: timedelta) -> None:
    assert choose_limit(3, FAST._replace(since_for=since_for), batch=1_000) == 3


def test_a_clock_that_was_set_forward_takes_no_more_ahead_than_was_done() -> None:
    pace = FAST._replace(asking_for=timedelta(hours=1))
    assert choose_limit(0, pace, batch=1_000) == 200
    assert choose_limit(0, FAST._replace(asking_for=-SECOND), batch=1_000) == 0


def test_a_rest_lasts_until_the_next_job_is_due_or_the_next_poll() -> None:
    assert choose_rest(SECOND, None, 0.0) == SECOND
    assert choose_rest(SECOND, MINUTE, 0.0) == SECOND
    assert choose_rest(SECOND, SECOND / 4, 0.0) == SECOND / 4


def test_polls_come_early_by_chance_and_never_late() -> None:
    assert choose_rest(SECOND, None, 0.999) > SECOND * (1 - POLL_JITTER)
    assert choose_rest(SECOND, None, 0.999) < SECOND


def test_what_is_due_already_is_not_asked_for_without_end() -> None:
    assert choose_rest(SECOND, -MINUTE, 0.0) == timedelta(milliseconds=1)


async def test_no_more_jobs_are_held_than_can_run(shop: Workshop) -> None:
    async def stay(_: Context) -> None:
        await shop.clock.sleep(MINUTE)

    shop.make_worker({"work": stay}, WorkerSettings(batch=10, concurrency=3))
    await shop.add_many(8)
    shop.start()
    await shop.pass_time(SECOND)
    assert shop.hooked.sizes("lease") == [3]
    await shop.pass_time(MINUTE)
    assert sum(shop.hooked.sizes("lease")) == 6


async def test_tenants_take_turns_over_several_leases(shop: Workshop) -> None:
    order: list[str] = []

    async def note(context: Context) -> None:
        order.append(context.tenant)

    shop.make_worker({"work": note}, WorkerSettings(batch=1, concurrency=1))
    await shop.add_many(5, tenant="large")
    await shop.add_many(2, tenant="small")
    shop.start()
    await shop.pass_time(SECOND)
    assert order[:4] == ["large", "small", "large", "small"]
    assert order[4:] == ["large"] * 3


async def test_only_the_chosen_queues_and_tenants_are_served(shop: Workshop) -> None:
    settings = WorkerSettings(queues=["mail"], tenants=["a"])
    shop.make_worker({"work": succeed}, settings)
    wanted = await shop.add(queue="mail", tenant="a")
    others = [await shop.add(queue="other", tenant="a"), await shop.add(queue="mail", tenant="b")]
    shop.start()
    await shop.pass_time(MINUTE)
    assert (await shop.look(wanted)).status is JobStatus.COMPLETED
    assert [(await shop.look(job)).status for job in others] == [JobStatus.READY] * 2


async def starts(shop: Workshop, job: Job) -> timedelta:
    """How long after its insertion the job is leased."""
    at = shop.clock.now()
    await shop.clock.run(_until_taken(shop, job))
    return shop.clock.now() - at


async def _until_taken(shop: Workshop, job: Job) -> None:
    while (await shop.look(job)).status is JobStatus.READY:
        await shop.clock.sleep(timedelta(milliseconds=1))


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
    monkeypatch.setattr(shop.hooked._wakeups, "ring", lambda _: None)
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
    monkeypatch.setattr(shop.hooked._wakeups, "ring", lambda _: None)
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=5 * SECOND))
    shop.start()
    await shop.pass_time(12 * SECOND)
    assert await starts(shop, await shop.add()) <= 5 * SECOND + timedelta(milliseconds=1)


async def test_an_idle_worker_asks_no_more_often_than_it_polls(shop: Workshop) -> None:
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=SECOND))
    shop.start()
    await shop.pass_time(MINUTE)
    assert 60 <= len(shop.hooked.sizes("lease")) <= 60 / (1 - POLL_JITTER) + 1


async def test_a_store_that_is_away_is_waited_for(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.hooked.before["lease"] = be_down
    shop.start()
    await shop.pass_time(MINUTE)
    assert [type(event) for event in shop.told(StoreFailed)] == [StoreFailed]
    del shop.hooked.before["lease"]
    await shop.pass_time(15 * SECOND)
    assert len(shop.told(StoreRecovered)) == 1
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_what_is_leased_while_a_stop_is_asked_for_goes_back_unspent(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    job = await shop.add()

    async def stop_meanwhile() -> None:
        shop.worker.stop()
        await shop.clock.sleep(SECOND)

    shop.hooked.after["lease"] = stop_meanwhile
    report = await shop.clock.run(shop.start())
    assert report.handed_back_count == 1
    kept = await shop.look(job)
    assert (kept.status, kept.attempt_count, kept.lease) == (JobStatus.READY, 0, None)


async def test_a_lease_whose_answer_was_lost_goes_back_unspent_when_it_has_run_out(
    shop: Workshop,
) -> None:
    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.hooked.after["lease"] = once(be_down)
    shop.start()
    await shop.pass_time(30 * SECOND)
    assert (await shop.look(job)).status is JobStatus.RUNNING
    await shop.pass_time(60 * SECOND)
    kept = await shop.look(job)
    assert (kept.status, kept.attempt_count) == (JobStatus.COMPLETED, 0)
    assert await shop.attempts(job) == []


async def test_occurrences_that_may_overlap_begin_beside_each_other(shop: Workshop) -> None:
    running: list[str] = []

    async def stay(context: Context) -> None:
        running.append(context.job.id)
        await shop.clock.sleep(2 * MINUTE)

    shop.make_worker({"work": stay})
    recurrence = Recurrence(interval="1m", start=NOW, overlap="allow")
    await shop.add(recurrence=recurrence, occurrence_at=NOW, due_at=NOW)
    shop.start()
    await shop.pass_time(MINUTE + SECOND)
    assert len(running) == len(set(running)) == 2


async def test_each_lease_that_brought_something_is_told(shop: Workshop) -> None:
    shop.make_worker({"work": succeed}, WorkerSettings(batch=2))
    await shop.add_many(3)
    shop.start()
    await shop.pass_time(3 * SECOND)
    assert [event.count for event in shop.told(JobsLeased)] == [2, 1]


async def test_listening_is_taken_up_again_after_the_store_was_away(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, left = shop.hooked.listen, 3

    def listen(*choice: Any) -> AbstractAsyncContextManager[Listener]:
        nonlocal left
        left -= 1
        if left >= 0:
            raise StoreUnavailableError("away")
        return whole(*choice)

    monkeypatch.setattr(shop.hooked, "listen", listen)
    shop.make_worker({"work": succeed}, WorkerSettings(poll_for=MINUTE))
    shop.start()
    await shop.pass_time(10 * SECOND)
    assert left < 0
    assert await starts(shop, await shop.add()) <= timedelta(milliseconds=1)
