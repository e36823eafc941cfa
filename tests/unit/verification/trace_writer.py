"""Writes traces by hand, the way a scheduler and its caller would have made them."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

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
    Verdict,
    check_trace,
)

MONDAY = datetime(2024, 3, 4, 9, 59, 30, tzinfo=UTC)


def a_task(
    name: str = "a", expression: str = "* * * * *", retry: timedelta = timedelta(minutes=5)
) -> TaskFacts:
    return TaskFacts(name, expression, retry)


HOURLY = a_task("a", "0 * * * *")


class TraceWriter:
    """A trace in the making. Its clock starts half a minute before ten and moves when told to."""

    def __init__(self, start: datetime = MONDAY, instance: str = "") -> None:
        self.now = start
        self.instance = instance
        self.entries: list[Entry] = []
        self._calls = 0

    def at(self, text: str) -> "TraceWriter":
        """Move on to this time of the same day, such as 10:00 or 10:00:05.5."""
        hour, minute, second = (*text.split(":"), "0")[:3]
        self.now = self.now.replace(
            hour=int(hour),
            minute=int(minute),
            second=int(float(second)),
            microsecond=round(float(second) % 1 * 1_000_000),
        )
        return self

    def wait(self, **duration: float) -> "TraceWriter":
        self.now += timedelta(**duration)
        return self

    def call_initialize(self, *tasks: TaskFacts | Misshapen) -> int:
        self._calls += 1
        self._add(InitializeCalled(self._calls, tasks, **self._stamp()))
        return self._calls

    def return_initialize(self, call: int) -> "TraceWriter":
        return self._add(InitializeReturned(call, **self._stamp()))

    def fail_initialize(self, call: int, error: str = "SomeError") -> "TraceWriter":
        return self._add(InitializeFailed(call, error, **self._stamp()))

    def initialize(self, *tasks: TaskFacts | Misshapen) -> "TraceWriter":
        return self.return_initialize(self.call_initialize(*tasks))

    def call_stop(self) -> int:
        self._calls += 1
        self._add(StopCalled(self._calls, **self._stamp()))
        return self._calls

    def return_stop(self, call: int) -> "TraceWriter":
        return self._add(StopReturned(call, **self._stamp()))

    def fail_stop(self, call: int) -> "TraceWriter":
        return self._add(StopFailed(call, "StopSchedulerError", **self._stamp()))

    def stop(self) -> "TraceWriter":
        return self.return_stop(self.call_stop())

    def start(self, name: str = "a") -> "TraceWriter":
        return self._add(RunStarted(name, **self._stamp()))

    def succeed(self, name: str = "a") -> "TraceWriter":
        return self._add(RunSucceeded(name, **self._stamp()))

    def fail(self, name: str = "a") -> "TraceWriter":
        return self._add(RunFailed(name, "SomeError", **self._stamp()))

    def run(self, name: str = "a") -> "TraceWriter":
        return self.start(name).succeed(name)

    def crash(self, *left_running: str) -> "TraceWriter":
        self._add(Crashed(**self._stamp()))
        return self.leave_running(*left_running) if left_running else self

    def leave_running(self, *names: str) -> "TraceWriter":
        return self._add(LeftRunning(names, **self._stamp()))

    def jump(self, text: str) -> "TraceWriter":
        before = self._stamp()
        return self._add(ClockJumped(self.at(text).now, **before))

    def fault(self, lasted: timedelta = timedelta(), *, failed: bool = True) -> "TraceWriter":
        return self._add(StorageFault("write", failed, lasted, **self._stamp()))

    def observe(self) -> "TraceWriter":
        return self._add(Observed(**self._stamp()))

    def judge(self, zone: tzinfo = UTC, **options: Any) -> Verdict:
        """The verdict when nothing may be late, unless the options say otherwise."""
        return check_trace(self.entries, zone=zone, **{"allowance": timedelta(), **options})

    def _stamp(self) -> dict[str, Any]:
        return {"at": self.now, "instance": self.instance}

    def _add(self, entry: Entry) -> "TraceWriter":
        self.entries.append(entry)
        return self
