"""What a poller needs of a store: three verbs, and what is handed over.

The words are those of specification 4. A document *sleeps* until an instant; to *lock* it is to
let it sleep until the lock runs out, so that one whose poller has died wakes up by itself.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec


class PolledJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was before it was locked.

    - ``sleep_until``: when it was to be processed; of one that was locked and not finished, when
      that lock ran out. Where the store holds something that is no instant, that.
    - ``interval``: a cron expression of the extended dialect, or nothing for a job that does not
      recur. It is as the store holds it, and may be anything.
    - ``repeat_until``: no occurrence is later. ``auto_remove``: a job that is done is removed.
    - ``zone``: the name of the zone of the interval, where the job names one.
    - ``payload``: what it is about. Of a collection's document it is the whole of it.
    - ``lock``: by what the store recognises that the lock is still held; nobody else's business.
    """

    id: Any
    sleep_until: Any
    interval: Any = None
    repeat_until: Any = None
    auto_remove: bool = False
    zone: str | None = None
    payload: Mapping[str, Any] = {}
    lock: Any = None


class JobUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be changed; a field that is not given stays as it is.

    ``sleep_until=None`` is not the same as leaving it out: the job sleeps for good.
    """

    sleep_until: datetime | msgspec.UnsetType | None = msgspec.UNSET
    auto_remove: bool | msgspec.UnsetType = msgspec.UNSET


class PollableStore(Protocol):
    """Documents of which each can be locked by one poller at a time.

    Every verb is one atomic step. What the database reports is raised as a StoreError.
    """

    async def lock_next(self, lock_until: datetime, now: datetime) -> PolledJob | None:
        """Lock the job that should have been processed first, and give it as it was before.

        That is the one with the earliest ``sleep_until``, not later than ``now``; of several the
        one with the smallest id. No two callers are given the same one, until ``lock_until``.
        Returns None, rather than wait, when there is none.
        """
        ...

    async def update(self, job: PolledJob, update: JobUpdate, now: datetime) -> bool:
        """Write the update and end the lock; False, and nothing written, when it was lost."""
        ...

    async def remove(self, job: PolledJob) -> bool:
        """Remove the job; False, and nothing removed, when its lock was lost."""
        ...
