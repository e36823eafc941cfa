"""Outcomes of an attempt, and changes: decided moves that are not written yet."""

from datetime import timedelta
from typing import TypeAlias

import msgspec

from rota.jobs.record import Attempt, Job, JobId
from rota.jobs.states import JobStatus


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is to be written about one job, all of it or nothing.

    It holds only while the job is still at ``expected_status`` with the lease token
    ``expected_token``; otherwise it is stale, and writes nothing.
    """

    job: Job
    """The job as it will be."""
    path: tuple[JobStatus, ...]
    """The statuses it goes through, the present one first. Each step is in the table of moves."""
    expected_token: int
    attempt: Attempt | None = None
    """The attempt that was spent without success, to be kept."""
    successor: Job | None = None
    """The next job of its series; one with that id may exist already, and is then left alone."""
    missed_count: int = 0
    """How many occurrences of the series are passed over."""
    series_end: str | None = None
    """Why the series does not go on, when it recurred until now."""
    is_removed: bool = False
    """The job is not kept after its end."""

    @property
    def job_id(self) -> JobId:
        return self.job.id

    @property
    def expected_status(self) -> JobStatus:
        return self.path[0]


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The handler returned."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The handler raised, ran too long, or there was none."""

    error: str


class Snoozed(msgspec.Struct, frozen=True, gc=False):
    """The handler asked to be called again after a while."""

    for_: timedelta


class Discarded(msgspec.Struct, frozen=True, gc=False):
    """The handler said that no attempt would ever succeed."""

    reason: str


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """Somebody called the job off while it ran."""

    reason: str


class Lost(msgspec.Struct, frozen=True, gc=False):
    """The lease ran out: nobody knows what the worker has done."""


class Interrupted(msgspec.Struct, frozen=True, gc=False):
    """The worker shut down; the job is not to blame."""


Outcome: TypeAlias = Succeeded | Failed | Snoozed | Discarded | Cancelled | Lost | Interrupted
