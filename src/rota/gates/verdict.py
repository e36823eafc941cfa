"""Whether a job may run now, and if not, when to ask again."""

from datetime import datetime
from typing import Protocol, TypeAlias

import msgspec

from rota.jobs.record import Instant, Job


class Open(msgspec.Struct, frozen=True, gc=False):
    """The job may run now."""


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The job may not run now.

    ``reopens_at`` is when to ask again, always later than the instant that was asked about; what
    closes a gate for good gives an instant at which it is worth asking, and so on. ``reason`` is
    kept with the job and shown to people.
    """

    reopens_at: Instant
    reason: str


Verdict: TypeAlias = Open | Closed


class Gate(Protocol):
    """Something that may hold a job back for a while.

    A value: it gives the same verdict for the same arguments, waits for nothing and reads no
    clock, so that it may be asked about any instant, also one to come.
    """

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """Whether the job may start at ``now``; ``notifies`` says that its handler tells people."""
        ...
