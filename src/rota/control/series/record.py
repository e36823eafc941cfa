"""A series as an operator sees it."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from rota.errors import RotaError
from rota.jobs import PAUSED_UNTIL, Job, JobId, JobStatus, Overlap, Recurrence
from rota.jobs.states import Ending
from rota.rail.preview import Preview, Upcoming, preview_series

SHOWN_IN_LIST = 3
SHOWN_IN_DETAIL = 10
RUNS_SHOWN = 10


class SeriesRun(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence that has been: the job that stood for it, and how it ended."""

    job_id: JobId
    occurrence_at: datetime
    status: JobStatus
    ending: Ending | None = None
    ended_at: datetime
    error: str | None = None


class SeriesSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A live series. ``id`` names it; ``job_id`` is the job that stands for its next occurrence.

    ``description`` is the rule in words. ``next_at`` is when that job is due, None while the series
    is paused. ``occurrences`` are the next few, each as an instant and on the clock of the zone,
    with a note where the clocks change; ``skipped`` tells of times that do not exist.
    ``missed_count`` occurrences passed without a run that nobody has been told of yet.
    """

    id: JobId
    job_id: JobId
    name: str
    kind: str
    queue: str
    status: JobStatus
    is_paused: bool
    description: str
    recurrence: Recurrence
    next_at: datetime | None
    occurrences: tuple[Upcoming, ...] = ()
    skipped: tuple[str, ...] = ()
    is_last: bool = False
    missed_count: int = 0
    problem: str | None = None
    last_run: SeriesRun | None = None

    @property
    def zone(self) -> str:
        return self.recurrence.zone

    @property
    def overlap(self) -> Overlap:
        return self.recurrence.overlap


class SeriesDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A series with more of its past: the last runs that are kept, the newest first."""

    series: SeriesSummary
    runs: tuple[SeriesRun, ...]


def summarize(job: Job, recurrence: Recurrence, runs: Iterable[Job], shown: int) -> SeriesSummary:
    """The series that a live job belongs to; ``runs`` are ended jobs of it, the newest first."""
    at = job.occurrence_at or job.due_at
    preview, problem = _preview(recurrence, at, shown)
    last = next(iter(runs), None)
    return SeriesSummary(
        id=job.origin or job.id,
        job_id=job.id,
        name=job.name,
        kind=job.kind,
        queue=job.queue,
        status=job.status,
        is_paused=job.is_paused,
        description=preview.description or recurrence.text,
        recurrence=recurrence,
        next_at=None if job.due_at == PAUSED_UNTIL else job.due_at,
        occurrences=preview.occurrences,
        skipped=preview.skipped,
        is_last=preview.is_complete and len(preview.occurrences) <= 1,
        missed_count=job.missed_count,
        problem=problem,
        last_run=None if last is None else view_run(last),
    )


def view_run(job: Job) -> SeriesRun:
    """An ended job of a series."""
    return SeriesRun(
        job_id=job.id,
        occurrence_at=job.occurrence_at or job.due_at,
        status=job.status,
        ending=job.ending,
        ended_at=job.updated_at,
        error=job.last_error,
    )


def _preview(recurrence: Recurrence, at: datetime, count: int) -> tuple[Preview, str | None]:
    """The next occurrences; a rule that cannot be computed here says why instead."""
    try:
        return preview_series(recurrence, at, count), None
    except RotaError as error:
        return Preview("", (), (), is_complete=False), error.message
