"""A tenant's jobs and series: their views and lists, actions on them, and previews."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec

from rota.clock.protocol import Clock
from rota.errors import (
    ConflictError,
    IllegalMoveError,
    InvalidInputError,
    InvalidJobError,
    JobEndedError,
    JobNotFoundError,
    RotaError,
)
from rota.jobs import (
    PAUSED_UNTIL,
    RAIL_RETRIES,
    CatchUp,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    Overlap,
    Recurrence,
    RetryPolicy,
    check_limit,
    decide_cancel,
    encode_cursor,
    format_instant,
    make_trigger,
    planned_start,
    rail_word,
)
from rota.jobs.fields import read_id
from rota.jobs.recurrence import CALENDAR_END, continue_series
from rota.jobs.search import HIGHEST_LIMIT, listing_key
from rota.jobs.states import RailWord
from rota.rail.environment import with_usual_attempts
from rota.rail.noted_series import forget_pause, note_pause
from rota.stores.protocol import DocumentStore, JobStore
from rota.triggers import Trigger
from rota.triggers.cron import CronTrigger
from rota.triggers.dst_notes import AskedFor, Note, annotate, asked_by_cron, asked_by_rule
from rota.triggers.interval import Interval
from rota.triggers.rrule import RecurrenceRule
from rota.triggers.zone import Fold, Gap, load_zone


class RailStore(DocumentStore, JobStore, Protocol):
    """A store of documents and jobs, as every opened store is."""


class RailSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for jobs that do not set their own values.

    By default jobs are tried five times, or as often as ``WORKER_MAX_ATTEMPTS`` says.
    """

    queue: str = "default"
    retry_policy: RetryPolicy = msgspec.field(
        default_factory=lambda: with_usual_attempts(RAIL_RETRIES)
    )


class RailContext(NamedTuple):
    """The store, clock and tenant of a rail."""

    store: RailStore
    tenant: str
    clock: Clock
    settings: RailSettings
    draw_bits: Callable[[int], int]


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
    catch_up: CatchUp = "once"
    jitter: str | None = None
    alert_after: str | None = None
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


def show_rail_priority(priority: int) -> int:
    """Convert a Rota priority to the rail's. Values in between round to the next higher one."""
    return 6 - (priority + 1) // 2


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
        catch_up=recurrence.catch_up,
        jitter=recurrence.jitter,
        alert_after=recurrence.alert_after,
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


ROUND_LIMIT = 20
"""How often an action is decided again because a worker changed the job meanwhile."""

PASSED_OVER = "passed over: its series was paused when its time came"

_LIVE = (JobStatus.READY, JobStatus.PENDING, JobStatus.RUNNING)


async def find_job(around: RailContext, job_id: object) -> Job | None:
    named = read_id(job_id, "job_id")
    return (await around.store.get(around.tenant, [named])).get(named)


async def find_live(around: RailContext, job_id: object) -> list[Job]:
    """The job if it has not ended, else the live jobs of its series.

    Raises JobNotFoundError when there is neither, JobEndedError when the whole series has ended. A
    series with overlapping occurrences may have several live jobs.
    """
    named = read_id(job_id, "job_id")
    job = await find_job(around, named)
    if job is not None and not job.status.is_terminal and not _may_overlap(job):
        return [job]
    if job is not None and job.recurrence is None:
        raise JobEndedError(job.id, job.status, job.ending)
    origin = named if job is None else job.origin or job.id
    # Twice: between the two queries a waiting job may start running.
    for _ in range(2):
        found = {each.id: each async for each in _scan_series(around, origin)}
        if found:
            return sorted(found.values(), key=lambda each: each.occurrence_at or each.due_at)
    if job is None:
        raise JobNotFoundError(named)
    raise JobEndedError(job.id, job.status, job.ending)


async def cancel_jobs(
    around: RailContext, job_id: object, reason: str, *, ends_series: bool
) -> list[Job]:
    """Cancel the job and its series, or only this occurrence."""
    cancelled: list[Job] = []
    for _ in range(ROUND_LIMIT):
        now = around.clock.now()
        try:
            live = await find_live(around, job_id)
        except JobEndedError:
            if cancelled:
                return cancelled
            raise
        named = [job for job in live if job.id == job_id]
        chosen = live if ends_series else named or live[:1]
        changes = [decide_cancel(job, reason, now, ends_series=ends_series) for job in chosen]
        applied = await around.store.apply(changes, now)
        cancelled += [each.job for each in applied if each.job is not None]
        if not any(each.is_stale for each in applied):
            return cancelled
    raise _outrun(job_id)


