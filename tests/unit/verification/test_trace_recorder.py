"""The recorder writes down what a scheduler does, no more and no less."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.verification.trace import (
    ClockJumped,
    Crashed,
    Entry,
    InitializeCalled,
    InitializeFailed,
    InitializeReturned,
    LeftRunning,
    Misshapen,
    Observed,
    RunFailed,
    RunStarted,
    RunSucceeded,
    StopCalled,
    StopFailed,
    StopReturned,
    StorageFault,
    TaskFacts,
    TraceRecorder,
    from_json_line,
    to_json_line,
)

from rota.testing import VirtualClock

NOON = datetime(2024, 3, 4, 12, tzinfo=UTC)
DELAY = timedelta(minutes=5)


class Puppet:
    """A scheduler that does what the test says."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.refusal = refusal
        self.callbacks: dict[str, Callable[[], Awaitable[None]]] = {}

    async def initialize(self, registrations: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.callbacks = {name: callback for name, _, callback, _ in registrations}

    async def stop(self) -> None:
        if self.refusal is not None:
            raise self.refusal


def kinds(trace: tuple[Entry, ...]) -> list[type[Entry]]:
    return [type(entry) for entry in trace]


async def work() -> None:
    """A callback that succeeds."""


async def test_calls_and_runs_are_recorded_in_order_with_their_instants() -> None:
    clock = VirtualClock(NOON)
    recorder, scheduler = TraceRecorder(clock, instance="one"), Puppet()
    await recorder.initialize(scheduler, [("a", "0 12 * * *", work, DELAY)])
    await clock.advance(timedelta(seconds=3))
    await scheduler.callbacks["a"]()
    await recorder.stop(scheduler)
    assert recorder.trace == (
        InitializeCalled(1, (TaskFacts("a", "0 12 * * *", DELAY),), at=NOON, instance="one"),
        InitializeReturned(1, at=NOON, instance="one"),
        RunStarted("a", at=clock.now(), instance="one"),
        RunSucceeded("a", at=clock.now(), instance="one"),
        StopCalled(2, at=clock.now(), instance="one"),
        StopReturned(2, at=clock.now(), instance="one"),
        Observed(at=clock.now(), instance="one"),
    )


async def test_a_refused_initialize_and_a_failed_stop_are_recorded_and_raised() -> None:
    recorder, scheduler = TraceRecorder(VirtualClock(NOON)), Puppet(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await recorder.initialize(scheduler, [])
    with pytest.raises(ValueError, match="no"):
        await recorder.stop(scheduler)
    assert recorder.trace[1] == InitializeFailed(1, "ValueError", at=NOON)
    assert recorder.trace[3] == StopFailed(2, "ValueError", at=NOON)


async def test_a_failing_callback_is_recorded_and_fails() -> None:
    recorder, scheduler = TraceRecorder(VirtualClock(NOON)), Puppet()

    def fail() -> None:
        raise KeyError("x")

    await recorder.initialize(scheduler, [("a", "* * * * *", fail, DELAY)])
    with pytest.raises(KeyError):
        await scheduler.callbacks["a"]()
    assert recorder.trace[-2] == RunFailed("a", "KeyError", at=NOON)


async def test_a_cancelled_callback_has_failed() -> None:
    recorder, scheduler = TraceRecorder(VirtualClock(NOON)), Puppet()

    async def hang() -> None:
        await asyncio.Event().wait()

    await recorder.initialize(scheduler, [("a", "* * * * *", hang, DELAY)])
    run = asyncio.ensure_future(scheduler.callbacks["a"]())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run, 0)
    assert kinds(recorder.trace)[2:] in (
        [RunStarted, RunFailed, Observed],
        [Observed],  # cancelled before it began
    )


async def test_the_acts_of_a_dead_instance_are_not_recorded() -> None:
    recorder, scheduler = TraceRecorder(VirtualClock(NOON)), Puppet()
    await recorder.initialize(scheduler, [("a", "* * * * *", work, DELAY)])
    recorder.crash(left_running=["a"])
    await scheduler.callbacks["a"]()
    assert kinds(recorder.trace)[2:] == [Crashed, LeftRunning, Observed]


async def test_jumps_and_faults_are_recorded() -> None:
    clock = VirtualClock(NOON)
    recorder = TraceRecorder(clock)
    recorder.jump(NOON + DELAY)
    await clock.jump_to(NOON + DELAY)
    recorder.fault("write_each", lasted=DELAY)
    recorder.fault("read", failed=False)
    assert recorder.trace[:3] == (
        ClockJumped(NOON + DELAY, at=NOON),
        StorageFault("write_each", True, DELAY, at=NOON + DELAY),
        StorageFault("read", False, at=NOON + DELAY),
    )


@pytest.mark.parametrize("given", [None, 5, "text", {"a": 1}])
async def test_a_value_that_is_not_a_list_is_recorded_and_passed_on(given: object) -> None:
    recorder = TraceRecorder(VirtualClock(NOON))
    assert recorder.wrap(given) is given
    with pytest.raises((TypeError, ValueError)):
        await recorder.initialize(Puppet(), given)
    assert recorder.trace[0] == InitializeCalled(1, None, at=NOON)


async def test_misshapen_registrations_are_recorded_as_such() -> None:
    recorder = TraceRecorder(VirtualClock(NOON))
    given = [("a", "* * * * *", work), ("a", "* * * * *", None, DELAY), ("a", 1, work, DELAY), 7]
    with pytest.raises((TypeError, ValueError)):
        await recorder.initialize(Puppet(), given)
    called = recorder.trace[0]
    assert isinstance(called, InitializeCalled)
    assert called.registrations is not None
    assert [type(element) for element in called.registrations] == [Misshapen] * 4


async def test_each_record_reaches_the_sink_and_survives_a_line_of_json() -> None:
    lines: list[bytes] = []
    clock = VirtualClock(NOON)
    recorder = TraceRecorder(clock, sink=lambda entry: lines.append(to_json_line(entry)))
    scheduler = Puppet()
    await recorder.initialize(scheduler, [("é", "0 12 * * *", work, DELAY)])
    await scheduler.callbacks["é"]()
    recorder.fault("write", lasted=DELAY)
    recorder.crash(["é"])
    recorder.jump(NOON - DELAY)
    assert tuple(from_json_line(line) for line in lines) == recorder.trace[:-1]
    assert all(b"\n" not in line for line in lines)
