"""The interface, and what is refused at the call itself: class, message and details."""

import inspect
from datetime import UTC, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.spec.stage import SELDOM, SpyStore, Stage, at, minutes, seconds
from tzlocal import reload_localzone

from rota import DECLARATIVE, POLLING, Scheduler, SchedulerPolicy, open_store
from rota.clock.system import SystemClock
from rota.errors import (
    CronExpressionInvalidError,
    FieldParseError,
    InvalidCronExpressionError,
    InvalidInputError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    RotaError,
    ScheduleDuplicateTaskError,
)
from rota.scheduler import SchedulerState
from rota.scheduler.registration import Callback

SHAPE = "Invalid registration shape: expected [string, string, function, Duration]"
MINUTE = timedelta(minutes=1)


async def nothing() -> None:
    """A callback."""


def refused(stage: Stage, registrations: Any) -> RotaError:
    """The error raised by the call itself, the same in both editions; nothing is awaited."""
    errors: list[RotaError] = []
    for policy in (DECLARATIVE, POLLING):
        scheduler = stage.scheduler(policy)
        with pytest.raises(InvalidInputError) as caught:
            scheduler.initialize(registrations)
        assert scheduler.state is SchedulerState.UNINITIALIZED
        errors.append(caught.value)
    one, other = errors
    assert type(one) is type(other)
    assert one.message == other.message
    return one


async def test_both_methods_are_awaited_and_give_nothing(stage: Stage) -> None:
    scheduler = stage.scheduler()
    assert await scheduler.initialize([stage.task()]) is None  # type: ignore[func-returns-value] # the point
    assert await scheduler.stop() is None  # type: ignore[func-returns-value] # the point


def test_besides_the_two_verbs_there_are_only_questions() -> None:
    public = {name for name in vars(Scheduler) if not name.startswith("_")}
    assert public == {"initialize", "stop", "plan", "why", "state", "polling_state"}
    assert list(inspect.signature(Scheduler.initialize).parameters) == ["self", "registrations"]
    assert list(inspect.signature(Scheduler.stop).parameters) == ["self"]


async def test_a_registration_may_be_a_tuple_or_a_list(quick: Stage) -> None:
    registrations: Any = (quick.task("a"), list(quick.task("b")))
    await quick.scheduler().initialize(registrations)
    await quick.clock.advance(seconds(1))
    assert sorted(name for name, _ in quick.starts) == ["a", "b"]


async def test_names_differ_by_case_and_blanks_and_may_be_any_text(quick: Stage) -> None:
    names = ["a", "A", " a", "a ", "naïve 🌍", "null", '"quoted"', "x" * 255]
    await quick.scheduler().initialize([quick.task(name) for name in names])
    await quick.clock.advance(seconds(1))
    assert sorted(name for name, _ in quick.starts) == sorted(names)


async def test_anything_that_can_be_called_without_arguments_is_a_callback(quick: Stage) -> None:
    called: list[str] = []

    async def work(name: str) -> None:
        called.append(name)

    def plain() -> None:
        called.append("plain")

    def value() -> int:
        called.append("value")
        return 17

    class Worker:
        async def __call__(self) -> None:
            called.append("object")

    callbacks: dict[str, Callback] = {
        "plain": plain,
        "partial": partial(work, "partial"),
        "awaitable": lambda: work("awaitable"),
        "object": Worker(),
        "value": value,
    }
    await quick.scheduler().initialize(
        [(name, "* * * * *", callback, MINUTE) for name, callback in callbacks.items()]
    )
    await quick.clock.advance(seconds(1))
    assert sorted(called) == sorted(callbacks)
    assert "TaskRunFailed" not in quick.names()


@pytest.mark.parametrize(
    ("delay", "stored"),
    [
        (timedelta(0), 0),
        (timedelta(microseconds=1), 1),
        (timedelta(milliseconds=1), 1),
        (timedelta(days=365), 31_536_000_000),
        (timedelta.max, 86_400_000_000_000_000),
    ],
)
async def test_any_delay_from_zero_up_is_fine(stage: Stage, delay: timedelta, stored: int) -> None:
    await stage.scheduler().initialize([stage.task(delay=delay, fails=[ValueError()])])
    await stage.clock.advance(timedelta(0))
    assert (await stage.record())["retryDelayMs"] == stored
    assert stage.names().count("TaskRunFailed") == 1


