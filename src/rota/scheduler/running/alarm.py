"""Rest until an instant, or until somebody calls."""

import asyncio
from datetime import datetime, timedelta

from rota.clock.protocol import Clock


class Alarm:
    """Wakes one sleeper. A call that comes while nobody rests is kept for the next rest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()
        self._set_for: datetime | None = None
        self._timer: asyncio.Task[None] | None = None

    def ring(self) -> None:
        self._rung.set()

    async def rest_until(self, instant: datetime | None) -> None:
        """Return when ``instant`` has come or ``ring`` was called; None waits for a call alone."""
        self._set(instant)
        await self._rung.wait()
        self._rung.clear()

    async def rest_for(self, duration: timedelta) -> None:
        """Return when so much time has passed, whatever the clock shows, or ``ring`` was called."""
        self._set(None)
        self._timer = asyncio.create_task(self._ring_after(duration))
        await self._rung.wait()
        self._rung.clear()

    def cancel(self) -> None:
        self._set(None)

    def _set(self, instant: datetime | None) -> None:
        is_running = self._timer is not None and not self._timer.done()
        if is_running and instant is not None and instant == self._set_for:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._set_for = instant
        self._timer = None if instant is None else asyncio.create_task(self._ring_at(instant))

    async def _ring_after(self, duration: timedelta) -> None:
        await self._clock.sleep(duration)
        self._rung.set()

    async def _ring_at(self, instant: datetime) -> None:
        await self._clock.sleep_until(instant)
        self._rung.set()
