"""Jobs in specification 3's words, and lists of them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import (
    Job,
    JobFilter,
    JobId,
    JobStatus,
    Overlap,
    check_limit,
    encode_cursor,
    format_instant,
    rail_word,
)
from rota.jobs.search import HIGHEST_LIMIT, listing_key
from rota.jobs.states import RailWord
from rota.rail.context import RailContext
from rota.rail.requests import show_rail_priority

_SPECIFIED_NAMES = {"tenant": "guildId", "kind": "type"}


def _outer_name(name: str) -> str:
    """The name in the specification."""
    first, *others = name.split("_")
    return _SPECIFIED_NAMES.get(name, first + "".join(part.title() for part in others))


class SeriesView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The series of a job. Exactly one of the first three fields is set.

    ``scheduled_for`` is the occurrence of the job, even when ``run_at`` was moved.
    """

    rrule: str | None = None
    cron: str | None = None
    interval: str | None = None
    tz: str
    start_from: datetime
    overlap: Overlap = "skip"
    scheduled_for: datetime
    origin_job_id: JobId
    missed_count: int = 0
    is_paused: bool = False


class RailJob(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename=_outer_name,
):
    """A job as the rail shows it. ``state`` is queued, processing, done, failed or dlq.

    Attributes use Python names; ``to_document`` uses specification 3's names.
    """

    job_id: JobId
    tenant: str
    kind: str
    payload: Any
    priority: int
    run_at: datetime
    attempts: int
    state: RailWord
    last_error: str | None = None
    lease_until: datetime | None = None
    worker_id: str | None = None
    idempotency_key: str | None = None
    run_at_bucket: str | None = None
    queue: str
    deferred_until: datetime | None = None
    deferred_reason: str | None = None
    deferred_count: int = 0
    series: SeriesView | None = None
    replaces: JobId | None = None
    created_at: datetime
    updated_at: datetime

    def to_document(self) -> dict[str, Any]:
        """Plain values for JSON. Absent values are left out; instants are ISO 8601 text."""
        plain: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(datetime,))
        return {
            name: value if name == "payload" else _with_text(value) for name, value in plain.items()
        }


def view_job(job: Job) -> RailJob:
    lease, deferral = job.lease, job.deferral
    return RailJob(
        job_id=job.id,
        tenant=job.tenant,
        kind=job.kind,
        payload=job.payload,
        priority=show_rail_priority(job.priority),
        run_at=job.due_at,
        attempts=job.attempt_count,
        state=rail_word(job.status, job.ending),
        last_error=job.last_error,
        lease_until=None if lease is None else lease.until,
        worker_id=None if lease is None else lease.worker,
        idempotency_key=job.idempotency_key,
        run_at_bucket=job.occurrence,
        queue=job.queue,
        deferred_until=None if deferral is None else deferral.until,
        deferred_reason=None if deferral is None else deferral.reason,
        deferred_count=0 if deferral is None else deferral.count,
        series=_view_series(job),
        replaces=job.replaces,
        created_at=job.created_at,
        updated_at=job.updated_at,
    )


def _view_series(job: Job) -> SeriesView | None:
    recurrence = job.recurrence
    if recurrence is None:
        return None
    return SeriesView(
        rrule=recurrence.rrule,
        cron=recurrence.cron,
        interval=recurrence.interval,
        tz=recurrence.zone,
        start_from=recurrence.start,
        overlap=recurrence.overlap,
        scheduled_for=job.occurrence_at or job.due_at,
        origin_job_id=job.origin or job.id,
        missed_count=job.missed_count,
        is_paused=job.is_paused,
    )


def _with_text(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, dict):
        return {name: _with_text(inner) for name, inner in value.items()}
    return value


STATUSES: dict[RailWord, tuple[JobStatus, ...]] = {
    "queued": (JobStatus.PENDING, JobStatus.READY),
    "processing": (JobStatus.RUNNING,),
    "done": (JobStatus.COMPLETED,),
    "failed": (JobStatus.FAILED, JobStatus.BLOCKED),
    "dlq": (JobStatus.FAILED,),
}
"""The statuses of each state. FAILED jobs differ by their ending."""


class RailPage(msgspec.Struct, frozen=True):
    """One page, newest first. The last page has no ``next_cursor``."""

    items: tuple[RailJob, ...]
    next_cursor: str | None


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Selects jobs by state and predicate, then passes them through ``sift``.

    ``sift`` may query the store for many jobs at once.
    """

    state: RailWord | None = None
    wanted: JobFilter = JobFilter()
    accepts: Callable[[Job], bool] = lambda _: True
    sift: Callable[[Sequence[Job]], Awaitable[Sequence[Job]]] | None = None

    def takes(self, job: Job) -> bool:
        is_in_state = self.state is None or rail_word(job.status, job.ending) == self.state
        return is_in_state and self.accepts(job)

    async def choose(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """The matching jobs, in order."""
        taken = [job for job in jobs if self.takes(job)]
        return taken if self.sift is None or not taken else await self.sift(taken)


async def list_rail_jobs(
    around: RailContext, search: Search, cursor: str | None, limit: int
) -> RailPage:
    found, next_cursor = await find_page(around, search, cursor, limit)
    return RailPage(tuple(view_job(job) for job in found), next_cursor)


async def find_page(
    around: RailContext, search: Search, cursor: str | None, limit: int
) -> tuple[list[Job], str | None]:
    """Up to ``limit`` jobs from ``cursor`` on, and the next cursor if there may be more.

    Reads page by page until enough jobs match.
    """
    check_limit(limit)
    found: list[Job] = []
    while True:
        looked_at, has_more = await _look(around, search, cursor, limit)
        for job in await search.choose(looked_at):
            found.append(job)
            if len(found) == limit:
                has_more = has_more or job is not looked_at[-1]
                return found, encode_cursor(job.created_at, job.id) if has_more else None
        if not has_more:
            return found, None
        cursor = encode_cursor(looked_at[-1].created_at, looked_at[-1].id)


async def walk_search(around: RailContext, search: Search) -> AsyncIterator[Job]:
    """All matching jobs of the tenant, newest first, page by page."""
    cursor: str | None = None
    while True:
        found, cursor = await find_page(around, search, cursor, HIGHEST_LIMIT)
        for job in found:
            yield job
        if cursor is None:
            return


async def walk_jobs(around: RailContext, wanted: JobFilter) -> AsyncIterator[Job]:
    """All jobs of the tenant that pass the predicate, newest first, page by page."""
    cursor: str | None = None
    while True:
        page = await around.store.find(around.tenant, wanted, cursor, HIGHEST_LIMIT)
        for job in page.items:
            yield job
        cursor = page.next_cursor
        if cursor is None:
            return


def read_state(state: object) -> RailWord | None:
    if state is None:
        return None
    for word in STATUSES:
        if word == state:
            return word
    raise InvalidInputError(f"state must be one of {', '.join(STATUSES)}", {"field": "state"})


async def _look(
    around: RailContext, search: Search, cursor: str | None, limit: int
) -> tuple[list[Job], bool]:
    """The next ``limit`` jobs in all relevant statuses, in order."""
    statuses = (None,) if search.state is None else STATUSES[search.state]
    found: list[Job] = []
    has_more = False
    for status in statuses:
        wanted = msgspec.structs.replace(search.wanted, status=status or search.wanted.status)
        page = await around.store.find(around.tenant, wanted, cursor, limit)
        found += page.items
        has_more = has_more or page.has_more
    found.sort(key=lambda job: listing_key(job.created_at, job.id))
    return found[:limit], has_more or len(found) > limit
