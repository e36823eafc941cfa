"""What an initialize() did to each task, told event by event."""

from typing import Any

from rota.events import (
    EventEmitter,
    TaskAdded,
    TaskOrphaned,
    TaskOverridden,
    TaskPreserved,
    TaskRecordSetAside,
    TaskScheduled,
    TasksOverridden,
)
from rota.scheduler.keeping.intake import Decided, Intake
from rota.scheduler.surroundings import Surroundings
from rota.scheduler.tasks.reconcile import Standing
from rota.scheduler.tasks.state import TaskState


def report_intake(surroundings: Surroundings, intake: Intake, identifier: str) -> None:
    """Tell of every task; silent tasks cost nothing when nobody listens."""
    journal = surroundings.journal
    for record in intake.broken:
        journal.emit(
            TaskRecordSetAside(
                task_name=record.name, error=str(record.error), kept_as=record.kept_as(identifier)
            )
        )
    if surroundings.policy.removed == "report":
        for stored in intake.removed:
            _tell_orphaned(journal, stored.state)
    for decided in intake.tasks.values():
        if decided.reconciled.is_interrupted and decided.before is not None:
            _tell_orphaned(journal, decided.before)
    if journal.wants(TaskScheduled) or journal.wants(TaskAdded):
        for decided in intake.tasks.values():
            _tell_task(journal, decided)
    _tell_summary(journal, intake)


def _tell_task(journal: EventEmitter, decided: Decided) -> None:
    state, before = decided.reconciled.state, decided.before
    configuration = _configuration(state)
    if decided.reconciled.standing is Standing.NEW:
        journal.emit(TaskAdded(task_name=state.name, **configuration))
    elif decided.reconciled.standing is Standing.KEPT or before is None:
        journal.emit(TaskPreserved(task_name=state.name))
    else:
        journal.emit(
            TaskOverridden(
                task_name=state.name,
                change_type=",".join(change.field for change in decided.reconciled.changes),
                old_state=_in_contract_words(before),
                new_state=_in_contract_words(state),
            )
        )
    journal.emit(TaskScheduled(task_name=state.name, **configuration))


def _tell_orphaned(journal: EventEmitter, state: TaskState) -> None:
    journal.emit(
        TaskOrphaned(
            task_name=state.name,
            last_execution_time=state.last_attempt_at,
            scheduler_identifier=state.scheduler_identifier,
        )
    )


def _tell_summary(journal: EventEmitter, intake: Intake) -> None:
    if not journal.wants(TasksOverridden):
        return
    added = [name for name, it in intake.tasks.items() if it.reconciled.standing is Standing.NEW]
    removed = [stored.name for stored in intake.removed]
    modified: list[dict[str, Any]] = [
        {"name": name, "field": change.field, "from": change.before, "to": change.after}
        for name, it in intake.tasks.items()
        for change in it.reconciled.changes
    ]
    total = len(added) + len(removed) + len(modified)
    if total:
        journal.emit(
            TasksOverridden(
                removed_tasks=removed,
                added_tasks=added,
                modified_tasks=modified,
                total_changes=total,
            )
        )


def _configuration(state: TaskState) -> dict[str, Any]:
    return {"cron_expression": state.cron_expression, "retry_delay_ms": state.retry_delay_ms}


def _in_contract_words(state: TaskState) -> dict[str, Any]:
    return {"cronExpression": state.cron_expression, "retryDelayMs": state.retry_delay_ms}
