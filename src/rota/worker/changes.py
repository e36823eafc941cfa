"""Waits for writes to the store, where no write can go unnoticed.

In real time a worker polls: a notification may be lost, and other processes write. Virtual time
must not stop for polls, or a day of an idle worker costs a hundred thousand of them. But a virtual
clock knows when nothing runs any more, and then the version of the store shows every write that
was made. So a loop with nothing to do waits for the next write instead.
"""

from typing import Self

from rota.clock.protocol import Clock, ConditionalClock
from rota.stores.protocol import Watchable


class StoreChanges:
    """The writes to a store, under a virtual clock."""

    def __init__(self, store: Watchable, clock: ConditionalClock) -> None:
        self._store = store
        self._clock = clock

    @classmethod
    def of(cls, store: object, clock: Clock) -> Self | None:
        """None in real time, and for a store that does not show its version: then loops poll."""
        if isinstance(clock, ConditionalClock) and isinstance(store, Watchable):
            return cls(store, clock)
        return None

    def read_version(self) -> int | None:
        """The version to wait from; read it before anything else."""
        return self._store.read_version()

    async def wait(self, version: int | None) -> None:
        """Return when the store has been written to since it had this version."""
        unchanged = (None, version)  # a version that cannot be read shows no write
        await self._clock.wait_until(lambda: self._store.read_version() not in unchanged)
