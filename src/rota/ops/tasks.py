"""The declarative tasks of a store, for operators.

Tasks are shown and explained by the zone and the policy that their scheduler has declared. The
``zone`` that callers pass counts only if no scheduler has.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec

from rota.clock.protocol import Clock
from rota.errors import InvalidCronExpressionError
from rota.events import EventEmitter
from rota.policy.audit import AuditedAction, record_action
from rota.rail.jobs import RailContext
from rota.scheduler import orders, queries
from rota.scheduler.declared import read_declared
from rota.scheduler.history import TaskRun, read_history
from rota.scheduler.policy import (
    DECLARATIVE,
    POLLING,
    SchedulerContext,
    SchedulerPolicy,
    SchedulerSettings,
)
from rota.scheduler.queries import (
    Explanation,
    PlannedTask,
    explain_task,
    list_occurrences,
    make_plan,
)
from rota.scheduler.registration import accept_registrations
from rota.scheduler.task import TaskPause, TaskState
from rota.stores.protocol import DocumentStore
from rota.triggers.cron import parse_stored_cron


class TaskHold(msgspec.Struct, frozen=True, kw_only=True):
    """The pause of a task: since when, by whom and why."""

    since: datetime
    who: str
    why: str


class TaskSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A task: its schedule, also in words, its last runs and its next occurrences.

    ``is_alive``: a live scheduler owns it or could take it over. ``is_interrupted``: it was running
    when its scheduler died. ``retry_at`` is set while a failed run waits for its retry. ``pause``
    is set while it is paused; the occurrences are then those it would have if it were resumed.
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
    is_paused: bool = False
    pause: TaskHold | None = None
    occurrences: tuple[datetime, ...] = ()


class TaskDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A task with its last runs, newest first.

    ``zone`` and ``policy`` are those of its scheduler. ``policy`` is declarative or polling: under
    polling an hour that clocks repeat counts once, and a changed task starts as a new one.
    """

    task: TaskSummary
    runs: tuple[TaskRun, ...]
    zone: str
    policy: str
    scheduler_count: int


class TaskStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The store's tasks by name, the number of live schedulers, and the damaged records.

    ``unreadable`` are the names of records that cannot be read. ``zone`` and ``policy`` are those
    of the schedulers.
    """

    tasks: tuple[TaskSummary, ...]
    scheduler_count: int
    unreadable: tuple[str, ...]
    zone: str = "UTC"
    policy: str = "declarative"


async def look_at_tasks(store: DocumentStore, clock: Clock, zone: tzinfo = UTC) -> TaskStanding:
    """Read all tasks of a store."""
    context = await read_context(store, clock, zone)
    found = await queries.read_tasks(store, clock)
    return TaskStanding(
        tasks=tuple(
            _summarize(task, context, found.living, found.pauses.get(task.name))
            for task in found.tasks
        ),
        scheduler_count=len(found.living),
        unreadable=found.unreadable,
        zone=str(context.zone),
        policy=name_policy(context.policy),
    )


async def list_tasks(
    store: DocumentStore, clock: Clock, zone: tzinfo = UTC
) -> tuple[TaskSummary, ...]:
    """List every readable task by name."""
    return (await look_at_tasks(store, clock, zone)).tasks


async def find_task(
    store: DocumentStore, clock: Clock, name: str, zone: tzinfo = UTC
) -> TaskDetail:
    """A task with its last runs. Raises TaskNotRegisteredError for an unknown name."""
    context = await read_context(store, clock, zone)
    state = await queries.find_task(store, name)
    living = await queries.find_living(store, clock)
    pause = await orders.find_pause(store, name)
    return TaskDetail(
        task=_summarize(state, context, living, None if pause is None else pause.pause),
        runs=await read_history(store, name),
        zone=str(context.zone),
        policy=name_policy(context.policy),
        scheduler_count=len(living),
    )


async def request_run(context: RailContext, name: str, *, who: str, why: str | None = None) -> int:
    """Request one immediate run of a task. Returns the number of live schedulers.

    Records the request in the audit log first. Raises TaskNotRegisteredError when the store has no
    task with that name.
    """
    await _record(context, "run_task", name, who=who, why=why)
    await orders.request_run(context.store, context.clock, name)
    return len(await queries.find_living(context.store, context.clock))


async def pause_task(context: RailContext, name: str, *, who: str, why: str | None = None) -> None:
    """Let no run of the task start from now on, until it is resumed. A run in progress finishes.

    Records the pause in the audit log first. Raises TaskNotRegisteredError when the store has no
    task with that name.
    """
    await _record(context, "pause_task", name, who=who, why=why)
    await orders.pause_task(context.store, context.clock, name, who, why or "")


async def resume_task(
    context: RailContext, name: str, *, who: str, why: str | None = None, catch_up: bool = False
) -> bool:
    """Resume a paused task with its next occurrence; returns False if it was not paused.

    Occurrences that passed during the pause are skipped; with ``catch_up`` one run covers them now.
    """
    await _record(context, "resume_task", name, who=who, why=why, catchUp=catch_up)
    return await orders.resume_task(context.store, context.clock, name, catch_up=catch_up)


async def _record(
    context: RailContext, action: str, name: str, *, who: str, why: str | None, **details: Any
) -> None:
    await orders.check_registered(context.store, name)
    noted = {"task": name, **details}
    await record_action(context, AuditedAction(action=action, who=who, why=why, details=noted))


class TaskPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of registering exactly these tasks. Nothing has happened yet.

    ``unreadable`` are the names of records that cannot be read and would be quarantined.
    """

    made_at: datetime
    has_changes: bool
    tasks: tuple[PlannedTask, ...]
    unreadable: tuple[str, ...] = ()


