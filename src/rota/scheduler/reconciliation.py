"""Reconciles the store with the registrations: decide on every task, write, emit the events.

``Scheduler.initialize`` carries the decision out and ``Scheduler.plan`` shows it, so a plan cannot
differ from what happens.
"""

from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import msgspec

from rota.errors import ScheduleTaskError, StaleVersionError, TaskListMismatchError
from rota.events import (
    EventEmitter,
    TaskAdded,
    TaskOrphaned,
    TaskOverridden,
    TaskPreserved,
    TaskRecordSetAside,
    TaskScheduled,
    TaskSkipped,
    TasksOverridden,
)
from rota.scheduler.policy import SchedulerContext, SchedulerPolicy
from rota.scheduler.registration import AcceptedTask
from rota.scheduler.storage import (
    BrokenRecord,
    StoredTask,
    keep_aside,
    remove_task,
    scan_tasks,
    write_task,
)
from rota.scheduler.task import TaskState
from rota.stores.protocol import DocumentWrite

ATTEMPTS = 5
"""How often the decision is repeated when other instances write in between."""

FindLiving: TypeAlias = Callable[[], Awaitable[frozenset[str]]]


class Standing(Enum):
    """How a registered task compares with the stored one of that name."""

    NEW = "new"
    KEPT = "kept"
    CHANGED = "changed"


class FieldChange(msgspec.Struct, frozen=True):
    """One field of a task's configuration, before and after."""

    field: str
    before: str | int
    after: str | int


class Reconciled(msgspec.Struct, frozen=True, gc=False):
    """The decision on one task. ``is_interrupted``: its instance died; run the task now."""

    standing: Standing
    state: TaskState
    changes: tuple[FieldChange, ...]
    is_interrupted: bool


class Moment(NamedTuple):
    """When and by which instance the decision is taken, and which instances are alive."""

    now: datetime
    identifier: str
    living: Container[str | None]


def reconcile_task(
    accepted: AcceptedTask, stored: TaskState | None, policy: SchedulerPolicy, moment: Moment
) -> Reconciled:
    """Decide on one task. A run by a living instance always continues."""
    if stored is None:
        return Reconciled(Standing.NEW, _new_task(accepted, moment), (), is_interrupted=False)
    is_running = stored.running and stored.scheduler_identifier in moment.living
    is_interrupted = stored.running and not is_running
    changes = list_changes(stored, accepted)
    if changes and policy.override == "reset" and not is_running:
        state = _new_task(accepted, moment)
    else:
        state = _carry_on(stored, accepted, moment)
    standing = Standing.CHANGED if changes else Standing.KEPT
    return Reconciled(standing, state, changes, is_interrupted)


def list_changes(stored: TaskState, accepted: AcceptedTask) -> tuple[FieldChange, ...]:
    """The differences: the expression is compared as text, the delay exactly."""
    changes = []
    if stored.cron_expression != accepted.cron.text:
        changes.append(FieldChange("cronExpression", stored.cron_expression, accepted.cron.text))
    if stored.retry_delay_ms != accepted.retry_delay_ms:
        changes.append(FieldChange("retryDelayMs", stored.retry_delay_ms, accepted.retry_delay_ms))
    return tuple(changes)


def _new_task(accepted: AcceptedTask, moment: Moment) -> TaskState:
    return TaskState(
        name=accepted.name,
        cron_expression=accepted.cron.text,
        retry_delay_ms=accepted.retry_delay_ms,
        registered_at=moment.now,
        running=False,
        scheduler_identifier=moment.identifier,
    )


def _carry_on(stored: TaskState, accepted: AcceptedTask, moment: Moment) -> TaskState:
    """The stored history with the registration's configuration.

    Uses the registration's strings, which saves memory. A record with neither a run nor a
    registration counts as registered now.
    """
    registered_at = stored.registered_at
    if registered_at is None and stored.last_attempt_at is None:
        registered_at = moment.now
    return msgspec.structs.replace(
        stored,
        name=accepted.name,
        cron_expression=accepted.cron.text,
        retry_delay_ms=accepted.retry_delay_ms,
        registered_at=registered_at,
        scheduler_identifier=stored.scheduler_identifier or moment.identifier,
    )