async def test_time_and_zone_are_the_hosts_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    zone = ZoneInfo("Asia/Kathmandu")
    monkeypatch.setattr("rota.scheduler.scheduler.read_host_zone", lambda: zone)
    async with await open_store("memory://") as store:
        context = Scheduler(store)._context
    assert isinstance(context.clock, SystemClock)
    assert context.zone is zone


async def test_expressions_are_read_in_the_zone_of_the_host(
    quick: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as host:
        host.setenv("TZ", "Asia/Kathmandu")  # 5:45 ahead of UTC
        reload_localzone()
        scheduler = Scheduler(quick.store, clock=quick.clock, settings=SELDOM)
    reload_localzone()
    await scheduler.initialize([quick.task(cron="0 16 * * *")])
    await quick.clock.advance(minutes(60))
    await scheduler.stop()
    assert quick.started() == [at(10, 15)]


async def test_expressions_are_read_in_the_schedulers_zone(quick: Stage) -> None:
    # Kathmandu is 5:45 ahead of UTC.
    await quick.scheduler(zone=ZoneInfo("Asia/Kathmandu")).initialize(
        [quick.task(cron="0 16 * * *")]
    )
    await quick.clock.advance(minutes(60))
    assert quick.started() == [at(10, 15)]


@pytest.mark.parametrize("wrong", [None, "abc", 5, {"a": 1}, {1}, nothing, iter(())])
async def test_registrations_must_be_a_list(quick: Stage, wrong: object) -> None:
    error = refused(quick, wrong)
    assert type(error) is RegistrationsNotArrayError
    assert (error.message, error.details) == ("Registrations must be an array", {})


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "abcd",
        {},
        (),
        ("a", "* * * * *", nothing),
        ("a", "* * * * *", nothing, MINUTE, 1),
        (1, "* * * * *", nothing, MINUTE),
        (None, "* * * * *", nothing, MINUTE),
        ("", "* * * * *", nothing, MINUTE),
        ("a", 5, nothing, MINUTE),
        ("a", None, nothing, MINUTE),
        ("a", "* * * * *", "nothing", MINUTE),
        ("a", "* * * * *", None, MINUTE),
        ("a", "* * * * *", nothing, 60),
        ("a", "* * * * *", nothing, None),
    ],
)
async def test_an_entry_of_the_wrong_shape_is_named_by_its_index(
    quick: Stage, wrong: object
) -> None:
    error = refused(quick, [quick.task("first"), wrong])
    assert type(error) is RegistrationShapeError
    assert (error.message, error.details) == (SHAPE, {"registrationIndex": 1, "received": wrong})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x" * 256, "must not be longer than 255 characters"),
        ("a\nb", "must not hold control characters"),
        ("a\x00", "must not hold control characters"),
        ("\x1b[31m", "must not hold control characters"),
        ("a\u2028b", "must not hold control characters"),
        ("\ud800", "must not hold control characters"),
    ],
)
async def test_a_bad_name_is_refused_with_field_value_and_reason(
    quick: Stage, name: str, reason: str
) -> None:
    error = refused(quick, [(name, "* * * * *", nothing, MINUTE)])
    assert type(error) is InvalidRegistrationError
    assert error.message == f"Invalid registration: name {reason}"
    assert error.details == {"field": "name", "value": name, "reason": reason}


async def test_a_name_occurs_once(quick: Stage) -> None:
    error = refused(quick, [quick.task("twin"), quick.task("b"), quick.task("twin")])
    assert type(error) is ScheduleDuplicateTaskError
    assert error.message == 'Task with name "twin" is already scheduled'
    assert error.details == {"taskName": "twin"}


