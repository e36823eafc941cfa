"""How all jobs of a tenant stand, on one screen."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rota.cli.rendering.service.moments import Viewer, format_seconds, read_utc, show_text
from rota.escaping import escape

MOST_QUEUES = 15
MOST_RUNS = 5
MOST_FAILURES = 5
ENDED = ("COMPLETED", "FAILED")
LATE_SECONDS = 300


class Look(NamedTuple):
    """One look at the service: the overview, and who works."""

    overview: dict[str, Any]
    workers: list[dict[str, Any]]

    @property
    def taken_at(self) -> datetime:
        return read_utc(self.overview["taken_at"])

    @property
    def ended_count(self) -> int:
        counts = self.overview["counts"]
        return sum(counts.get(status, 0) for status in ENDED)


def measure_rate(before: Look | None, after: Look) -> float | None:
    """How many jobs ended in a second between two looks; None of a single one."""
    if before is None:
        return None
    seconds = (after.taken_at - before.taken_at).total_seconds()
    return max(after.ended_count - before.ended_count, 0) / seconds if seconds > 0 else None


def render_top(look: Look, rate: float | None, viewer: Viewer, address: str) -> RenderableType:
    """The whole screen; everything in it is safe to show."""
    parts = [
        _heading(look, rate, viewer, address),
        *_alarms(look.overview),
        Text(),
        _queues(look.overview),
        *_next_runs(look.overview, viewer),
        *_failures(look.overview, viewer),
    ]
    return Group(*parts)


def _heading(look: Look, rate: float | None, viewer: Viewer, address: str) -> Text:
    counts, queues = look.overview["counts"], look.overview["queues"]
    late = sum(it["late_seconds"] > LATE_SECONDS for it in queues)
    dead = sum(it["dead_count"] for it in queues)
    now = viewer.now.astimezone(viewer.zone)
    text = Text(f"{now:%a %Y-%m-%d %H:%M:%S}  {escape(address)}\n", "bold")
    text.append(f"workers {len(look.workers)}", "" if look.workers else "red")
    for word, status in (
        ("running", "RUNNING"),
        ("ready", "READY"),
        ("pending", "PENDING"),
        ("blocked", "BLOCKED"),
        ("done", "COMPLETED"),
    ):
        text.append(f"  {word} {counts.get(status, 0)}")
    text.append(f"  dead {dead}", "red" if dead else "")
    if late:
        text.append(f"  late {late}", "yellow")
    if rate is not None:
        text.append(f"  {rate:.1f}/s")
    return text


def _alarms(overview: dict[str, Any]) -> Iterator[Text]:
    for alarm in overview["alarms"]:
        yield Text(f"! {escape(alarm['text'])}", "red")


def _queues(overview: dict[str, Any]) -> Table:
    table = _table("Queue", "Due", "Later", "Running", "Stalled", "Dead", "Oldest", "Workers")
    for queue in overview["queues"][:MOST_QUEUES]:
        late = queue["late_seconds"]
        style = "red" if queue["dead_count"] else "yellow" if late > LATE_SECONDS else ""
        counts = ("due", "later", "running", "stalled", "dead")
        cells = [
            escape(queue["queue"]),
            *(str(queue[f"{it}_count"]) for it in counts),
            format_seconds(late) if queue["due_count"] else "-",
            str(queue["worker_count"]),
        ]
        _add(table, cells, style)
    return table


def _next_runs(overview: dict[str, Any], viewer: Viewer) -> Iterator[RenderableType]:
    runs = overview["next_runs"][:MOST_RUNS]
    if runs:
        table = _table("Next", "At", "Name")
        for run in runs:
            at = run["at"]
            _add(table, [viewer.tell(at), viewer.show(at), show_text(run["name"], 60)])
        yield from (Text(), table)


def _failures(overview: dict[str, Any], viewer: Viewer) -> Iterator[RenderableType]:
    failures = overview["failures"][:MOST_FAILURES]
    if failures:
        table = _table("Failed", "Name", "Error")
        for failure in failures:
            error = show_text(failure["error"], 100)
            _add(table, [viewer.tell(failure["ended_at"]), show_text(failure["name"], 40), error])
        yield from (Text(), table)


def _add(table: Table, cells: Sequence[str], style: str = "") -> None:
    table.add_row(*map(Text, cells), style=style)


def _table(*header: str) -> Table:
    return Table(*header, box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
