"""Declarative tasks and plans as tables, as the service tells of them."""

from typing import Any

from rota.cli.rendering.service.moments import NOTHING, Viewer, read_utc, show_text
from rota.cli.rendering.tables import Row
from rota.escape import escape

TASK_COLUMNS = ("Task", "State", "Started", "Next", "Schedule")
PLAN_COLUMNS = ("Task", "", "Next before", "Next after", "Change")
_STATES = {"AwaitingRun": "waiting", "Running": "running", "AwaitingRetry": "retrying"}
_STYLES = {"running": "green", "retrying": "yellow", "interrupted": "red"}
_STANDING_STYLES = {"new": "green", "changed": "yellow", "removed": "red"}


def task_row(task: dict[str, Any], viewer: Viewer) -> Row:
    """One task as a row of ``TASK_COLUMNS``, with the style its state deserves."""
    state = "interrupted" if task["is_interrupted"] else _STATES.get(task["phase"], task["phase"])
    cells = (
        escape(task["name"]),
        escape(state),
        viewer.tell(task["last_attempt_at"]),
        _show_first(task["occurrences"], viewer),
        escape(task["description"] or task["cron"]),
    )
    return cells, _STYLES.get(state, "")


def plan_rows(plan: dict[str, Any], viewer: Viewer) -> list[Row]:
    """What would change, as rows of ``PLAN_COLUMNS``; kept tasks are not worth one."""
    return [
        (
            (
                escape(task["name"]),
                escape(task["standing"]),
                _show_first(task["occurrences_before"], viewer),
                _show_first(task["occurrences_after"], viewer),
                _list_changes(task),
            ),
            _STANDING_STYLES.get(task["standing"], ""),
        )
        for task in plan["tasks"]
        if task["standing"] != "kept" or task["is_interrupted"]
    ]


def _list_changes(task: dict[str, Any]) -> str:
    notes = [
        f"{it['field']}: {show_text(it['before'])} -> {show_text(it['after'])}"
        for it in task["changes"]
    ]
    if task["is_interrupted"]:
        notes.append("was interrupted: starts at once")
    return "; ".join(notes)


def _show_first(occurrences: list[str], viewer: Viewer) -> str:
    return _show(occurrences[0] if occurrences else None, viewer)


def _show(instant: str | None, viewer: Viewer) -> str:
    if instant is None:
        return NOTHING
    return f"{read_utc(instant).astimezone(viewer.zone):%a %Y-%m-%d %H:%M}"