async def move_job(around: RailContext, job_id: object, due_at: datetime) -> Job:
    """Move a waiting job to another due time."""
    for _ in range(ROUND_LIMIT):
        live = await find_live(around, job_id)
        waiting = [job for job in live if job.status is not JobStatus.RUNNING]
        if not waiting:
            raise IllegalMoveError(JobStatus.RUNNING, JobStatus.READY, "it is running already")
        moved = await _amend(around, waiting[0], due_at=due_at)
        if moved is not None and moved.status is not JobStatus.RUNNING:
            return moved
    raise _outrun(job_id)


async def pause_series(around: RailContext, job_id: object, *, who: str = "", why: str = "") -> Job:
    """Pause the series. Running jobs finish."""
    for _ in range(ROUND_LIMIT):
        live = _require_series(await find_live(around, job_id))
        await note_pause(around.store, live[-1], around.clock.now(), who, why)
        paused = [job if job.is_paused else await _pause(around, job) for job in live]
        if None not in paused:
            return paused[-1] or live[-1]
    raise _outrun(job_id)


async def resume_series(around: RailContext, job_id: object, *, catch_up: bool) -> Job:
    """Resume the series with its next occurrence or, to catch up, with the one it missed."""
    for _ in range(ROUND_LIMIT):
        live = _require_series(await find_live(around, job_id))
        resumed = [await _resume(around, job, catch_up=catch_up) for job in live]
        if None not in resumed:
            await forget_pause(around.store, around.tenant, live[-1].origin or live[-1].id)
            return resumed[-1] or live[-1]
    raise _outrun(job_id)


async def _scan_series(around: RailContext, origin: JobId) -> AsyncIterator[Job]:
    for status in _LIVE:
        async for job in walk_jobs(around, JobFilter(status=status, is_recurring=True)):
            if job.origin == origin:
                yield job


async def _amend(around: RailContext, job: Job, **fields: Any) -> Job | None:
    """The amended job, or None when it has ended or was removed meanwhile."""
    try:
        return await around.store.amend(around.tenant, job.id, fields, around.clock.now())
    except (JobEndedError, JobNotFoundError):
        return None


async def _pause(around: RailContext, job: Job) -> Job | None:
    has_begun = job.status is JobStatus.RUNNING or job.attempt_count > 0
    if has_begun:
        return await _amend(around, job, is_paused=True)
    return await _amend(around, job, is_paused=True, due_at=PAUSED_UNTIL)


async def _resume(around: RailContext, job: Job, *, catch_up: bool) -> Job | None:
    """The job that continues the series, or None when it moved meanwhile and must be read again."""
    if job.due_at != PAUSED_UNTIL or job.status is JobStatus.RUNNING:
        return await _amend(around, job, is_paused=False) if job.is_paused else job
    now, due_at = around.clock.now(), planned_start(job)
    if catch_up and job.recurrence is not None and job.recurrence.catch_up == "skip":
        due_at = max(due_at, now)  # otherwise it would count as missed and be skipped
    if catch_up or due_at >= now:
        return await _amend(around, job, is_paused=False, due_at=due_at)
    # First the mark, then the end that passes it on: a crash in between leaves a job that is never
    # due, and the next resume continues from there.
    freed = await _amend(around, job, is_paused=False)
    if freed is None or freed.status is JobStatus.RUNNING:
        return None
    now = around.clock.now()
    change = decide_cancel(freed, PASSED_OVER, now, ends_series=False)
    change = msgspec.structs.replace(change, **continue_series(freed, now, skips_missed=True))
    (applied,) = await around.store.apply([change], now)
    return applied.successor or applied.job


def _require_series(live: list[Job]) -> list[Job]:
    if live[0].recurrence is None:
        raise InvalidJobError("job_id", "must name a series, and this job does not recur")
    return live


