"""The jobs of specification 4 on every store: one-time, deferred, recurring, removed when done."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from tests.spec.poller_stage import SpecStage
from tests.unit.poller.polling import DAY, HOUR, MINUTE, NOW, SECOND

from rota.errors import LockLostError
from rota.poller import JobUpdate, PolledJob

NO_TIME = timedelta(0)


async def test_a_one_time_job_is_processed_once_and_sleeps_for_good(stage: SpecStage) -> None:
    job_id = await stage.storage.add("once", sleep_until=NOW)
    await stage.play(10 * SECOND, idle_delay=SECOND)
    assert stage.seconds == [0]
    seen = await stage.storage.look(job_id)
    assert seen is not None
    assert seen.sleep_until is None
    assert seen.payload["name"] == "once"


async def test_a_deferred_job_is_not_processed_before_its_time(stage: SpecStage) -> None:
    await stage.storage.add("later", sleep_until=NOW + 5 * SECOND)
    await stage.play(4 * SECOND, idle_delay=SECOND)
    assert stage.seconds == []
    await stage.clock.advance(6 * SECOND)
    assert stage.seconds == [5]
    assert stage.diary == ["start", "idle", "document", "idle"]


async def test_a_recurring_job_is_processed_at_each_of_its_times(stage: SpecStage) -> None:
    job_id = await stage.storage.add("often", sleep_until=NOW, interval="*/5 * * * * *")
    await stage.play(12 * SECOND, idle_delay=SECOND)
    assert stage.seconds == [0, 5, 10]
    seen = await stage.storage.look(job_id)
    assert seen is not None
    assert seen.sleep_until == NOW + 15 * SECOND


async def test_a_job_to_be_removed_is_gone_when_it_is_done(stage: SpecStage) -> None:
    job_id = await stage.storage.add("brief", sleep_until=NOW, auto_remove=True)
    await stage.play(SECOND, idle_delay=SECOND)
    assert stage.names == ["brief"]
    assert await stage.storage.look(job_id) is None


async def test_a_recurring_job_is_removed_only_after_its_last_time(stage: SpecStage) -> None:
    job_id = await stage.storage.add(
        "thrice",
        sleep_until=NOW,
        interval="* * * * * *",
        repeat_until=NOW + 2 * SECOND,
        auto_remove=True,
    )
    await stage.play(SECOND, idle_delay=SECOND)
    assert await stage.storage.look(job_id) is not None
    await stage.clock.advance(5 * SECOND)
    assert stage.seconds == [0, 1, 2]
    assert await stage.storage.look(job_id) is None


async def test_nothing_is_processed_after_the_end_with_a_delay(stage: SpecStage) -> None:
    await stage.storage.add(
        "rarely", sleep_until=NOW, interval="* * * * * *", repeat_until=NOW + 6 * SECOND
    )
    await stage.play(15 * SECOND, idle_delay=SECOND, reprocess_delay=2 * SECOND)
    assert stage.seconds == [0, 3, 6]


async def test_a_job_of_ten_days_ago_is_made_up_for_once(stage: SpecStage) -> None:
    await stage.storage.add("old", sleep_until=NOW - 10 * DAY, interval="0 * * * *")
    await stage.play(10 * SECOND, idle_delay=SECOND)
    assert stage.seconds == [0, 0]


async def test_a_job_that_takes_long_starts_again_at_once_and_once(stage: SpecStage) -> None:
    await stage.storage.add("slow", sleep_until=NOW, interval="* * * * * *")
    stage.work = lambda _: stage.clock.sleep(3 * SECOND + 500 * timedelta(milliseconds=1))
    await stage.play(8 * SECOND, idle_delay=SECOND)
    assert stage.seconds == [0, 3.5, 7]


async def test_the_job_is_given_as_it_was_before_the_lock(stage: SpecStage) -> None:
    end = NOW + DAY
    job_id = await stage.storage.add(
        "given", sleep_until=NOW - SECOND, interval="0 0 * * *", repeat_until=end, auto_remove=True
    )
    seen: list[datetime | None] = []

    async def look(job: PolledJob) -> None:
        found = await stage.storage.look(job.id)
        assert found is not None
        seen.append(found.sleep_until)

    stage.work = look
    await stage.play(NO_TIME, lock_duration=MINUTE)
    (job,) = stage.jobs
    shown = (job.id, job.sleep_until, job.interval, job.repeat_until, job.auto_remove)
    assert shown == (job_id, NOW - SECOND, "0 0 * * *", end, True)
    assert seen == [NOW + MINUTE]


async def test_the_one_that_sleeps_the_longest_ago_comes_first_then_the_smaller_id(
    stage: SpecStage,
) -> None:
    instants = [NOW, NOW - SECOND, NOW, NOW - HOUR, NOW]
    places = [(at, await stage.storage.add("any", sleep_until=at)) for at in instants]
    await stage.play(SECOND)
    assert [job.id for job in stage.jobs] == [job_id for _, job_id in sorted(places)]


async def test_a_job_that_fails_stays_locked_and_is_tried_again_after_the_lock(
    stage: SpecStage,
) -> None:
    job_id = await stage.storage.add("fails", sleep_until=NOW, interval="0 * * * *")

    def fail_at_first(_: PolledJob) -> None:
        if len(stage.jobs) < 3:
            raise ValueError("not yet")

    stage.work = fail_at_first
    poller = await stage.play(4 * MINUTE, lock_duration=MINUTE, idle_delay=SECOND)
    assert stage.seconds == [0, 60, 120]
    assert [job.sleep_until for job in stage.jobs] == [NOW, NOW + MINUTE, NOW + 2 * MINUTE]
    assert [str(error) for error in stage.errors] == ["not yet", "not yet"]
    assert not poller.is_processing
    seen = await stage.storage.look(job_id)
    assert seen is not None
    assert seen.sleep_until == NOW + HOUR


async def test_a_lock_keeps_others_away_until_it_runs_out(stage: SpecStage) -> None:
    await stage.storage.add("mine", sleep_until=NOW)
    store, until = stage.store, NOW + MINUTE
    first = await store.lock_next(until, NOW)
    assert first is not None
    assert await store.lock_next(until + MINUTE, until - SECOND) is None
    second = await store.lock_next(until + MINUTE, until)
    assert second is not None
    assert (second.id, second.sleep_until) == (first.id, until)


async def test_a_lost_lock_can_neither_update_nor_remove(stage: SpecStage) -> None:
    job_id = await stage.storage.add("lost", sleep_until=NOW)
    store = stage.store
    first = await store.lock_next(NOW + SECOND, NOW)
    second = await store.lock_next(NOW + MINUTE, NOW + SECOND)
    assert first is not None
    assert second is not None
    assert not await store.update(first, JobUpdate(sleep_until=None), NOW)
    assert not await store.remove(first)
    seen = await stage.storage.look(job_id)
    assert seen is not None
    assert seen.sleep_until == NOW + MINUTE
    assert await store.remove(second)
    assert not await store.remove(second)
    assert await stage.storage.look(job_id) is None


async def test_an_update_changes_what_it_names_and_nothing_else(stage: SpecStage) -> None:
    await stage.storage.add("kept", sleep_until=NOW)
    store = stage.store
    job = await store.lock_next(NOW + MINUTE, NOW)
    assert job is not None
    assert await store.update(job, JobUpdate(sleep_until=NOW + HOUR, auto_remove=True), NOW)
    again = await store.lock_next(NOW + 2 * HOUR, NOW + HOUR)
    assert again is not None
    assert (again.sleep_until, again.auto_remove) == (NOW + HOUR, True)
    assert again.payload["name"] == "kept"
    assert await store.update(again, JobUpdate(sleep_until=None), NOW)
    assert await store.lock_next(NOW + 3 * DAY, NOW + 2 * DAY) is None


async def test_concurrent_locks_get_one_job_each(stage: SpecStage) -> None:
    for number in range(8):
        await stage.storage.add(str(number), sleep_until=NOW)
    found = await asyncio.gather(*(stage.store.lock_next(NOW + MINUTE, NOW) for _ in range(12)))
    names = [job.payload["name"] for job in found if job is not None]
    assert sorted(names) == [str(number) for number in range(8)]


async def test_a_run_that_outlives_its_lock_does_not_reschedule(stage: SpecStage) -> None:
    """The hazard of a lock that is too short: two process it, and the second one decides."""
    job_id = await stage.storage.add("long", sleep_until=NOW, interval="0 * * * *")
    stage.work = lambda _: stage.clock.sleep((90 if len(stage.jobs) == 1 else 10) * SECOND)
    options: Any = {"lock_duration": MINUTE, "idle_delay": SECOND}
    await stage.play(NO_TIME, **options)
    await stage.play(100 * SECOND, **options)
    assert stage.seconds == [0, 60]
    (error,) = stage.errors
    assert isinstance(error, LockLostError)
    assert (error.job_id, error.lock_until) == (job_id, NOW + MINUTE)
    seen = await stage.storage.look(job_id)
    assert seen is not None
    assert seen.sleep_until == NOW + HOUR
