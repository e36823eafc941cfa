"""A scheduler at work, as someone in front of a terminal sees it."""

from collections import deque
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rota.cli.rendering.durations import format_duration
from rota.cli.rendering.live.events import describe_event, format_milliseconds
from rota.cli.rendering.live.schedules import describe_schedule, next_occurrence
from rota.clock.protocol import Clock
from rota.escape import escape
from rota.events import (
    INFO,
    WARNING,
    Event,
    TaskRunCompleted,
    TaskRunFailed,
    TaskRunStarted,
)

MOST_TASKS = 20
MOST_LINES = 8


class Board:
    """Follows the events of a scheduler and shows its tasks, the next one due first."""

    def __init__(self, clock: Clock, zone: ZoneInfo, tasks: Sequence[tuple[str, str]] = ()) -> None:
        self._clock = clock
        self._zone = zone
        self._expressions = dict(tasks)
        self._outcomes: dict[str, Text] = {}
        self._lines: deque[Text] = deque(maxlen=MOST_LINES)

    def expect(self, tasks: Sequence[tuple[str, str]]) -> None:
        """Show these tasks, each a name and a cron expression."""
        self._expressions = dict(tasks)

    def follow(self, event: Event) -> Text | None:
        """Take note of an event; returns the line that tells of it, if it is worth one."""
        self._note_outcome(event)
        if event.level < INFO:
            return None
        now = self._clock.now().astimezone(self._zone)
        line = Text(f"{now:%H:%M:%S}  ", "dim")
        line.append(describe_event(event), "yellow" if event.level >= WARNING else "")
        self._lines.append(line)
        return line

    def render(self) -> RenderableType:
        now = self._clock.now()
        due = {
            name: next_occurrence(expression, now, self._zone)
            for name, expression in self._expressions.items()
        }
        table = Table("Task", "Schedule", "Next", "In", "Last", box=None, pad_edge=False)
        coming = sorted((at, name) for name, at in due.items() if at is not None)
        for at, name in coming[:MOST_TASKS]:
            table.add_row(
                escape(name),
                describe_schedule(self._expressions[name]),
                f"{at.astimezone(self._zone):%a %H:%M}",
                format_duration(at - now),
                self._outcomes.get(name, Text("-", "dim")),
            )
        title = Text(f"{now.astimezone(self._zone):%a %Y-%m-%d %H:%M:%S}  {self._zone}\n", "bold")
        more = len(self._expressions) - min(len(coming), MOST_TASKS)
        footer = [Text(f"... and {more} more", "dim")] if more else []
        return Group(title, table, *footer, Text(), *self._lines)

    def _note_outcome(self, event: Event) -> None:
        match event:
            case TaskRunStarted(task_name=name):
                self._outcomes[name] = Text("running", "green")
            case TaskRunCompleted(task_name=name, duration=duration):
                took = format_milliseconds(duration)
                self._outcomes[name] = Text(f"succeeded in {took}", "green")
            case TaskRunFailed(task_name=name, next_retry_at=retry_at):
                again = f"{retry_at.astimezone(self._zone):%H:%M:%S}"
                self._outcomes[name] = Text(f"failed, again at {again}", "red")
