"""The machine's time. No other module reads it."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from rota.clock.protocol import as_duration, to_utc

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
