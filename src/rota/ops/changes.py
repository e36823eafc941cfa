"""Notices that something changed in a store, so that pages need not ask for everything again."""

from asyncio import Future, ensure_future, shield
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rota.clock.protocol import Clock
from rota.jobs import JobFilter
from rota.stores.opened import OpenStore
from rota.stores.protocol import Watchable

LOOK_EVERY: Final = timedelta(milliseconds=500)
"""How often one follower looks for changes."""

READ_EVERY: Final = timedelta(seconds=2)
"""How often a store is read that does not show by itself that it was written to."""

KEPT_TIMES = 8
NEWEST_READ = 20


class _Reading(NamedTuple):
    """The marks of a tenant, and until when they are taken for the present ones."""

    marks: object
    until: datetime


class ChangeFeed:
    """Notices changes for all followers of a tenant at once.

    A store that shows a version is asked for it, which takes microseconds. Of others the depths of
    the queues and the newest jobs are read, once for all followers and at most an eighth of the
    time. What changes nothing of these is noticed with the next beat only.
    """

    def __init__(self, store: OpenStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._readings: dict[str, _Reading] = {}
        self._loading: dict[str, Future[object]] = {}
        self.follower_count = 0
        self.is_closed = False

    def close(self) -> None:
        """End every ``follow``, so that the server can stop."""
        self.is_closed = True

    async def follow(
        self, tenant: str, *, lasts_for: timedelta, beat_every: timedelta
    ) -> AsyncIterator[bool]:
        """Yield True after a change, and False when nothing has changed for a while.

        Changes within one look count as one. Ends after ``lasts_for``, and when the feed is closed.
        """
        self.follower_count += 1
        try:
            now = self._clock.now()
            ends_at, beat_at = now + lasts_for, now + beat_every
            seen = await self._read(tenant)
            while not self.is_closed and now < ends_at:
                await self._clock.sleep(LOOK_EVERY)
                now = self._clock.now()
                found = await self._read(tenant)
                if found == seen and now < beat_at:
                    continue
                yield found != seen
                seen, beat_at = found, now + beat_every
        finally:
            self.follower_count -= 1

    async def _read(self, tenant: str) -> object:
        """Marks that differ after a change."""
        if isinstance(self._store, Watchable):
            return self._store.read_version()
        known = self._readings.get(tenant)
        if known is not None and self._clock.now() < known.until:
            return known.marks
        loading = self._loading.get(tenant)
        if loading is None:
            loading = self._loading[tenant] = ensure_future(self._load(tenant))
        return await shield(loading)

    async def _load(self, tenant: str) -> object:
        try:
            begun = self._clock.now()
            depths = await self._store.survey(begun, tenant)
            newest = await self._store.find(tenant, JobFilter(), None, NEWEST_READ)
            marks = depths, [(job.id, job.status, job.updated_at) for job in newest.items]
            ended = self._clock.now()
            until = ended + max(READ_EVERY, KEPT_TIMES * (ended - begun))
            self._readings[tenant] = _Reading(marks, until)
        finally:
            del self._loading[tenant]
        return marks
