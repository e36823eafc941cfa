"""Outcomes of an attempt, and changes: decided moves that are not written yet."""

from datetime import timedelta
from typing import TypeAlias

import msgspec

from rota.jobs.record import Attempt, Job, JobId
from rota.jobs.states import JobStatus


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything to write about one job, all of it or nothing.

    A change holds while the job still has ``expected_status`` and the lease token
    ``expected_token``; otherwise it is stale and writes nothing.
    """

    job: Job
    """The job after the change."""
    path: tuple[JobStatus, ...]
    """The statuses it goes through, starting with the current one.

    Each step is an allowed transition.
    """
    expected_token: int
    attempt: Attempt | None = None
    """The failed attempt to record."""
    successor: Job | None = None
    """The next job of the series. If a job with that id exists, it is left alone."""
    missed_count: int = 0
    """How many occurrences of the series are skipped."""
    series_end: str | None = None
    """Why the series ends, if it does."""
    is_removed: bool = False
    """Remove the job after its end."""

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
    """The handler asked to run again later."""

    for_: timedelta


class Discarded(msgspec.Struct, frozen=True, gc=False):
    """The handler said that no attempt can succeed."""

    reason: str


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """An operator cancelled the job while it ran."""

    reason: str


class Lost(msgspec.Struct, frozen=True, gc=False):
    """The lease expired, and what the worker did is unknown."""


class Interrupted(msgspec.Struct, frozen=True, gc=False):
    """The worker shut down; no attempt is spent."""


Outcome: TypeAlias = Succeeded | Failed | Snoozed | Discarded | Cancelled | Lost | Interrupted
