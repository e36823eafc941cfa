"""Tasks, plans and explanations: as tables and as JSON."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from rota.cli.rendering.occurrences import format_instant
from rota.errors import CronCalculationError, InvalidCronExpressionError
from rota.escaping import escape
from rota.scheduler import Explanation, Plan, PlannedTask, TaskState
from rota.triggers.cron import Cron
from rota.triggers.parse import parse_cron

TaskRow = tuple[tuple[str, ...], str]
TASK_COLUMNS = ("Task", "State", "Last start", "Next", "Schedule")
_STYLES = {"running": "green", "retrying": "yellow", "interrupted": "red"}


def task_row(task: TaskState, living: frozenset[str], now: datetime, zone: ZoneInfo) -> TaskRow:
    """One task as a row of ``TASK_COLUMNS``, with the style its state deserves."""
    state = state_word(task, living)
    cells = (
        escape(task.name),
        state,
        _short(task.last_attempt_at, zone),
        _short(next_occurrence(task.cron_expression, now, zone), zone),
        describe_schedule(task.cron_expression),
    )
    return cells, _STYLES.get(state, "")


def task_document(
    task: TaskState, living: frozenset[str], now: datetime, zone: ZoneInfo
) -> dict[str, Any]:
    return {
        "name": task.name,
        "state": state_word(task, living),
        "cron": task.cron_expression,
        "description": describe_schedule(task.cron_expression),
        "retry_delay_ms": task.retry_delay_ms,
        "registered_at": _instant(task.registered_at),
        "last_attempt_at": _instant(task.last_attempt_at),
        "last_success_at": _instant(task.last_success_at),
        "last_failure_at": _instant(task.last_failure_at),
        "pending_retry_until": _instant(task.pending_retry_until),
        "last_reason": task.last_reason,
        "next_at": _instant(next_occurrence(task.cron_expression, now, zone)),
    }


def plan_rows(plan: Plan, zone: ZoneInfo) -> list[TaskRow]:
    """What would change, one row a task; kept tasks are not worth a row."""
    styles = {"new": "green", "changed": "yellow", "removed": "red"}
    rows: list[TaskRow] = []
    for task in plan.tasks:
        if task.standing != "kept" or task.is_interrupted:
            cells = (escape(task.name), task.standing, *_before_and_after(task, zone))
            rows.append((cells, styles.get(task.standing, "")))
    return rows


def plan_document(plan: Plan) -> dict[str, Any]:
    return {
        "made_at": format_instant(plan.made_at),
        "unreadable": list(plan.unreadable),
        "tasks": [
            {
                "name": task.name,
                "standing": task.standing,
                "is_interrupted": task.is_interrupted,
                "changes": [
                    {"field": it.field, "from": it.before, "to": it.after} for it in task.changes
                ],
                "occurrences_before": [format_instant(it) for it in task.occurrences_before],
                "occurrences_after": [format_instant(it) for it in task.occurrences_after],
            }
            for task in plan.tasks
        ],
    }


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    return {
        "name": explanation.name,
        "at": _instant(explanation.at),
        "answer": explanation.answer,
        "reasons": list(explanation.reasons),
        "next_at": _instant(explanation.next_at),
    }


def state_word(task: TaskState, living: frozenset[str]) -> str:
    if task.running:
        return "running" if task.scheduler_identifier in living else "interrupted"
    return "retrying" if task.pending_retry_until is not None else "waiting"


def describe_schedule(expression: str) -> str:
    cron = _parse(expression)
    return escape(expression) if cron is None else cron.describe()


def next_occurrence(expression: str, now: datetime, zone: ZoneInfo) -> datetime | None:
    cron = _parse(expression)
    try:
        return None if cron is None else cron.next_after(now, zone)
    except CronCalculationError:
        return None


def _parse(expression: str) -> Cron | None:
    try:
        return parse_cron(expression, dialect="posix-multiline")
    except InvalidCronExpressionError:
        return None


def _before_and_after(task: PlannedTask, zone: ZoneInfo) -> tuple[str, str, str]:
    changes = "; ".join(
        f"{it.field}: {escape(str(it.before))} -> {escape(str(it.after))}" for it in task.changes
    )
    notes = [changes] if changes else []
    if task.is_interrupted:
        notes.append("was interrupted: starts at once")
    before = _short(task.occurrences_before[0], zone) if task.occurrences_before else "-"
    after = _short(task.occurrences_after[0], zone) if task.occurrences_after else "-"
    return before, after, "; ".join(notes)


def _short(instant: datetime | None, zone: ZoneInfo) -> str:
    return "-" if instant is None else f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M}"


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else format_instant(instant)