async def test_a_bad_expression_is_refused_with_field_and_reason(
    quick: Stage,
) -> None:
    error = refused(quick, [quick.task(cron="0 24 * * *")])
    assert type(error) is CronExpressionInvalidError
    reason = "out of range (0-23)"
    assert error.message == f'Invalid cron expression "0 24 * * *": hour field {reason}'
    assert error.details == {"expression": "0 24 * * *", "field": "hour", "reason": reason}
    parser = error.__cause__
    assert type(parser) is InvalidCronExpressionError
    assert (parser.message, parser.details) == (error.message, error.details)
    field = parser.__cause__
    assert type(field) is FieldParseError
    assert field.details == {"fieldValue": "24", "fieldName": "hour"}


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        ("", "expression"),
        ("* * * *", "expression"),
        ("* * * * * *", "expression"),
        ("@daily", "expression"),
        ("*/15 * * * *", "minute"),
        ("0 0 * * mon", "weekday"),
        ("0 0 * * 7", "weekday"),
        ("0 0 ? * *", "day"),
        ("0 0 31 2 *", "expression"),
    ],
)
async def test_expressions_beyond_posix_are_refused_at_registration(
    quick: Stage, expression: str, field: str
) -> None:
    error = refused(quick, [quick.task(cron=expression)])
    assert type(error) is CronExpressionInvalidError
    assert error.details["field"] == field


@pytest.mark.parametrize(
    ("delay", "shown"),
    [(timedelta(milliseconds=-1), -1), (timedelta(days=-1), -86_400_000)],
)
async def test_a_negative_delay_is_refused(quick: Stage, delay: timedelta, shown: float) -> None:
    error = refused(quick, [quick.task(delay=delay)])
    assert type(error) is NegativeRetryDelayError
    assert error.message == "Retry delay must be non-negative"
    assert error.details == {"retryDelayMs": shown}


async def test_the_first_bad_entry_wins_and_is_checked_in_order(quick: Stage) -> None:
    good, twin = quick.task("a"), quick.task("a", "bad", -MINUTE)
    bad_cron, bad_delay = quick.task("b", "bad", -MINUTE), quick.task("c", delay=-MINUTE)
    cases: list[tuple[list[Any], type[RotaError]]] = [
        ([good, ("a", "bad", nothing, 5)], RegistrationShapeError),  # its shape before its name
        ([good, twin], ScheduleDuplicateTaskError),  # a duplicate before its expression
        ([bad_cron, ()], CronExpressionInvalidError),  # the expression before the delay
        ([bad_delay, ()], NegativeRetryDelayError),  # all of one entry before the next
        ([(), bad_delay], RegistrationShapeError),
    ]
    for registrations, expected in cases:
        assert type(refused(quick, registrations)) is expected


@pytest.mark.parametrize(
    "registrations",
    [None, [()], [("a", "bad", nothing, MINUTE)], [("a", "* * * * *", nothing, -MINUTE)]],
)
async def test_a_refusal_comes_before_any_side_effect(
    quick: Stage, policy: SchedulerPolicy, registrations: Any
) -> None:
    spy = SpyStore(quick.store, quick.clock)
    scheduler = quick.scheduler(policy, store=spy)
    with pytest.raises(InvalidInputError):
        scheduler.initialize(registrations)
    await quick.clock.advance(minutes(5))
    assert spy.calls == []
    assert quick.names() == ["SchedulerInitializationStarted", "SchedulerInitializationFailed"]


async def test_a_refusal_also_reaches_the_awaiting_caller(quick: Stage) -> None:
    with pytest.raises(RegistrationsNotArrayError):
        await quick.scheduler().initialize(None)  # type: ignore[arg-type] # the point


async def test_messages_name_the_value_and_nothing_of_the_machinery(quick: Stage) -> None:
    error = refused(quick, [quick.task(cron="61 * * * *")])
    assert "rota" not in error.message
    assert "0x" not in error.message
    assert error.message.count("\n") == 0


def test_without_an_event_loop_the_scheduler_stays_as_it_was(quick_store: Any) -> None:
    scheduler = Scheduler(quick_store, zone=UTC)
    with pytest.raises(RuntimeError, match="no running event loop"):
        scheduler.initialize([("a", "* * * * *", nothing, MINUTE)])
    assert scheduler.state is SchedulerState.UNINITIALIZED
