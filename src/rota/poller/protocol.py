"""What a poller needs from a store: three verbs, and the records they exchange.

The words are those of specification 4. A document *sleeps* until an instant. To *lock* it is to let
it sleep until the lock ends, so a document whose poller died wakes up by itself.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec


class PolledJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was before it was locked.

    - ``sleep_until``: when it was due, or when its last lock ended if it was not finished. If the
      store holds something that is not an instant, that value.
    - ``interval``: a cron expression of the extended dialect, or nothing for a job that does not
      recur. It is the value in the store, and may be anything.
    - ``repeat_until``: the latest possible occurrence. ``auto_remove``: remove the job when done.
    - ``zone``: the name of the interval's zone, if the job has one.
    - ``payload``: the work. For a document of a collection, the whole document.
    - ``lock``: how the store recognises the lock; only the store uses it.
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
    """The fields to change; a field that is not given stays as it is.

    ``sleep_until=None`` differs from leaving it out: the job never wakes again.
    """

    sleep_until: datetime | msgspec.UnsetType | None = msgspec.UNSET
    auto_remove: bool | msgspec.UnsetType = msgspec.UNSET


class PollableStore(Protocol):
    """Documents that one poller at a time can lock.

    Every verb is one atomic step. Errors of the database are raised as StoreError.
    """

    async def lock_next(self, lock_until: datetime, now: datetime) -> PolledJob | None:
        """Lock the next job and return it as it was before.

        The next job has the earliest ``sleep_until`` that is not after ``now``, and the smallest
        id among equals. Until ``lock_until`` no other caller gets it. Returns None, without
        waiting, when there is none.
        """
        ...

    async def update(self, job: PolledJob, update: JobUpdate, now: datetime) -> bool:
        """Write the update and end the lock. False, and nothing written, when the lock was lost."""
        ...

    async def remove(self, job: PolledJob) -> bool:
        """Remove the job. False, and nothing removed, when the lock was lost."""
        ...
