"""The machine's time, which no other module reads; and ``asyncio.timeout`` for any clock."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self

from rota.clock.protocol import Clock, as_duration, later, to_utc
from rota.errors import ClockUseError

LONGEST_WAIT_SECONDS = 2.0
"""How long a wait may go on before the clock is read again."""


def monotonic() -> float:
    """Seconds from an arbitrary start that setting the clock does not change; for measuring."""
    return time.monotonic()


if hasattr(time, "CLOCK_BOOTTIME"):

    def elapsed() -> float:
        """As ``monotonic``, including time spent suspended where the platform can tell."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # pragma: no cover - not Linux
    elapsed = monotonic


class SystemClock:
    """The host's clock, used by every production part."""

    is_real = True

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, duration: timedelta) -> None:
        """Wait for elapsed time, even if the wall clock is set meanwhile.

        The time a suspended host slept counts where the platform can tell (Linux can).
        """
        left = as_duration(duration).total_seconds()
        ends = elapsed() + left
        while True:  # a loop timer may fire early by its resolution: check again
            await asyncio.sleep(max(0.0, min(left, LONGEST_WAIT_SECONDS)))
            if (left := ends - elapsed()) <= 0:
                return

    async def sleep_until(self, instant: datetime) -> None:
        """Wait until ``now()`` shows the instant; at most about a millisecond longer.

        The wall clock is read again every two seconds, so a clock that was set, or a host that was
        suspended, is noticed within that time.
        """
        target = to_utc(instant)
        left = (target - self.now()).total_seconds()
        while True:
            await asyncio.sleep(max(0.0, min(left, LONGEST_WAIT_SECONDS)))
            if (left := (target - self.now()).total_seconds()) <= 0:
                return


class Timeout:
    """Cancels an ``async with`` block that takes too long; it ends in ``TimeoutError``.

    The block is cancelled from inside: what it awaits is cancelled, and the cancellation becomes
    ``TimeoutError`` at the end of the block. A cancellation from elsewhere stays a cancellation.
    Blocks nest. A block and its deadline due at one instant happen in the order their timers were
    set. Made by ``timeout_at`` and ``timeout_after``.
    """

    def __init__(self, clock: Clock, when: datetime | None, duration: timedelta | None) -> None:
        self._clock = clock
        self._when = when
        self._duration = duration
        self._task: asyncio.Task[Any] | None = None
        self._cancelling_before = 0
        self._alarm: asyncio.Task[None] | asyncio.Handle | None = None
        self._error: BaseException | None = None
        self._has_expired = False
        self._is_over = False

    def when(self) -> datetime | None:
        """The instant of the deadline, or None when there is none."""
        return self._when

    def expired(self) -> bool:
        """Whether the deadline came before the end of the block."""
        return self._has_expired

    def reschedule(self, when: datetime | None) -> None:
        """Set another deadline, or none; only inside the block and before it has expired."""
        if self._task is None or self._is_over or self._has_expired:
            raise ClockUseError("a timeout can only be rescheduled while its block runs")
        self._when = None if when is None else to_utc(when, "when")
        self._duration = None
        self._arm(self._task)

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise ClockUseError("a timeout can only be entered once")
        task = asyncio.current_task()
        if task is None:
            raise ClockUseError("a timeout needs a task to cancel; there is none here")
        self._task = task
        self._cancelling_before = task.cancelling()
        self._arm(task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        if self._alarm is not None:
            self._alarm.cancel()
        if not self._has_expired or self._task is None:
            return
        others_cancel = self._task.uncancel() > self._cancelling_before
        if isinstance(error, asyncio.CancelledError) and not others_cancel:
            raise (self._error or TimeoutError()) from error

    def _arm(self, task: "asyncio.Task[Any]") -> None:
        """Wait for the deadline as it is now, and no longer for what it was before."""
        loop = asyncio.get_running_loop()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._when is None:
            return
        if self._when <= self._clock.now():
            self._alarm = loop.call_soon(self._expire, task)
            return
        # A duration is waited for as elapsed time: setting the clock must not change it.
        clock, lasting = self._clock, self._duration
        wait = clock.sleep_until(self._when) if lasting is None else clock.sleep(lasting)
        alarm = loop.create_task(wait)
        alarm.add_done_callback(partial(self._on_alarm, task))
        self._alarm = alarm

    def _on_alarm(self, task: "asyncio.Task[Any]", alarm: "asyncio.Task[None]") -> None:
        if alarm is self._alarm and not (self._is_over or alarm.cancelled()):
            self._error = alarm.exception()  # a failing clock must not leave the block endless
            self._expire(task)

    def _expire(self, task: "asyncio.Task[Any]") -> None:
        self._alarm = None
        self._has_expired = True
        task.cancel()


def timeout_at(clock: Clock, instant: datetime | None) -> Timeout:
    """A deadline at an instant of the wall clock, or none; it can be moved later."""
    return Timeout(clock, None if instant is None else to_utc(instant), None)


def timeout_after(clock: Clock, duration: timedelta | None) -> Timeout:
    """A deadline after this much elapsed time from now, or none."""
    if duration is None:
        return Timeout(clock, None, None)
    return Timeout(clock, later(clock.now(), as_duration(duration)), duration)
