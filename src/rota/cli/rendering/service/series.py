"""Series as tables, as the service tells of them."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from rota.cli.rendering.service.moments import NOTHING, Viewer, show_text
from rota.cli.rendering.tables import Row, print_table
from rota.cli.rendering.terminal import Terminal
from rota.escape import escape

SERIES_COLUMNS = ("Id", "Next", "Last", "Name", "When")
RUN_COLUMNS = ("Occurrence", "Status", "Job", "Error")


def series_row(series: dict[str, Any], viewer: Viewer) -> Row:
    """One series as a row of ``SERIES_COLUMNS``."""
    last, rule = series["last_run"], series["recurrence"]
    zone = "" if rule["interval"] else f" ({escape(rule['zone'])})"
    cells = (
        escape(series["id"]),
        "paused" if series["is_paused"] else viewer.tell(series["next_at"]),
        NOTHING if last is None else str(last["status"]).lower(),
        show_text(series["name"], 40),
        f"{show_text(series['description'])}{zone}",
    )
    if series["problem"] or (last is not None and last["status"] == "FAILED"):
        return cells, "red"
    return cells, "yellow" if series["is_paused"] else ""


def series_facts(series: dict[str, Any], viewer: Viewer) -> list[Row]:
    """All that is worth knowing of one series; what there is not is left out."""
    return [((name, text), "") for name, text in _facts(series, viewer) if text != NOTHING]


def run_row(run: dict[str, Any], viewer: Viewer) -> Row:
    """One occurrence that has been, as a row of ``RUN_COLUMNS``."""
    cells = (
        viewer.show(run["occurrence_at"]),
        str(run["status"]),
        escape(run["job_id"]),
        show_text(run["error"], 200),
    )
    return cells, "red" if run["status"] == "FAILED" else ""


def print_upcoming(terminal: Terminal, shown: dict[str, Any]) -> None:
    """Print the next occurrences, on the clock of the series and in UTC."""
    rows: list[Row] = []
    for each in shown["occurrences"]:
        local, note = datetime.fromisoformat(each["local"]), each["note"]
        utc = datetime.fromisoformat(each["at"])
        cells = (
            f"{local:%a %Y-%m-%d %H:%M:%S}",
            f"{utc:%Y-%m-%d %H:%M:%S}Z",
            "" if note is None else escape(note),
        )
        rows.append((cells, "yellow" if note else ""))
    if rows:
        print_table(terminal.out, ("Local", "UTC", "Note"), rows)
    for text in shown["skipped"]:
        terminal.print_text(escape(text), "dim")


def _facts(series: dict[str, Any], viewer: Viewer) -> Iterator[tuple[str, str]]:
    recurrence = series["recurrence"]
    rule = recurrence.get("cron") or recurrence.get("rrule") or recurrence.get("interval")
    missed = series["missed_count"]
    yield "Name", show_text(series["name"])
    yield "When", f"{show_text(series['description'])} ({escape(recurrence['zone'])})"
    yield "Rule", show_text(rule)
    yield "Kind", show_text(series["kind"])
    yield "Queue", show_text(series["queue"])
    yield "Next", "paused" if series["is_paused"] else viewer.show(series["next_at"])
    yield "Job", f"{escape(series['job_id'])}, {series['status']}"
    yield "Missed", NOTHING if not missed else f"{missed} occurrences passed without a run"
    yield "Problem", show_text(series["problem"])
