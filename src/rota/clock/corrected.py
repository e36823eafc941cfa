"""The host's clock, corrected by the store's: one fleet, one time.

Hosts that share a store must agree on what is due and which lease has expired, but a host's clock
can be wrong, or be set while in use. So the store is asked for its time at intervals; in between,
time advances by the host's *elapsed* time, which setting its clock does not change.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from rota.clock import system
from rota.clock.protocol import Clock, keeps_real_time, to_utc
from rota.errors import ClockUseError, StoreError

ALARMING_OFFSET = timedelta(seconds=5)
"""A host whose clock is off by more than this is reported."""

LARGEST_SLOWED = timedelta(seconds=5)
"""Up to this much ahead, time is corrected by slowing down; it never goes back."""

MEASURED_EVERY = timedelta(minutes=3)
LOOKED_EVERY = timedelta(seconds=2)
"""How often the host's clock is compared with elapsed time, to notice that it was set."""

NOTICED_JUMP = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=2)
READING_COUNT = 3

logger = logging.getLogger("rota.clock")


class Reading(NamedTuple):
    """One reading of another clock, with the elapsed seconds before and after."""

    shown: datetime
    asked: float
    answered: float

    @property
    def round_trip(self) -> float:
        return self.answered - self.asked

    def project(self, elapsed: float) -> datetime:
        """The other clock's time at ``elapsed``, off by at most half the round trip.

        The exact moment of the reading is unknown; halfway minimizes the error.
        """
        return self.shown + timedelta(seconds=elapsed - (self.asked + self.answered) / 2)


class Timeline(NamedTuple):
    """Maps elapsed seconds to instants.

    It follows elapsed time; while it is ``ahead_by`` some seconds, it runs at half speed.
    """

    since: float
    shown: datetime
    ahead_by: float = 0.0

    def show(self, elapsed: float) -> datetime:
        since, shown, ahead_by = self
        passed = elapsed - since
        if ahead_by:
            passed -= min(passed / 2, ahead_by)
        return shown + timedelta(0, passed)


def choose_reading(readings: list[Reading]) -> Reading:
    """The reading with the shortest round trip, which has the smallest error."""
    return min(readings, key=lambda reading: reading.round_trip)


def decide_timeline(current: Timeline | None, reading: Reading, elapsed: float) -> Timeline:
    """The timeline from ``elapsed`` on.

    A timeline that agrees with the reading, within its error, stays, so that a slow answer never
    makes a good time worse. A timeline that is behind is set forward at once. One that is ahead
    slows down until it agrees, unless that would take too long: then the store's own clock went
    back, and every host follows it.
    """
    projected = reading.project(elapsed)
    if current is None:
        return Timeline(elapsed, projected)
    shown = current.show(elapsed)
    ahead_for = shown - projected
    if abs(ahead_for) <= timedelta(seconds=reading.round_trip / 2):
        return current
    if timedelta(0) < ahead_for <= LARGEST_SLOWED:
        return Timeline(elapsed, shown, ahead_for.total_seconds())
    return Timeline(elapsed, projected)


def warn_of_offset(offset: timedelta) -> None:
    """Log the offset of the host's clock; the default of ``CorrectedClock``."""
    seconds = offset.total_seconds()
    if abs(offset) > ALARMING_OFFSET:
        side = "behind" if seconds > 0 else "ahead of"
        logger.warning(
            "The clock of this host is %.1f s %s that of the store. Rota goes by the store's; "
            "see that both are kept right, by NTP for example",
            abs(seconds),
            side,
        )
    else:
        logger.info("The clock of this host agrees with that of the store (%+.3f s)", seconds)


