"""Writes down what a scheduler does while a test, or a service, uses it."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from inspect import isawaitable
from itertools import count
from typing import Any, Protocol

from tests.verification.trace.actions import (
    ClockJumped,
    Crashed,
    Entry,
    InitializeCalled,
    InitializeFailed,
    InitializeReturned,
    LeftRunning,
    Observed,
    RunFailed,
    RunStarted,
    RunSucceeded,
    StopCalled,
    StopFailed,
    StopReturned,
    StorageFault,
)
from tests.verification.trace.validity import describe_registrations

from rota.clock.protocol import Clock


class Initializable(Protocol):
    """What is recorded: anything with the two methods of the specification."""

    def initialize(self, registrations: Any, /) -> Awaitable[None]: ...

    def stop(self) -> Awaitable[None]: ...


class TraceRecorder:
    """Records one scheduler's calls and runs, in the order in which they happen.

    Call ``initialize`` and ``stop`` through the recorder; it hands the scheduler registrations
    whose callbacks record their own start and end. ``sink`` is given each record as it is made, so
    that a process can write it to a file before it goes on.
    """

    def __init__(
        self, clock: Clock, *, instance: str = "", sink: Callable[[Entry], object] | None = None
    ) -> None:
        self._clock = clock
        self._instance = instance
        self._sink = sink
        self._entries: list[Entry] = []
        self._calls = count(1)
        self._life = 0

    @property
    def trace(self) -> tuple[Entry, ...]:
        """What happened so far, closed with the present moment so that lateness shows."""
        return (*self._entries, Observed(at=self._clock.now(), instance=self._instance))

    async def initialize(self, scheduler: Initializable, registrations: Any) -> None:
        call, life = next(self._calls), self._life
        described = describe_registrations(registrations)
        self._add(life, InitializeCalled(call, described, **self._stamp()))
        try:
            await scheduler.initialize(self.wrap(registrations))
        except BaseException as error:
            self._add(life, InitializeFailed(call, type(error).__name__, **self._stamp()))
            raise
        self._add(life, InitializeReturned(call, **self._stamp()))

    async def stop(self, scheduler: Initializable) -> None:
        call, life = next(self._calls), self._life
        self._add(life, StopCalled(call, **self._stamp()))
        try:
            await scheduler.stop()
        except BaseException as error:
            self._add(life, StopFailed(call, type(error).__name__, **self._stamp()))
            raise
        self._add(life, StopReturned(call, **self._stamp()))

    def wrap(self, registrations: Any) -> Any:
        """The same registrations with recording callbacks; what is misshapen stays as it is."""
        if not isinstance(registrations, Sequence) or isinstance(registrations, str | bytes):
            return registrations
        return [self._wrap_one(element) for element in registrations]

    def crash(self, left_running: Sequence[str] = ()) -> None:
        """The instance died: whatever it still does is not recorded.

        ``left_running`` names the tasks that the store holds as running.
        """
        self._add(self._life, Crashed(**self._stamp()))
        self._life += 1
        self.leave_running(left_running)

    def leave_running(self, names: Sequence[str]) -> None:
        """As ``left_running`` of a crash, after a stop that could not write."""
        if names:
            self._add(self._life, LeftRunning(tuple(names), **self._stamp()))

    def jump(self, to: datetime) -> None:
        """The clock is at rest, and about to jump from what it shows to ``to``."""
        self._add(self._life, ClockJumped(to, **self._stamp()))

    def fault(
        self, operation: str, *, failed: bool = True, lasted: timedelta = timedelta()
    ) -> None:
        """The store is failing, or will take this long to answer."""
        self._add(self._life, StorageFault(operation, failed, lasted, **self._stamp()))

    def _stamp(self) -> dict[str, Any]:
        return {"at": self._clock.now(), "instance": self._instance}

    def _add(self, life: int, entry: Entry) -> None:
        if life != self._life:
            return
        self._entries.append(entry)
        if self._sink is not None:
            self._sink(entry)

    def _wrap_one(self, element: Any) -> Any:
        if not isinstance(element, tuple | list) or len(element) != 4 or not callable(element[2]):
            return element
        name, expression, callback, delay = element
        return (name, expression, self._recording(name, callback), delay)

    def _recording(self, name: Any, callback: Callable[[], Any]) -> Callable[[], Awaitable[None]]:
        life = self._life  # the owner of this callback may outlive a crash, unrecorded

        async def run() -> None:
            self._add(life, RunStarted(name, **self._stamp()))
            try:
                result = callback()
                if isawaitable(result):
                    await result
            except BaseException as error:
                self._add(life, RunFailed(name, type(error).__name__, **self._stamp()))
                raise
            self._add(life, RunSucceeded(name, **self._stamp()))

        return run
