"""Job lists: filters, order, pages and cursors. The reference every store is tested against."""

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from rota.errors import InvalidCursorError, InvalidInputError
from rota.jobs.codec import format_instant, parse_instant
from rota.jobs.fields import normalize_job_id
from rota.jobs.ordering import is_dead_letter
from rota.jobs.record import Instant, Job, JobId
from rota.jobs.states import JobStatus

LONGEST_CURSOR = 200


def encode_cursor(created_at: datetime, job_id: JobId) -> str:
    """The Base64 of ``created_at|id``.

    None of its characters needs an escape in a query, except the ``=`` at its end.
    """
    return base64.b64encode(f"{format_instant(created_at)}|{job_id}".encode()).decode()


def decode_cursor(text: str) -> tuple[datetime, JobId]:
    """The instant and the id given to ``encode_cursor``. Anything else is refused."""
    if len(text) > LONGEST_CURSOR:
        raise InvalidCursorError(f"must not be longer than {LONGEST_CURSOR} characters")
    try:
        plain = base64.b64decode(text, validate=True).decode("ascii")
    except ValueError as error:
        raise InvalidCursorError("is not the Base64 of a place in a list") from error
    instant, _, identifier = plain.partition("|")
    job_id = normalize_job_id(identifier)
    if job_id is None:
        raise InvalidCursorError("does not end with the id of a job")
    try:
        return parse_instant(instant), job_id
    except InvalidInputError as error:
        raise InvalidCursorError("does not begin with an instant") from error


DEFAULT_LIMIT = 20
HIGHEST_LIMIT = 100


class JobFilter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Selects jobs. A job must match every given field."""

    tenant: str | None = None
    queue: str | None = None
    status: JobStatus | None = None
    priority_min: int | None = None
    priority_max: int | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    is_recurring: bool | None = None
    only_dead: bool = False

    @property
    def is_of_series(self) -> bool:
        """Jobs of series in one status, which a store finds by index."""
        return bool(self.is_recurring) and self.status is not None

    def accepts(self, job: Job) -> bool:
        """Whether the job matches.

        ``only_dead`` accepts dead letters: jobs that failed, and were not discarded or cancelled.
        ``created_after`` is inclusive, ``created_before`` exclusive; priorities include both ends.
        """
        equal = ((self.tenant, job.tenant), (self.queue, job.queue), (self.status, job.status))
        if any(wanted is not None and wanted != actual for wanted, actual in equal):
            return False
        if self.is_recurring not in (None, job.recurrence is not None):
            return False
        if self.only_dead and not is_dead_letter(job):
            return False
        return self._accepts_priority(job.priority) and self._accepts_age(job.created_at)

    def _accepts_priority(self, priority: int) -> bool:
        if self.priority_min is not None and priority < self.priority_min:
            return False
        return self.priority_max is None or priority <= self.priority_max

    def _accepts_age(self, created_at: datetime) -> bool:
        if self.created_after is not None and created_at < self.created_after:
            return False
        return self.created_before is None or created_at < self.created_before


class Page(msgspec.Struct, frozen=True, gc=False):
    """One page of a list. The last page has no ``next_cursor``."""

    items: list[Job]
    next_cursor: str | None

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


def listing_key(created_at: datetime, job_id: JobId) -> tuple[timedelta, JobId]:
    """Ascending: newest first, then by id."""
    return datetime.max.replace(tzinfo=created_at.tzinfo) - created_at, job_id


def check_limit(limit: int) -> int:
    """The limit itself. A limit out of range is refused, not clamped."""
    if type(limit) is not int or not 1 <= limit <= HIGHEST_LIMIT:
        raise InvalidInputError(
            f"limit must be an integer from 1 to {HIGHEST_LIMIT}, got {limit!r}",
            {"field": "limit"},
        )
    return limit


def cut_page(found: Sequence[Job], limit: int) -> Page:
    """The first ``limit`` jobs; one more shows that there is a next page."""
    items = list(found[:limit])
    if len(found) <= limit:
        return Page(items, None)
    return Page(items, encode_cursor(items[-1].created_at, items[-1].id))


def list_jobs(
    jobs: Iterable[Job],
    wanted: JobFilter | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page:
    """The page of matching jobs after ``cursor``, or the first page."""
    check_limit(limit)
    wanted = wanted or JobFilter()
    keyed = [(listing_key(job.created_at, job.id), job) for job in jobs if wanted.accepts(job)]
    if cursor is not None:
        last = listing_key(*decode_cursor(cursor))
        keyed = [(key, job) for key, job in keyed if key > last]
    keyed.sort(key=lambda pair: pair[0])
    return cut_page([job for _, job in keyed[: limit + 1]], limit)
