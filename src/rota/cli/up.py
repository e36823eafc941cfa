"""``rota up``: everything in one process, on one store."""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rota.cli.event_lines import describe_event, format_event_duration, make_line_reporter
from rota.cli.options import AppArgument, ZoneOption, choose_zone, flag, value
from rota.cli.output import GivenTerminal, Terminal, format_duration
from rota.cli.process import (
    TASKS_HELP,
    ListenOptions,
    ProcessOptions,
    TaskRules,
    WorkerOptions,
    end_on,
    load_app,
)
from rota.clock.protocol import Clock
from rota.errors import CronCalculationError, InvalidCronExpressionError, StoreError
from rota.escape import escape
from rota.events import INFO, WARNING, Event, TaskRunCompleted, TaskRunFailed, TaskRunStarted
from rota.runtime.plan import ListTasks, Reporter, RuntimePlan
from rota.runtime.startup import run_runtime
from rota.runtime.user_modules import read_registrations
from rota.scheduler.queries import read_tasks
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentStore
from rota.triggers.cron import Cron, parse_stored_cron


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
        return parse_stored_cron(expression)
    except InvalidCronExpressionError:
        return None


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
        """Record an event. Returns the line that shows it; None below the level INFO."""
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
                took = format_event_duration(duration)
                self._outcomes[name] = Text(f"succeeded in {took}", "green")
            case TaskRunFailed(task_name=name, next_retry_at=retry_at):
                again = f"{retry_at.astimezone(self._zone):%H:%M:%S}"
                self._outcomes[name] = Text(f"failed, again at {again}", "red")


def list_default_tasks(store: DocumentStore, clock: Clock) -> list[Any]:
    """Two registrations, which are safe to run on any store."""

    async def heartbeat() -> None:
        """Its start is the news: the board and the record show how punctual it was."""

    async def look_after_the_store() -> None:
        overview = await read_tasks(store, clock)
        if overview.unreadable:
            names = ", ".join(overview.unreadable)
            raise StoreError(f"records that cannot be read: {names}")

    return [
        ("heartbeat", "* * * * *", heartbeat, timedelta(seconds=10)),
        ("look-after-the-store", "0,15,30,45 * * * *", look_after_the_store, timedelta(minutes=1)),
    ]


REDRAWN_EVERY = timedelta(seconds=1)

BoardOption = Annotated[bool, flag("On a terminal: show the tasks as a live board, not as lines.")]


def up(
    app: AppArgument = None,
    /,
    *,
    tasks: Annotated[
        str | None,
        value("MODULE:NAME", f"{TASKS_HELP} Default: two tasks that watch over the store."),
    ] = None,
    worker: WorkerOptions = WorkerOptions(),
    listen: ListenOptions = ListenOptions(),
    zone: ZoneOption = None,
    board: BoardOption = False,
    process: ProcessOptions = ProcessOptions(),
    rules: TaskRules = TaskRules(),
    terminal: GivenTerminal,
) -> None:
    """Run everything until it is stopped."""
    local = choose_zone(zone).zone
    shown = Board(terminal.clock, local) if board and terminal.out.is_terminal else None
    registrations = None if tasks is None else read_registrations(tasks)
    loaded = load_app(app)
    settings = process.read_settings(loaded)
    plan = RuntimePlan(
        store_url=process.choose_store(loaded),
        binding=listen.make_binding(),
        work=worker.make_plan(app, settings),
        tasks=rules.make_plan(_make_lister(registrations, shown), local),
        greets=not process.as_json,
        webhook=process.webhook,
    )
    if shown is None or process.as_json:
        process.run(terminal, plan)
    else:
        asyncio.run(_run_with_board(terminal, plan, shown))


def _make_lister(registrations: Sequence[Any] | None, board: Board | None) -> ListTasks:
    def list_tasks(store: OpenStore, clock: Clock) -> Sequence[Any]:
        listed = list_default_tasks(store, clock) if registrations is None else registrations
        if board is not None:
            board.expect([(it[0], it[1]) for it in listed])
        return listed

    return list_tasks


async def _run_with_board(terminal: Terminal, plan: RuntimePlan, board: Board) -> None:
    plain = make_line_reporter(terminal)
    reporter = Reporter(plain.say, board.follow, plain.show_token)
    with Live(console=terminal.out, auto_refresh=False, get_renderable=board.render) as live:
        ticking = asyncio.create_task(_redraw(terminal, live))
        try:
            end_on(await run_runtime(plan, reporter, terminal.clock))
        finally:
            ticking.cancel()
            live.refresh()


async def _redraw(terminal: Terminal, live: Live) -> None:
    while True:
        live.refresh()
        await terminal.clock.sleep(REDRAWN_EVERY)
