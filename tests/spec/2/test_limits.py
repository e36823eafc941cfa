"""Limits an operator may set, and what happens when resources run short."""

import asyncio
from datetime import timedelta

import pytest
from tests.spec.stage import SELDOM, Stage, at, minutes, seconds

from rota import DECLARATIVE, POLLING, SchedulerPolicy, SchedulerSettings
from rota.errors import InvalidInputError
from rota.events import TaskRunFailed, TaskRunStarted

HOUR = timedelta(hours=1)


def limited(count: int | None = None, timeout: timedelta | None = None) -> SchedulerSettings:
    return SchedulerSettings(
        max_concurrent_runs=count,
        run_timeout=timeout,
        peers_checked_every=SELDOM.peers_checked_every,
        peer_silent_for=SELDOM.peer_silent_for,
    )


async def test_no_more_run_at_once_than_allowed_and_all_get_their_turn(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy, settings=limited(3))
    most = 0

    async def work() -> None:
        nonlocal most
        assert scheduler._session is not None
        most = max(most, len(scheduler._session.loop.runs))
        stage.starts.append(("a", stage.clock.now()))
        await stage.clock.sleep(seconds(10))

    await scheduler.initialize(
        [(f"t{number}", "1 10 * * *", work, minutes(1)) for number in range(8)]
    )
    await stage.clock.advance(HOUR)
    assert most == 3
    assert stage.started() == [at(10, 1)] * 3 + [at(10, 1, 10)] * 3 + [at(10, 1, 20)] * 2


async def test_a_run_that_fails_makes_room_too(stage: Stage) -> None:
    await stage.scheduler(settings=limited(1)).initialize(
        [
            stage.task("a", "1 10 * * *", HOUR, takes=seconds(5), fails=[ValueError()]),
            stage.task("b", "1 10 * * *", HOUR, takes=seconds(5)),
        ]
    )
    await stage.clock.advance(minutes(2))
    assert stage.starts == [("a", at(10, 1)), ("b", at(10, 1, 5))]


async def test_a_run_that_takes_too_long_is_cancelled_and_has_failed(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy, settings=limited(timeout=seconds(20))).initialize(
        [
            stage.task("slow", "0 10 * * *", minutes(5), takes=seconds(30)),
            stage.task("swift", "0 10 * * *", minutes(5), takes=seconds(10)),
        ]
    )
    await stage.clock.advance(minutes(1))
    assert stage.ends == [("swift", at(10, 0, 10))]
    (failed,) = stage.emitted(TaskRunFailed)
    assert (failed.task_name, failed.duration) == ("slow", 20_000)
    assert failed.error.startswith("TimeoutError")
    assert failed.next_retry_at == at(10, 5, 20)


async def test_a_callback_that_will_not_be_cancelled_is_waited_for(stage: Stage) -> None:
    async def stubborn() -> None:
        try:
            await stage.clock.sleep(HOUR)
        except asyncio.CancelledError:
            await stage.clock.sleep(seconds(5))
            stage.ends.append(("a", stage.clock.now()))
            raise

    scheduler = stage.scheduler(settings=limited(timeout=seconds(20)))
    await scheduler.initialize([("a", "* * * * *", stubborn, HOUR)])
    await stage.clock.advance(seconds(21))
    await stage.clock.run(scheduler.stop())
    assert stage.ended() == [at(10, 0, 25)]
    assert stage.emitted(TaskRunFailed)[0].error.startswith("TimeoutError")


async def test_without_settings_nothing_is_limited(stage: Stage) -> None:
    await stage.scheduler().initialize([stage.task(f"t{n}", takes=10 * HOUR) for n in range(200)])
    await stage.clock.advance(seconds(1))
    assert len(stage.starts) == 200
    await stage.clock.advance(timedelta(hours=9))
    assert not stage.emitted(TaskRunFailed)


async def test_many_due_tasks_are_claimed_in_batches(stage: Stage) -> None:
    settings = SchedulerSettings(claim_batch=7, peers_checked_every=HOUR)
    await stage.scheduler(settings=settings).initialize([stage.task(f"t{n}") for n in range(50)])
    await stage.clock.advance(seconds(1))
    assert sorted(stage.starts) == sorted((f"t{n}", at(10)) for n in range(50))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_concurrent_runs", 0),
        ("max_concurrent_runs", -1),
        ("claim_batch", 0),
        ("run_timeout", timedelta(0)),
        ("stall_warning_after", timedelta(seconds=-1)),
        ("peers_checked_every", timedelta(0)),
        ("peer_silent_for", timedelta(0)),
    ],
)
def test_a_senseless_setting_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=field) as caught:
        SchedulerSettings(**{field: value})  # type: ignore[arg-type] # one field at a time
    assert caught.value.details == {"field": field, "value": value}


async def test_polling_covers_every_minute_and_runs_all_that_is_due(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize([stage.task("a"), stage.task("b")])
    await stage.clock.advance(minutes(10))
    assert stage.started("a") == stage.started("b") == [at(10, minute) for minute in range(11)]


async def test_the_older_edition_catches_up_once_too(stage: Stage) -> None:
    scheduler = stage.scheduler(POLLING)
    registrations = [stage.task(cron="0,10,20,30,40,50 * * * *")]
    await scheduler.initialize(registrations)
    await stage.clock.advance(minutes(1))
    await scheduler.stop()
    await stage.clock.advance(HOUR)
    await scheduler.initialize(registrations)
    await stage.clock.advance(minutes(2))
    assert stage.started() == [at(10), at(11, 1)]


async def test_blanks_between_fields_are_the_editions_own(quick: Stage) -> None:
    expression = "\r\n0\t10\n* * *\n"
    await quick.scheduler(POLLING).initialize([quick.task(cron=expression)])
    await quick.clock.advance(seconds(1))
    assert quick.started() == [at(10)]
    with pytest.raises(InvalidInputError):
        quick.scheduler(DECLARATIVE).initialize([quick.task(cron=expression)])


async def test_a_policy_of_ones_own_mixes_the_editions(quick: Stage) -> None:
    own = SchedulerPolicy(reinitialize="allow", override="keep_history")
    scheduler = quick.scheduler(own)
    await scheduler.initialize([quick.task(cron="0 * * * *")])
    await quick.clock.advance(minutes(5))
    await scheduler.initialize([quick.task(cron="0,3 * * * *")])
    await quick.clock.advance(minutes(5))
    assert quick.started() == [at(10), at(10, 5)]
    assert [event.scheduled_time for event in quick.emitted(TaskRunStarted)] == [at(10), at(10, 3)]