def _may_overlap(job: Job) -> bool:
    return job.recurrence is not None and job.recurrence.overlap == "allow"


def _outrun(job_id: object) -> ConflictError:
    return ConflictError(
        f"Job {job_id} keeps being changed by other callers; try again",
        {"jobId": str(job_id)},
    )


HIGHEST_COUNT = 1_000
_KEPT_COUNT = 20
_KEPT_PREVIEWS = 1_024
"""The number of previews that are kept, if they have few occurrences."""

_INSTANT = timedelta(microseconds=1)


class Upcoming(msgspec.Struct, frozen=True):
    """One occurrence: the instant, the wall time, and how DST affected it."""

    at: datetime
    local: datetime
    note: str | None = None


class Preview(msgspec.Struct, frozen=True):
    """The next occurrences of a series.

    ``skipped`` lists wall times that do not exist. ``is_complete``: the series has no further
    occurrences.
    """

    description: str
    occurrences: tuple[Upcoming, ...]
    skipped: tuple[str, ...]
    is_complete: bool


def preview_series(recurrence: Recurrence, start: datetime, count: int) -> Preview:
    """Up to ``count`` occurrences from ``start`` on. A series' COUNT is counted from ``start``.

    In an event loop, use ``call_in_thread``: a rare rule takes milliseconds for each occurrence.
    """
    if type(count) is not int or not 1 <= count <= HIGHEST_COUNT:
        raise InvalidInputError(
            f"count must be an integer from 1 to {HIGHEST_COUNT}, got {count!r}", {"field": "count"}
        )
    if count > _KEPT_COUNT:
        return _work_out(recurrence, start, count)
    preview = _recall(recurrence, start, count)
    if isinstance(preview, RotaError):
        raise preview.with_traceback(None)
    return preview


@lru_cache(maxsize=_KEPT_PREVIEWS)
def _recall(recurrence: Recurrence, start: datetime, count: int) -> Preview | RotaError:
    """Computed once for each occurrence of a series, however often it is looked at."""
    try:
        return _work_out(recurrence, start, count)
    except RotaError as error:
        return error


def _work_out(recurrence: Recurrence, start: datetime, count: int) -> Preview:
    trigger = make_trigger(recurrence)
    found = list(islice(_walk(recurrence, trigger, start - _INSTANT), count + 1))
    shown = found[:count]
    zone = load_zone(recurrence.zone)
    gap, fold, asked_for = _rules_of(trigger, recurrence)
    annotated = annotate(shown, zone, asked_for, after=start - _INSTANT, gap=gap, fold=fold)
    return Preview(
        _describe(trigger, recurrence.jitter),
        tuple(_show(at, zone, annotated.notes.get(at)) for at in shown),
        tuple(each.text for each in annotated.skipped),
        is_complete=len(found) <= count,
    )


def _walk(recurrence: Recurrence, trigger: Trigger, after: datetime) -> Iterator[datetime]:
    left = recurrence.count
    last = min(recurrence.until or CALENDAR_END, CALENDAR_END)
    at = trigger.next_after(after)
    while at is not None and at <= last and left != 0:
        yield at
        left = None if left is None else left - 1
        at = trigger.next_after(at)


def _rules_of(trigger: Trigger, recurrence: Recurrence) -> tuple[Gap, Fold, AskedFor | None]:
    """The gap and fold rules, and the wall times the series asks for."""
    if isinstance(trigger, CronTrigger):
        return trigger.gap, trigger.fold, asked_by_cron(trigger.cron)
    gap, fold = recurrence.gap or "shift", recurrence.fold or "first"
    return gap, fold, asked_by_rule(trigger) if isinstance(trigger, RecurrenceRule) else None


def _describe(trigger: Trigger, jitter: str | None) -> str:
    spread = "" if jitter is None else f", each up to {jitter} later"
    if isinstance(trigger, CronTrigger):
        return trigger.cron.describe() + spread
    return trigger.describe() + spread if isinstance(trigger, RecurrenceRule | Interval) else ""


def _show(at: datetime, zone: tzinfo, note: Note | None) -> Upcoming:
    return Upcoming(at, at.astimezone(zone), None if note is None else note.text)
