"""Finds what a person should know of: held jobs, troubled tasks, and fired dead-man switches."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache

from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.errors import RotaError
from rota.jobs import Job, JobFilter, JobStatus
from rota.jobs.recurrence import alert_at
from rota.ops.explanation import format_duration, show
from rota.ops.holds import Hold, find_holds, find_paused
from rota.rail.alerts import WATCHED_SERIES, list_watched
from rota.rail.jobs import RailContext, RailSettings, RailStore, walk_jobs
from rota.rail.pauses import forget_pause, list_pauses
from rota.scheduler.declared import DeclaredTasks, read_declared
from rota.scheduler.queries import read_tasks
from rota.scheduler.task import TaskState
from rota.stores.protocol import DocumentWrite
from rota.telemetry.notices import Notice, NoticeSource
from rota.triggers.cron import Cron, parse_stored_cron

TASK_LATE_AFTER = timedelta(minutes=1)
FORGOTTEN_AFTER = timedelta(minutes=10)
"""A series is noted before it is stored: one that is not found this much later has ended."""

_LIVE = (JobStatus.READY, JobStatus.RUNNING, JobStatus.PENDING)


async def find_notices(
    store: RailStore, clock: Clock, task_late_after: timedelta = TASK_LATE_AFTER
) -> tuple[Notice, ...]:
    """All conditions of a store, over all tenants. Writes nothing."""
    held = [_note_hold(it) for it in await find_holds(store, clock) if it.count]
    tasks = await find_task_notices(store, clock, task_late_after)
    return (*held, *tasks, *(await _find_overdue_series(store, clock)))


def _note_hold(hold: Hold) -> Notice:
    is_series = hold.series_id is not None
    source: NoticeSource = "series" if is_series else "queue" if hold.queue else "maintenance"
    return Notice(
        concern="held",
        source=source,
        name=hold.scope.removeprefix("series ") if is_series else hold.scope,
        tenant=hold.tenant,
        count=hold.count,
        since=hold.since,
        text=hold.text,
    )


async def find_task_notices(
    store: RailStore, clock: Clock, late_after: timedelta = TASK_LATE_AFTER
) -> list[Notice]:
    """The declarative tasks that are late, fail, or have not succeeded in time."""
    declared = await read_declared(store)
    if declared is None:
        return []
    found = await read_tasks(store, clock)
    judge = _TaskJudge(declared, clock.now(), late_after)
    return [notice for task in found.tasks for notice in judge.judge(task, found.living)]


class _TaskJudge:
    """Judges tasks as of one moment; equal expressions are read once."""

    def __init__(self, declared: DeclaredTasks, now: datetime, late_after: timedelta) -> None:
        self._declared = declared
        self._zone = declared.load_zone()
        self._now = now
        self._late_after = late_after
        self._last_due_at = cache(self._find_last_due)

    def judge(self, task: TaskState, living: frozenset[str]) -> Iterator[Notice]:
        if task.retry_count:
            times = "once" if task.retry_count == 1 else f"{task.retry_count} times"
            yield self._note("task_fails", task, task.last_failure_at, f"has failed {times}")
        if self._zone is None:
            return
        late_since = self._find_late(task, living)
        if late_since is not None and self._now - late_since > self._late_after:
            how_long = format_duration(self._now - late_since)
            words = f"is late: it was due at {show(late_since, self._zone)}, {how_long} ago"
            yield self._note("task_late", task, late_since, words)
        deadline = self._find_deadline(task)
        if deadline is not None and deadline <= self._now:
            words = f"has not succeeded by {show(deadline, self._zone)}"
            yield self._note("overdue", task, deadline, words)

    def _note(self, concern: str, task: TaskState, since: datetime | None, words: str) -> Notice:
        return Notice(
            concern=concern,  # type: ignore[arg-type]  # three literals, above
            source="task",
            name=task.name,
            count=max(task.retry_count, 1),
            since=since,
            text=f"task {task.name} {words}",
        )

    def _find_late(self, task: TaskState, living: frozenset[str]) -> datetime | None:
        """Since when the task should have started; None if it has."""
        if task.running:
            is_interrupted = task.scheduler_identifier not in living
            return task.last_attempt_at if is_interrupted else None
        last_due_at, answered_until = (
            self._last_due_at(task.cron_expression),
            task.answered_until,
        )
        if last_due_at is None or answered_until is None or last_due_at <= answered_until:
            return None
        return self._next_due(task.cron_expression, answered_until)

    def _find_deadline(self, task: TaskState) -> datetime | None:
        after = self._declared.alert_after(task.name)
        answered = _succeeded_until(task)
        if after is None or answered is None:
            return None
        due_at = self._next_due(task.cron_expression, answered)
        return None if due_at is None else due_at + after

    def _find_last_due(self, expression: str) -> datetime | None:
        cron = self._parse(expression)
        if cron is None or self._zone is None:
            return None
        try:
            return cron.previous_at(self._now, self._zone, fold=self._declared.fold)
        except RotaError:
            return None

    def _next_due(self, expression: str, after: datetime) -> datetime | None:
        cron = self._parse(expression)
        if cron is None or self._zone is None:
            return None
        try:
            return cron.next_after(after, self._zone, fold=self._declared.fold)
        except RotaError:
            return None

    def _parse(self, expression: str) -> Cron | None:
        try:
            return parse_stored_cron(expression, self._declared.dialect)
        except RotaError:
            return None


def _succeeded_until(task: TaskState) -> datetime | None:
    """Occurrences up to here are covered by a success, or came before the registration."""
    if task.last_success_at is None:
        return replace(task, last_attempt_at=None).answered_until
    attempt_at = task.last_attempt_at
    is_last = not task.running and not task.retry_count
    return attempt_at if is_last and attempt_at is not None else task.last_success_at


async def _find_overdue_series(store: RailStore, clock: Clock) -> list[Notice]:
    by_tenant: dict[str, set[str]] = {}
    for watched, _ in await list_watched(store):
        by_tenant.setdefault(watched.tenant, set()).add(watched.series_id)
    now, found = clock.now(), []
    for tenant, series_ids in by_tenant.items():
        for job in (await _find_live(store, clock, tenant, series_ids)).values():
            deadline = alert_at(job)
            if deadline is not None and deadline <= now:
                found.append(_note_series(job, deadline))
    return found


async def _find_live(
    store: RailStore, clock: Clock, tenant: str, series_ids: set[str]
) -> dict[str, Job]:
    """The next job of each of these series that has not ended."""
    around = RailContext(store, tenant, clock, RailSettings(), lambda _: 0)
    found: dict[str, Job] = {}
    for status in _LIVE:
        async for job in walk_jobs(around, JobFilter(status=status, is_recurring=True)):
            origin = job.origin or job.id
            if origin in series_ids:
                found[origin] = job
    return found


def _note_series(job: Job, deadline: datetime) -> Notice:
    paused = "; it is paused" if job.is_paused else ""
    return Notice(
        concern="overdue",
        source="series",
        name=job.name,
        tenant=job.tenant,
        since=deadline,
        text=f"series {job.name} has not succeeded by {show(deadline)}{paused}",
    )


async def forget_ended(store: RailStore, clock: Clock) -> None:
    """Remove the notes about series that have ended: pauses and dead-man switches."""
    for paused in await list_pauses(store):
        if await find_paused(store, clock, paused) is None and _is_old(paused.at, clock):
            await forget_pause(store, paused.tenant, paused.series_id)
    removals = []
    watched = await list_watched(store)
    for tenant in {it.tenant for it, _ in watched}:
        ids = {it.series_id for it, _ in watched if it.tenant == tenant}
        live = await _find_live(store, clock, tenant, ids)
        removals += [
            DocumentWrite(WATCHED_SERIES, document.key, document.version, None)
            for it, document in watched
            if it.tenant == tenant and it.series_id not in live and _is_old(it.noted_at, clock)
        ]
    if removals:
        await store.write_each(removals)


def _is_old(noted_at: datetime, clock: Clock) -> bool:
    return clock.now() - noted_at > FORGOTTEN_AFTER