class CorrectedClock:
    """A ``Clock`` that shows the store's time, measured at the start and every few minutes.

    Use it with ``async with``: entering measures once, and a task keeps measuring until exit.
    Before the first measurement it shows the host's time. It goes back only when the store's own
    clock went back by more than ``LARGEST_SLOWED``; setting the host's clock does not matter.
    ``now()`` may be read from any thread.

    ``on_offset`` is called with the offset when it becomes alarming, changes much while alarming,
    and when it is small again. ``elapsed`` must count the seconds that ``inner`` waits by.
    """

    def __init__(
        self,
        inner: Clock,
        read_store_clock: Callable[[], Awaitable[datetime | None]],
        *,
        elapsed: Callable[[], float] = system.elapsed,
        on_offset: Callable[[timedelta], object] = warn_of_offset,
        measured_every: timedelta = MEASURED_EVERY,
    ) -> None:
        self._inner = inner
        self._read_store_clock = read_store_clock
        self._elapsed = elapsed
        self._on_offset = on_offset
        self._measured_every = measured_every.total_seconds()
        self._timeline: Timeline | None = None
        self._measured_after = 0.0
        self._measured_offset = self._reported_offset = timedelta(0)
        self._measuring: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.measure()
        self._measuring = asyncio.create_task(self.keep_measuring(), name="rota-corrected-clock")
        return self

    async def __aexit__(self, *_: object) -> None:
        task, self._measuring = self._measuring, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def now(self) -> datetime:
        """The store's time, as far as it is known."""
        timeline = self._timeline
        return self._inner.now() if timeline is None else timeline.show(self._elapsed())

    @property
    def is_real(self) -> bool:
        return keeps_real_time(self._inner)

    @property
    def offset(self) -> timedelta:
        """This clock minus the host's clock. Negative when the host's clock is ahead."""
        return self.now() - self._inner.now()

    async def sleep(self, duration: timedelta) -> None:
        """Wait for elapsed time, which no correction changes."""
        await self._inner.sleep(duration)

    async def sleep_until(self, instant: datetime) -> None:
        """Wait until ``now()`` shows the instant; a correction is noticed within two seconds."""
        target = to_utc(instant)
        left = target - self.now()
        if left <= timedelta(0):
            await self._inner.sleep(timedelta(0))
        while left > timedelta(0):
            await self._inner.sleep(min(left, LONGEST_WAIT))
            left = target - self.now()

    async def measure(self) -> timedelta:
        """Ask the store for its time a few times, correct this clock, and return the offset.

        Store errors are raised; the clock then continues as before.
        """
        reading = choose_reading([await self._read() for _ in range(READING_COUNT)])
        elapsed = self._elapsed()
        self._timeline = decide_timeline(self._timeline, reading, elapsed)
        self._measured_after = elapsed
        self._measured_offset = self.offset
        self._report_offset()
        return self._measured_offset

    async def keep_measuring(self) -> None:
        """Measure every few minutes, and within seconds after the host's clock was set.

        Runs until cancelled. While the store does not answer, time continues as before, and the
        store is asked again every two seconds.
        """
        is_answered = True
        while True:
            await self._inner.sleep(LOOKED_EVERY)
            if not self._is_to_be_measured():
                continue
            try:
                await self.measure()
                is_answered = True
            except StoreError as error:
                if is_answered:
                    logger.warning("The clock of the store cannot be read: %s", error)
                is_answered = False

    def _is_to_be_measured(self) -> bool:
        age = self._elapsed() - self._measured_after
        was_set = abs(self.offset - self._measured_offset) > NOTICED_JUMP
        return was_set or age >= self._measured_every

    async def _read(self) -> Reading:
        asked = self._elapsed()
        shown = await self._read_store_clock()
        if shown is None:
            raise ClockUseError("this store has no clock of its own to set another right by")
        return Reading(to_utc(shown, "the store's clock"), asked, self._elapsed())

    def _report_offset(self) -> None:
        offset = self._measured_offset
        was_alarming = abs(self._reported_offset) > ALARMING_OFFSET
        is_alarming = abs(offset) > ALARMING_OFFSET
        has_changed = abs(offset - self._reported_offset) > ALARMING_OFFSET
        if is_alarming != was_alarming or (is_alarming and has_changed):
            self._reported_offset = offset
            self._on_offset(offset)