class TaskDecision(msgspec.Struct, frozen=True, gc=False):
    """What happens to one registered task.

    ``version`` is the stored one, if any. ``before`` is set only where an event needs it, so that
    a million unchanged tasks are not held twice.
    """

    accepted: AcceptedTask
    reconciled: Reconciled
    version: int | None
    needs_write: bool
    before: TaskState | None = None

    @property
    def version_after(self) -> int:
        return (self.version or 0) + int(self.needs_write)


class Reconciliation(NamedTuple):
    """The decision on all tasks: registered, no longer registered, and unreadable."""

    tasks: dict[str, TaskDecision]
    removed: list[StoredTask]
    broken: list[BrokenRecord]


async def decide_reconciliation(
    context: SchedulerContext,
    accepted: Mapping[str, AcceptedTask],
    moment: Moment,
    find_living: FindLiving,
) -> Reconciliation:
    """Compare every registration with the store. Writes nothing."""
    policy = context.policy
    decisions: dict[str, TaskDecision] = {}
    removed: list[StoredTask] = []
    broken: dict[str, BrokenRecord] = {}
    async for found in scan_tasks(context.store, accepted):
        registration = accepted.get(found.name)
        if isinstance(found, BrokenRecord):
            broken[found.name] = found
        elif registration is None:
            removed.append(found)
        else:
            reconciled = reconcile_task(registration, found.state, policy, moment)
            decisions[registration.name] = _decide_stored(registration, reconciled, found)
    for name, registration in accepted.items():
        if name not in decisions:
            reconciled = reconcile_task(registration, None, policy, moment)
            version = broken[name].version if name in broken else None
            decisions[name] = TaskDecision(registration, reconciled, version, needs_write=True)
    if any(it.reconciled.is_interrupted for it in decisions.values()):
        _spare_the_living(decisions, policy, moment._replace(living=await find_living()))
    return Reconciliation(decisions, removed, list(broken.values()))


def _spare_the_living(
    decisions: dict[str, TaskDecision], policy: SchedulerPolicy, moment: Moment
) -> None:
    """Decide again on interrupted tasks, by the instances that live after the tasks were read.

    An instance announces itself before it claims anything, so an instance that is missing now is
    dead. One that appeared while the tasks were read was missing before and is not dead.
    """
    for name, it in decisions.items():
        if it.reconciled.is_interrupted and it.before is not None:
            reconciled = reconcile_task(it.accepted, it.before, policy, moment)
            decisions[name] = msgspec.structs.replace(it, reconciled=reconciled)


def _decide_stored(
    registration: AcceptedTask, reconciled: Reconciled, found: StoredTask
) -> TaskDecision:
    is_kept = reconciled.standing is Standing.KEPT
    before = None if is_kept and not reconciled.is_interrupted else found.state
    needs_write = found.is_foreign or not is_kept
    return TaskDecision(registration, reconciled, found.version, needs_write, before)


async def reconcile_store(
    context: SchedulerContext,
    accepted: Mapping[str, AcceptedTask],
    moment: Moment,
    find_living: FindLiving,
) -> Reconciliation:
    """Decide and write, all or nothing. Decides again when another instance wrote in between."""
    for _ in range(ATTEMPTS):
        decided = await decide_reconciliation(context, accepted, moment, find_living)
        try:
            await context.store.write_all(list_writes(decided, moment.identifier))
        except StaleVersionError as error:
            latest = error
        except Exception as error:
            raise _name_task(decided, error) from error
        else:
            return decided
    raise TaskListMismatchError(sorted(accepted), [latest.key]) from latest


def list_writes(decided: Reconciliation, identifier: str) -> Iterator[DocumentWrite]:
    """The writes, as a stream. A broken record's bytes are kept aside before it is replaced."""
    for record in decided.broken:
        yield keep_aside(record, identifier)
        if record.name not in decided.tasks:
            yield remove_task(record.name, record.version)
    for stored in decided.removed:
        yield remove_task(stored.name, stored.version)
    for decision in decided.tasks.values():
        if decision.needs_write:
            yield write_task(decision.reconciled.state, decision.version)