async def plan_tasks(
    store: DocumentStore,
    clock: Clock,
    zone: tzinfo,
    registrations: Sequence[tuple[str, str, timedelta]],
) -> TaskPlan:
    """Plan what ``initialize`` would do with these names, expressions and retry delays."""
    wanted = [(name, cron, _do_nothing, delay) for name, cron, delay in registrations]
    context = await read_context(store, clock, zone)
    accepted = accept_registrations(wanted, context.policy.dialect)
    plan = await make_plan(context, accepted)
    return TaskPlan(
        made_at=plan.made_at,
        has_changes=plan.has_changes,
        tasks=plan.tasks,
        unreadable=plan.unreadable,
    )


async def explain_one_task(
    store: DocumentStore, clock: Clock, zone: tzinfo, name: str, at: datetime | None = None
) -> Explanation:
    """Explain why a task ran, did not run or will run.

    Raises TaskNotRegisteredError for an unknown name.
    """
    return await explain_task(await read_context(store, clock, zone), name, at)


def _summarize(
    task: TaskState, context: SchedulerContext, living: frozenset[str], pause: TaskPause | None
) -> TaskSummary:
    is_paused = pause is not None and pause.is_active
    hold = None
    if pause is not None and is_paused:
        hold = TaskHold(since=pause.at, who=pause.who, why=pause.why)
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
        is_paused=is_paused,
        pause=hold,
        occurrences=list_occurrences(context, task.cron_expression, context.clock.now()),
    )


def _do_nothing() -> None:
    """A placeholder callback. A plan never calls it."""


def _describe(expression: str, context: SchedulerContext) -> str:
    try:
        return parse_stored_cron(expression, context.policy.dialect).describe()
    except InvalidCronExpressionError:
        return ""


async def read_context(store: DocumentStore, clock: Clock, zone: tzinfo = UTC) -> SchedulerContext:
    """How the tasks of this store are read: as their last scheduler declared."""
    declared = await read_declared(store)
    policy = DECLARATIVE if declared is None else declared.policy
    chosen = (None if declared is None else declared.load_zone()) or zone
    return SchedulerContext(
        store, clock, chosen, policy, SchedulerSettings(), EventEmitter("rota.control")
    )


def name_policy(policy: SchedulerPolicy) -> str:
    """The name of the edition, by what observers notice of it."""
    return "polling" if policy.repeated_hour == POLLING.repeated_hour else "declarative"
