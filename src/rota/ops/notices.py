"""Finds what a person should know of: held jobs, troubled tasks, and fired dead-man switches.

A hundred thousand tasks are watched without reading them all twice a minute. From a record follows
the first instant at which its task can be in trouble; until then it is not read again.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from heapq import heappop, heappush

from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.errors import RotaError
from rota.jobs import Job, JobFilter, JobStatus
from rota.jobs.recurrence import alert_at, series_of
from rota.ops.explanation import format_duration, show
from rota.ops.holds import Hold, find_holds, find_paused
from rota.rail.jobs import RailContext, RailSettings, RailStore, walk_jobs
from rota.rail.noted_series import WATCHED_SERIES, forget_pause, list_pauses, list_watched
from rota.scheduler.declared import DeclaredTasks, read_declared
from rota.scheduler.orders import list_paused
from rota.scheduler.queries import find_living
from rota.scheduler.storage import BrokenRecord, StoredTask, find_tasks, scan_tasks
from rota.scheduler.task import TaskPause, TaskState
from rota.stores.protocol import DocumentStore, DocumentWrite
from rota.telemetry.notices import Notice, NoticeConcern, NoticeSource
from rota.triggers.cron import CronTrigger, parse_stored_cron

TASK_LATE_AFTER = timedelta(minutes=1)

ALL_READ_EVERY = timedelta(minutes=5)
"""How late the failure of one of many tasks is noticed."""

FEW_TASKS = 1_000
"""Up to this number, all are read every time."""

MOST_NOTICES = 500
"""How many tasks with one trouble are named; the others are counted."""

READ_AT_ONCE = 1_000
_NEVER = datetime.max.replace(tzinfo=UTC)


class WatchedTasks:
    """The tasks of a store, for a process that looks for trouble again and again."""

    def __init__(
        self, store: DocumentStore, clock: Clock, late_after: timedelta = TASK_LATE_AFTER
    ) -> None:
        self._store = store
        self._clock = clock
        self._late_after = late_after
        self._declared: DeclaredTasks | None = None
        self._all_read_at: datetime | None = None
        self._calm: list[tuple[datetime, str]] = []
        self._troubled: list[str] = []

    async def find(self) -> list[Notice]:
        """The troubles of all tasks now. A failure among very many may show minutes later."""
        declared = await read_declared(self._store)
        if declared is None:
            return []
        now, living = self._clock.now(), await find_living(self._store, self._clock)
        pauses = await list_paused(self._store)
        judge = TaskJudge(declared, now, living, self._late_after, pauses)
        if self._are_all_due(declared, now):
            notices = await self._read_all(judge)
            self._declared, self._all_read_at = declared, now
        else:
            notices = await self._read_due(judge)
        return _bound(notices)

    def _are_all_due(self, declared: DeclaredTasks, now: datetime) -> bool:
        read_at, known_count = self._all_read_at, len(self._calm) + len(self._troubled)
        is_recent = read_at is not None and read_at <= now < read_at + ALL_READ_EVERY
        return known_count <= FEW_TASKS or not is_recent or declared != self._declared

    async def _read_all(self, judge: "TaskJudge") -> list[Notice]:
        self._calm, self._troubled = [], []
        notices: list[Notice] = []
        async for found in scan_tasks(self._store):
            notices += self._judge(found, judge)
        return notices

    async def _read_due(self, judge: "TaskJudge") -> list[Notice]:
        names, self._troubled = self._troubled, []
        while self._calm and self._calm[0][0] <= judge.now:
            names.append(heappop(self._calm)[1])
        notices: list[Notice] = []
        for start in range(0, len(names), READ_AT_ONCE):
            some = names[start : start + READ_AT_ONCE]
            for found in (await find_tasks(self._store, some)).values():
                notices += self._judge(found, judge)
        return notices

    def _judge(self, found: StoredTask | BrokenRecord, judge: "TaskJudge") -> list[Notice]:
        if isinstance(found, BrokenRecord):
            return []
        notices = list(judge.judge(found.state))
        calm_until = judge.now if notices else judge.find_calm(found.state)
        if calm_until <= judge.now:
            self._troubled.append(found.name)
        else:
            heappush(self._calm, (calm_until, found.name))
        return notices


def _bound(notices: Sequence[Notice]) -> list[Notice]:
    """The first of each concern, and one notice that counts the others."""
    shown: list[Notice] = []
    for concern in dict.fromkeys(it.concern for it in notices):
        same = [it for it in notices if it.concern == concern]
        shown += same[:MOST_NOTICES]
        others = same[MOST_NOTICES:]
        if others:
            text = f"{len(others)} other tasks {_TROUBLES[concern]}"
            shown.append(
                Notice(concern=concern, source="task", name="*", count=len(others), text=text)
            )
    return shown


_TROUBLES: dict[NoticeConcern, str] = {
    "task_fails": "have failed",
    "task_late": "are late",
    "held": "are paused",
    "overdue": "have not succeeded in time",
}


class TaskJudge:
    """Judges tasks as of one moment; equal expressions are read once."""

    def __init__(
        self,
        declared: DeclaredTasks,
        now: datetime,
        living: frozenset[str],
        late_after: timedelta,
        pauses: Mapping[str, TaskPause],
    ) -> None:
        self.now = now
        self._declared = declared
        self._zone = declared.load_zone()
        self._living = living
        self._late_after = late_after
        self._pauses = pauses
        self._last_due_at = cache(self._find_last_due)
        self._next_due_at = cache(lambda expression: self._next_due(expression, now))

    def judge(self, task: TaskState) -> Iterator[Notice]:
        """What is wrong with the task now."""
        if task.retry_count:
            times = "once" if task.retry_count == 1 else f"{task.retry_count} times"
            yield self._note("task_fails", task, task.last_failure_at, f"has failed {times}")
        if self._zone is None:
            return
        yield from self._judge_pause(task)
        late_since = self._find_late(task)
        if late_since is not None and self.now - late_since > self._late_after:
            how_long = format_duration(self.now - late_since)
            words = f"is late: it was due at {show(late_since, self._zone)}, {how_long} ago"
            yield self._note("task_late", task, late_since, words)
        deadline = self._find_deadline(task)
        if deadline is not None and deadline <= self.now:
            words = f"has not succeeded by {show(deadline, self._zone)}"
            yield self._note("overdue", task, deadline, words)

    def _judge_pause(self, task: TaskState) -> Iterator[Notice]:
        """A pause is worth a notice once it has held an occurrence back."""
        pause, last_due_at = self._pauses.get(task.name), self._last_due_at(task.cron_expression)
        if pause is None or not pause.is_active or last_due_at is None or last_due_at <= pause.at:
            return
        by = f" by {pause.who}" if pause.who else ""
        why = f" ({pause.why})" if pause.why else ""
        words = f"is paused since {show(pause.at, self._zone or UTC)}{by}{why}"
        yield self._note("held", task, pause.at, words)

    def find_calm(self, task: TaskState) -> datetime:
        """Until when a task without trouble has none, whatever happens, unless it fails."""
        if task.running:
            return self.now  # its scheduler may die
        late_since = self._find_late(task) or self._next_due_at(task.cron_expression)
        deadline = self._find_deadline(task)
        late_at = _NEVER if late_since is None else late_since + self._late_after
        return late_at if deadline is None else min(late_at, deadline)

    def _note(
        self, concern: NoticeConcern, task: TaskState, since: datetime | None, words: str
    ) -> Notice:
        return Notice(
            concern=concern,
            source="task",
            name=task.name,
            count=max(task.retry_count, 1),
            since=since,
            text=f"task {task.name} {words}",
        )

    def _find_late(self, task: TaskState) -> datetime | None:
        """Since when the task should have started; None if it has."""
        if task.running:
            is_interrupted = task.scheduler_identifier not in self._living
            return task.last_attempt_at if is_interrupted else None
        pause, answered_until = self._pauses.get(task.name), task.answered_until
        if pause is not None and pause.resumed_at is None:
            return None
        if pause is not None and pause.resumed_at is not None and answered_until is not None:
            answered_until = max(answered_until, pause.resumed_at)
        last_due_at = self._last_due_at(task.cron_expression)
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
        trigger = self._read(expression)
        return None if trigger is None else trigger.previous_at(self.now)

    def _next_due(self, expression: str, after: datetime) -> datetime | None:
        trigger = self._read(expression)
        return None if trigger is None else trigger.next_after(after)

    def _read(self, expression: str) -> CronTrigger | None:
        if self._zone is None:
            return None
        try:
            cron = parse_stored_cron(expression, self._declared.dialect)
        except RotaError:
            return None
        return CronTrigger(cron, self._zone, fold=self._declared.fold)


def _succeeded_until(task: TaskState) -> datetime | None:
    """Occurrences up to here are covered by a success, or came before the registration."""
    if task.last_success_at is None:
        return replace(task, last_attempt_at=None).answered_until
    attempt_at = task.last_attempt_at
    is_last = not task.running and not task.retry_count
    return attempt_at if is_last and attempt_at is not None else task.last_success_at


FORGOTTEN_AFTER = timedelta(minutes=10)
"""A series is noted before it is stored: one that is not found this much later has ended."""

_LIVE = (JobStatus.READY, JobStatus.RUNNING, JobStatus.PENDING)


async def find_notices(
    store: RailStore, clock: Clock, tasks: WatchedTasks | None = None
) -> tuple[Notice, ...]:
    """All conditions of a store, over all tenants. Writes nothing.

    A process that asks again and again keeps ``tasks``: then few records are read each time.
    """
    held = [_note_hold(it) for it in await find_holds(store, clock) if it.count]
    of_tasks = await (tasks or WatchedTasks(store, clock)).find()
    return (*held, *of_tasks, *(await _find_overdue_series(store, clock)))


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


async def _find_overdue_series(store: RailStore, clock: Clock) -> list[Notice]:
    by_tenant: dict[str, set[str]] = {}
    for watched, _ in await list_watched(store):
        by_tenant.setdefault(watched.tenant, set()).add(watched.series_id)
    now, found = clock.now(), []
    for tenant, series_ids in by_tenant.items():
        for job in (await _find_live_series(store, clock, tenant, series_ids)).values():
            deadline = alert_at(job)
            if deadline is not None and deadline <= now:
                found.append(_note_series(job, deadline))
    return found


async def _find_live_series(
    store: RailStore, clock: Clock, tenant: str, series_ids: set[str]
) -> dict[str, Job]:
    """The next job of each of these series that has not ended."""
    around = RailContext(store, tenant, clock, RailSettings(), lambda _: 0)
    found: dict[str, Job] = {}
    for status in _LIVE:
        async for job in walk_jobs(around, JobFilter(status=status, is_recurring=True)):
            origin = series_of(job)
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
        live = await _find_live_series(store, clock, tenant, ids)
        removals += [
            DocumentWrite(WATCHED_SERIES, document.key, document.version, None)
            for it, document in watched
            if it.tenant == tenant and it.series_id not in live and _is_old(it.noted_at, clock)
        ]
    if removals:
        await store.write_each(removals)


def _is_old(noted_at: datetime, clock: Clock) -> bool:
    return clock.now() - noted_at > FORGOTTEN_AFTER
