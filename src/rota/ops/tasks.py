"""The declarative tasks of a store, for operators."""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

import msgspec

from rota.clock.protocol import Clock
from rota.errors import InvalidCronExpressionError
from rota.events import EventEmitter
from rota.policy.audit import AuditedAction, record_action
from rota.rail.jobs import RailContext
from rota.scheduler import queries
from rota.scheduler.policy import DECLARATIVE, SchedulerContext, SchedulerSettings
from rota.scheduler.queries import (
    Explanation,
    PlannedTask,
    explain_task,
    list_occurrences,
    make_plan,
)
from rota.scheduler.registration import accept_registrations
from rota.scheduler.task import TaskState
from rota.stores.protocol import DocumentStore
from rota.triggers.cron import parse_stored_cron


class TaskSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A task: its schedule, also in words, its last runs and its next occurrences.

    ``is_alive``: a live scheduler owns it or could take it over. ``is_interrupted``: it was running
    when its scheduler died. ``retry_at`` is set while a failed run waits for its retry.
    """

    name: str
    cron: str
    description: str
    phase: str
    is_alive: bool
    is_interrupted: bool
    registered_at: datetime | None
    last_attempt_at: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    last_reason: str | None
    retry_at: datetime | None
    retry_count: int
    retry_delay_ms: int
    scheduler: str | None
    occurrences: tuple[datetime, ...] = ()


class TaskStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The store's tasks by name, the number of live schedulers, and the damaged records.

    ``unreadable`` are the names of records that cannot be read.
    """

    tasks: tuple[TaskSummary, ...]
    scheduler_count: int
    unreadable: tuple[str, ...]


async def look_at_tasks(store: DocumentStore, clock: Clock, zone: tzinfo) -> TaskStanding:
    """Read all tasks of a store. Their schedules are in ``zone``."""
    context = _context(store, clock, zone)
    found = await queries.read_tasks(store, clock)
    return TaskStanding(
        tasks=tuple(_summarize(task, context, found.living) for task in found.tasks),
        scheduler_count=len(found.living),
        unreadable=found.unreadable,
    )


async def list_tasks(store: DocumentStore, clock: Clock, zone: tzinfo) -> tuple[TaskSummary, ...]:
    """List every readable task by name. Schedules are in ``zone``."""
    return (await look_at_tasks(store, clock, zone)).tasks


async def request_run(context: RailContext, name: str, *, who: str, why: str | None = None) -> int:
    """Request one immediate run of a task. Returns the number of live schedulers.

    Records the request in the audit log first. Raises TaskNotRegisteredError when the store has no
    task with that name.
    """
    await queries.check_registered(context.store, name)
    await record_action(
        context, AuditedAction(action="run_task", who=who, why=why, details={"task": name})
    )
    await queries.request_run(context.store, context.clock, name)
    return len(await queries.find_living(context.store, context.clock))


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a task, before and after."""

    field: str
    before: str | int
    after: str | int


class TaskProspect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a registration on one task, with its next occurrences before and after.

    ``standing`` is new, kept, changed or removed. ``is_interrupted``: it was running when its
    scheduler died and would start at once.
    """

    name: str
    standing: str
    is_interrupted: bool
    changes: tuple[TaskChange, ...]
    occurrences_before: tuple[datetime, ...]
    occurrences_after: tuple[datetime, ...]


class TaskPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of registering exactly these tasks. Nothing has happened yet.

    ``unreadable`` are the names of records that cannot be read and would be quarantined.
    """

    made_at: datetime
    has_changes: bool
    tasks: tuple[TaskProspect, ...]
    unreadable: tuple[str, ...] = ()


async def plan_tasks(
    store: DocumentStore,
    clock: Clock,
    zone: tzinfo,
    registrations: Sequence[tuple[str, str, timedelta]],
) -> TaskPlan:
    """Plan what ``initialize`` would do with these names, expressions and retry delays."""
    wanted = [(name, cron, _do_nothing, delay) for name, cron, delay in registrations]
    accepted = accept_registrations(wanted, DECLARATIVE.dialect)
    plan = await make_plan(_context(store, clock, zone), accepted)
    return TaskPlan(
        made_at=plan.made_at,
        has_changes=plan.has_changes,
        tasks=tuple(map(_view_planned, plan.tasks)),
        unreadable=plan.unreadable,
    )


async def explain_one_task(
    store: DocumentStore, clock: Clock, zone: tzinfo, name: str, at: datetime | None = None
) -> Explanation:
    """Explain why a task ran, did not run or will run.

    Raises TaskNotRegisteredError for an unknown name.
    """
    return await explain_task(_context(store, clock, zone), name, at)


def _view_planned(task: PlannedTask) -> TaskProspect:
    changes = tuple(TaskChange(**it._asdict()) for it in task.changes)
    return TaskProspect(**{**msgspec.structs.asdict(task), "changes": changes})


def _summarize(task: TaskState, context: SchedulerContext, living: frozenset[str]) -> TaskSummary:
    return TaskSummary(
        name=task.name,
        cron=task.cron_expression,
        description=_describe(task.cron_expression, context),
        phase=task.phase.value,
        is_alive=bool(living),
        is_interrupted=task.running and task.scheduler_identifier not in living,
        registered_at=task.registered_at,
        last_attempt_at=task.last_attempt_at,
        last_success_at=task.last_success_at,
        last_failure_at=task.last_failure_at,
        last_reason=task.last_reason,
        retry_at=task.retry_due_at,
        retry_count=task.retry_count,
        retry_delay_ms=task.retry_delay_ms,
        scheduler=task.scheduler_identifier,
        occurrences=list_occurrences(context, task.cron_expression, context.clock.now()),
    )


def _do_nothing() -> None:
    """A placeholder callback. A plan never calls it."""


def _describe(expression: str, context: SchedulerContext) -> str:
    try:
        return parse_stored_cron(expression, context.policy.dialect).describe()
    except InvalidCronExpressionError:
        return ""


def _context(store: DocumentStore, clock: Clock, zone: tzinfo) -> SchedulerContext:
    return SchedulerContext(
        store, clock, zone, DECLARATIVE, SchedulerSettings(), EventEmitter("rota.control")
    )
