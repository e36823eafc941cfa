"""Whether a job may run now, and if not, when to ask again."""

from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from rota.jobs.record import Instant, Job


class Open(msgspec.Struct, frozen=True, gc=False):
    """The job may run now."""


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The job may not run now.

    ``reopens_at`` is the first instant at which it may, as far as the gate can tell. A gate that
    cannot tell says so with ``is_recheck``: then it is merely the instant to ask again. Either way
    it is later than the instant that was asked about. ``reason`` is kept with the job, for people.
    """

    reopens_at: Instant
    reason: str
    is_recheck: bool = False


Verdict: TypeAlias = Open | Closed

OPEN = Open()


class Gate(Protocol):
    """Something that may hold a job back for a while.

    A value: it waits for nothing, reads no clock and gives the same verdict for the same arguments,
    so that it may be asked about any instant, also one to come.
    """

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """Whether the job may start at ``now``; ``notifies`` says that its handler tells people."""
        ...


@runtime_checkable
class Refreshed(Protocol):
    """A gate that wants to look somewhere before it is asked about the next jobs."""

    async def refresh(self, now: datetime) -> object:
        """Look, if it is time to. What it raises is passed on, and the last look still holds."""
        ...
