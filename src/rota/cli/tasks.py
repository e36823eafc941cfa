"""``rota tasks``: the declarative tasks on a store."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, TypeVar

from cyclopts import App, Parameter
from cyclopts.validators import Number

from rota.cli.reading.instants import choose_zone
from rota.cli.reading.options import (
    DEFAULT_STORE,
    GivenTerminal,
    JsonOption,
    StoreOption,
    ZoneOption,
)
from rota.cli.reading.registrations import read_registrations
from rota.cli.rendering.tables import print_table
from rota.cli.rendering.tasks import (
    TASK_COLUMNS,
    explanation_document,
    plan_document,
    plan_rows,
    task_document,
    task_row,
)
from rota.errors import InvalidInputError
from rota.escaping import escape
from rota.scheduler import Scheduler
from rota.scheduler.asking.desk import Overview, TaskDesk
from rota.scheduler.policy import SchedulerSettings
from rota.stores.protocol import DocumentStore
from rota.wiring import open_store

Answer = TypeVar("Answer")

app = App(name="tasks")

TasksReference = Annotated[
    str,
    Parameter(
        metavar="MODULE:NAME",
        help="Where the registrations are: a list, or a function that returns one.",
    ),
]
LimitOption = Annotated[
    int, Parameter(metavar="NUMBER", validator=Number(gte=1), help="The most tasks to list.")
]
MatchOption = Annotated[
    str | None,
    Parameter(metavar="TEXT", help="Only tasks whose name holds this text."),
]
AtOption = Annotated[
    str | None,
    Parameter(
        metavar="INSTANT",
        help="An ISO 8601 instant; without an offset it is wall time in the zone. Default: now.",
    ),
]


@app.command(name="list")
def list_tasks(
    *,
    store: StoreOption = DEFAULT_STORE,
    zone: ZoneOption = None,
    match: MatchOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
    terminal: GivenTerminal,
) -> None:
    """List the tasks on a store: state, last start and next occurrence.

    Try:

        rota tasks list --store sqlite:///rota.db
        rota tasks list --match backup --json
    """
    overview = _with_store(store, lambda opened: TaskDesk(opened, terminal.clock).look())
    chosen = [task for task in overview.tasks if match is None or match in task.name]
    now, local = terminal.clock.now(), choose_zone(zone).zone
    if as_json:
        terminal.print_document(
            {
                "schedulers_alive": len(overview.living),
                "unreadable": list(overview.unreadable),
                "tasks": [task_document(it, overview.living, now, local) for it in chosen[:limit]],
                "total": len(chosen),
            }
        )
        return
    rows = [task_row(task, overview.living, now, local) for task in chosen[:limit]]
    if rows:
        print_table(terminal.out, TASK_COLUMNS, rows)
    _print_footer(terminal, overview, shown=len(rows), total=len(chosen))


@app.command(name="plan")
def show_plan(
    tasks: TasksReference,
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    terminal: GivenTerminal,
) -> None:
    """Say what starting a scheduler with these registrations would change.

    Nothing is written. Try:

        rota tasks plan myapp.tasks:registrations --store sqlite:///rota.db
    """
    registrations = read_registrations(tasks)
    local = choose_zone(zone).zone
    plan = _with_store(
        store,
        lambda opened: Scheduler(opened, clock=terminal.clock, zone=local).plan(registrations),
    )
    if as_json:
        terminal.print_document(plan_document(plan))
        return
    rows = plan_rows(plan, local)
    if rows:
        print_table(terminal.out, ("Task", "", "Next before", "Next after", "Change"), rows)
    terminal.print_text(
        f"{len(plan.new)} new, {len(plan.changed)} changed, {len(plan.removed)} removed,"
        f" {len(plan.kept)} kept",
        "bold",
    )


@app.command(name="why")
def explain(
    name: str,
    /,
    *,
    at: AtOption = None,
    store: StoreOption = DEFAULT_STORE,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    terminal: GivenTerminal,
) -> None:
    """Explain why a task ran, did not run, or will run.

    Try:

        rota tasks why backup --store sqlite:///rota.db
        rota tasks why backup --at 2027-03-28T01:30 --zone Europe/London
    """
    local = choose_zone(zone).zone
    asked = None if at is None else _read_time(at)
    explanation = _with_store(
        store,
        lambda opened: Scheduler(opened, clock=terminal.clock, zone=local).why(name, asked),
    )
    if as_json:
        terminal.print_document(explanation_document(explanation))
        return
    terminal.print_text(f"{escape(name)}: {explanation.answer}", "bold")
    for reason in explanation.reasons:
        terminal.print_text(escape(reason))


@app.command(name="run-now")
def run_now(
    name: str,
    /,
    *,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    terminal: GivenTerminal,
) -> None:
    """Ask the scheduler on a store to run a task once, now.

    It starts within seconds, if a scheduler is alive; otherwise when one is
    started. The task's schedule is not affected. Try:

        rota tasks run-now backup --store sqlite:///rota.db
    """

    async def request(opened: DocumentStore) -> int:
        desk = TaskDesk(opened, terminal.clock)
        await desk.request_run(name)
        return len(await desk.find_living())

    alive = _with_store(store, request)
    if as_json:
        terminal.print_document({"name": name, "requested": True, "schedulers_alive": alive})
    elif alive:
        within = int(SchedulerSettings().peers_checked_every.total_seconds())
        terminal.print_text(f"Asked for: {escape(name)} starts within {within} seconds.")
    else:
        terminal.print_text(
            f"Asked for: {escape(name)} starts when a scheduler does; none is alive on this store."
        )


def _with_store(url: str, ask: Callable[[DocumentStore], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        async with await open_store(url) as opened:
            return await ask(opened)

    return asyncio.run(run())


def _read_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f'Invalid --at "{text}": it is not an ISO 8601 time', {"field": "--at"}
        ) from error


def _print_footer(terminal: GivenTerminal, overview: Overview, *, shown: int, total: int) -> None:
    if shown < total:
        terminal.print_text(f"... and {total - shown} more; see --limit and --match", "dim")
    for name in overview.unreadable:
        terminal.print_text(f"{escape(name)}: its record cannot be read", "red")
    noun = "task" if total == 1 else "tasks"
    alive = len(overview.living)
    schedulers = (
        "no scheduler is" if not alive else f"{alive} scheduler{'s are' if alive > 1 else ' is'}"
    )
    terminal.print_text(f"{total} {noun}; {schedulers} alive", "bold")