def _name_task(decided: Reconciliation, cause: Exception) -> ScheduleTaskError:
    """The error names the first written task: the store does not say which write failed."""
    for decision in decided.tasks.values():
        if decision.needs_write:
            return ScheduleTaskError(decision.accepted.name, decision.accepted.cron.text, cause)
    for stored in decided.removed:
        return ScheduleTaskError(stored.name, stored.state.cron_expression, cause)
    return ScheduleTaskError(decided.broken[0].name if decided.broken else "", "", cause)


def emit_reconciliation(
    context: SchedulerContext, decided: Reconciliation, identifier: str, *, is_stopping: bool
) -> None:
    """Emit the events of every task. Without subscribers, unchanged tasks cost nothing.

    A task registered while the scheduler stops is skipped: it is stored and does not run.
    """
    events = context.events
    for record in decided.broken:
        events.emit(
            TaskRecordSetAside(
                task_name=record.name, error=str(record.error), kept_as=record.kept_as(identifier)
            )
        )
    if context.policy.removed == "report":
        for stored in decided.removed:
            _emit_orphaned(events, stored.state)
    for decision in decided.tasks.values():
        if decision.reconciled.is_interrupted and decision.before is not None:
            _emit_orphaned(events, decision.before)
    if events.wants(TaskScheduled) or events.wants(TaskAdded):
        for decision in decided.tasks.values():
            _emit_task(events, decision)
            _emit_scheduled(events, decision.reconciled.state, is_stopping=is_stopping)
    _emit_summary(events, decided)


def _emit_task(events: EventEmitter, decision: TaskDecision) -> None:
    state, before = decision.reconciled.state, decision.before
    if decision.reconciled.standing is Standing.NEW:
        events.emit(
            TaskAdded(
                task_name=state.name,
                cron_expression=state.cron_expression,
                retry_delay_ms=state.retry_delay_ms,
            )
        )
    elif decision.reconciled.standing is Standing.KEPT or before is None:
        events.emit(TaskPreserved(task_name=state.name))
    else:
        events.emit(
            TaskOverridden(
                task_name=state.name,
                change_type=",".join(change.field for change in decision.reconciled.changes),
                old_state=_in_contract_words(before),
                new_state=_in_contract_words(state),
            )
        )


def _emit_scheduled(events: EventEmitter, state: TaskState, *, is_stopping: bool) -> None:
    if is_stopping:
        events.emit(TaskSkipped(task_name=state.name, reason="the scheduler is stopping"))
        return
    events.emit(
        TaskScheduled(
            task_name=state.name,
            cron_expression=state.cron_expression,
            retry_delay_ms=state.retry_delay_ms,
        )
    )


def _emit_orphaned(events: EventEmitter, state: TaskState) -> None:
    events.emit(
        TaskOrphaned(
            task_name=state.name,
            last_execution_time=state.last_attempt_at,
            scheduler_identifier=state.scheduler_identifier,
        )
    )


def _emit_summary(events: EventEmitter, decided: Reconciliation) -> None:
    if not events.wants(TasksOverridden):
        return
    added = [name for name, it in decided.tasks.items() if it.reconciled.standing is Standing.NEW]
    removed = [stored.name for stored in decided.removed]
    modified: list[dict[str, Any]] = [
        {"name": name, "field": change.field, "from": change.before, "to": change.after}
        for name, it in decided.tasks.items()
        for change in it.reconciled.changes
    ]
    total = len(added) + len(removed) + len(modified)
    if total:
        events.emit(
            TasksOverridden(
                removed_tasks=removed,
                added_tasks=added,
                modified_tasks=modified,
                total_changes=total,
            )
        )


def _in_contract_words(state: TaskState) -> dict[str, Any]:
    return {"cronExpression": state.cron_expression, "retryDelayMs": state.retry_delay_ms}
