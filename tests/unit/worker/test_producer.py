"""How many jobs a worker takes, and when it looks for more."""

from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, be_down, once, starts, succeed

from rota.errors import StoreUnavailableError
from rota.events import JobsLeased, StoreFailed, StoreRecovered
from rota.jobs import JobStatus, Recurrence
from rota.stores.protocol import Listener
from rota.worker import Context, WorkerSettings
from rota.worker.producer import Pace, choose_limit

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


def test_jobs_are_leased_ahead_for_those_that_end_before_the_answer() -> None:
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


async def test_jobs_leased_during_a_stop_are_handed_back_unspent(shop: Workshop) -> None:
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


async def test_a_lease_whose_answer_was_lost_goes_back_unspent_long_before_it_runs_out(
    shop: Workshop,
) -> None:
    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.hooked.after["lease"] = once(be_down)
    shop.start()
    await shop.pass_time()
    assert (await shop.look(job)).status is JobStatus.RUNNING
    await shop.pass_time(17 * SECOND)
    kept = await shop.look(job)
    assert (kept.status, kept.attempt_count) == (JobStatus.COMPLETED, 0)
    assert await shop.attempts(job) == []


async def test_a_store_too_slow_for_a_batch_is_asked_for_less_until_it_answers(
    shop: Workshop,
) -> None:
    shop.make_worker({"work": succeed})
    jobs = [await shop.add() for _ in range(64)]

    async def answer_in_time_only_a_few() -> None:
        leased = [each for each in jobs if (await shop.look(each)).status is JobStatus.RUNNING]
        if len(leased) > 8:
            await be_down()

    shop.hooked.after["lease"] = answer_in_time_only_a_few
    shop.start()
    await shop.pass_time(5 * MINUTE)
    kept = [await shop.look(each) for each in jobs]
    assert {(job.status, job.attempt_count) for job in kept} == {(JobStatus.COMPLETED, 0)}


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


@pytest.mark.parametrize("fails_once", [False, True])
async def test_a_series_does_not_fork_when_an_occurrence_outlives_its_successor(
    shop: Workshop, *, fails_once: bool
) -> None:
    """The successor has ended and was removed by then: the end and a retry create no other."""
    began: list[datetime] = []

    async def outlast_the_next(context: Context) -> None:
        began.append(context.scheduled_for)
        if context.scheduled_for == NOW:
            await shop.clock.sleep(5 * MINUTE)
        if fails_once and context.scheduled_for == NOW and began.count(NOW) == 1:
            raise OSError("once")

    shop.make_worker({"work": outlast_the_next})
    rule = Recurrence(interval="1m", start=NOW, overlap="allow")
    first: dict[str, Any] = {"occurrence_at": NOW, "due_at": NOW, "auto_remove": True}
    await shop.add(recurrence=rule, **first)
    shop.start()
    await shop.pass_time(20 * MINUTE + SECOND)
    later = [at for at in began if at != NOW]
    assert later == [NOW + number * MINUTE for number in range(1, 21)]


async def test_each_lease_with_jobs_is_reported(shop: Workshop) -> None:
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
