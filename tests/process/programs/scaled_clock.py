"""A clock that runs faster than real time and shows the same in every process of the host."""

from datetime import UTC, datetime, timedelta

import msgspec

from rota.clock.system import SystemClock, monotonic

EPOCH = datetime(2024, 3, 4, 10, 0, 30, tzinfo=UTC)


class ScaledClock(msgspec.Struct, frozen=True):
    """Shows ``epoch`` when the host's monotonic clock shows ``started``; a second lasts 1/rate.

    It is handed to other processes as it is: all of them read the same monotonic clock.
    """

    started: float
    epoch: datetime = EPOCH
    rate: float = 60.0

    def now(self) -> datetime:
        return self.epoch + timedelta(seconds=(monotonic() - self.started) * self.rate)

    async def sleep(self, duration: timedelta) -> None:
        await SystemClock().sleep(duration / self.rate)

    async def sleep_until(self, instant: datetime) -> None:
        await self.sleep(instant - self.now())
        while (left := instant - self.now()) > timedelta():
            await self.sleep(left)
