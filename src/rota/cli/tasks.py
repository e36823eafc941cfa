"""``rota tasks``: the declarative tasks on a store, or of a server."""

from collections import Counter
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number

from rota.cli.arguments import ask_about, choose_zone
from rota.cli.connection import converse
from rota.cli.options import GivenTerminal, JsonOption, WhyOption, ZoneOption, flag, value
from rota.cli.output import (
    NOTHING,
    Row,
    Viewer,
    done,
    format_duration,
    print_table,
    read_utc,
    show_text,
)
from rota.cli.place import Whereabouts
from rota.escape import escape
from rota.runtime.user_modules import read_registrations
from rota.scheduler.policy import DECLARATIVE, SchedulerSettings
from rota.scheduler.registration import accept_registrations

TASK_COLUMNS = ("Task", "State", "Started", "Next", "Schedule")
PLAN_COLUMNS = ("Task", "", "Next before", "Next after", "Change")
RUN_COLUMNS = ("Due", "Late", "Ran for", "Outcome", "Reason", "Error")
_STATES = {"AwaitingRun": "waiting", "Running": "running", "AwaitingRetry": "retrying"}
_STYLES = {"running": "green", "retrying": "yellow", "interrupted": "red", "paused": "yellow"}
_RUN_STYLES = {"failed": "red", "interrupted": "yellow"}
_STANDING_STYLES = {"new": "green", "changed": "yellow", "removed": "red"}


def task_row(task: dict[str, Any], viewer: Viewer) -> Row:
    """One task as a row of ``TASK_COLUMNS``, with the style its state deserves."""
    state = "interrupted" if task["is_interrupted"] else _STATES.get(task["phase"], task["phase"])
    if task["is_paused"] and state != "running":
        state = "paused"
    cells = (
        escape(task["name"]),
        escape(state),
        viewer.tell(task["last_attempt_at"]),
        NOTHING if task["is_paused"] else _show_first(task["occurrences"], viewer),
        escape(task["description"] or task["cron"]),
    )
    return cells, _STYLES.get(state, "")


def run_row(run: dict[str, Any], viewer: Viewer) -> Row:
    """One past run as a row of ``RUN_COLUMNS``."""
    due, started = read_utc(run["scheduled_at"]), read_utc(run["started_at"])
    ended = None if run["ended_at"] is None else read_utc(run["ended_at"])
    cells = (
        viewer.show(run["scheduled_at"]),
        format_duration(max(started - due, timedelta(0))),
        NOTHING if ended is None else format_duration(ended - started),
        escape(run["outcome"]),
        escape(run["reason"]),
        show_text(run["error"], 100),
    )
    return cells, _RUN_STYLES.get(run["outcome"], "")


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


TASKS = "/tasks"
NOWHERE = Whereabouts()

app = App(name="tasks")

TasksReference = Annotated[
    str,
    value(
        "MODULE:NAME",
        "Where the registrations are: a list, or a function that returns one. The module is "
        "loaded here, also when a server is asked.",
    ),
]
LimitOption = Annotated[
    int, Parameter(metavar="NUMBER", validator=Number(gte=1), help="The most tasks to list.")
]
MatchOption = Annotated[str | None, value("TEXT", "Only tasks whose name holds this text.")]
AtOption = Annotated[
    str | None,
    value(
        "INSTANT",
        "An ISO 8601 instant; without an offset it is wall time in the zone. Default: now.",
    ),
]


@app.command(name="list")
def list_tasks(
    *,
    zone: ZoneOption = None,
    match: MatchOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
    place: Whereabouts = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """List the tasks: state, last start and next occurrence.

    Try:

        rota tasks list
        rota tasks list --match backup --json
        rota tasks list --url https://rota.example --token-file ~/.rota-token
    """
    local = choose_zone(zone)
    found = converse(terminal, place, lambda it: it.get(TASKS, {"zone": local.name}))
    chosen = [task for task in found["items"] if match is None or match in task["name"]]
    if as_json:
        has_more = len(chosen) > limit
        terminal.print_document({**found, "items": chosen[:limit], "has_more": has_more})
        return
    viewer = Viewer(terminal.clock.now(), local.zone)
    rows = [task_row(task, viewer) for task in chosen[:limit]]
    if rows:
        print_table(terminal.out, TASK_COLUMNS, rows)
    _print_footer(terminal, found, shown=len(rows), total=len(chosen))


@app.command(name="plan")
def show_plan(
    tasks: TasksReference,
    /,
    *,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Whereabouts = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Say what starting a scheduler with these registrations would change.

    Nothing is written. Try:

        rota tasks plan myapp.tasks:registrations
    """
    local = choose_zone(zone)
    order = {"registrations": _read_order(tasks), "zone": local.name}
    plan = converse(terminal, place, lambda it: it.post(f"{TASKS}/plan", order), makes=True)
    if as_json:
        terminal.print_document(plan)
        return
    rows = plan_rows(plan, Viewer(terminal.clock.now(), local.zone))
    if rows:
        print_table(terminal.out, PLAN_COLUMNS, rows)
    counts = Counter(task["standing"] for task in plan["tasks"])
    words = ("new", "changed", "removed", "kept")
    terminal.print_text(", ".join(f"{counts[word]} {word}" for word in words), "bold")


@app.command(name="why")
def explain(
    name: str,
    /,
    *,
    at: AtOption = None,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Whereabouts = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Explain why a task ran, did not run, or will run.

    Try:

        rota tasks why backup
        rota tasks why backup --at 2027-03-28T01:30 --zone Europe/London
    """
    question = {"name": name, "zone": choose_zone(zone).name, **ask_about(at)}
    answer = converse(terminal, place, lambda it: it.get(f"{TASKS}/why", question))
    if as_json:
        terminal.print_document(answer)
        return
    terminal.print_text(f"{escape(name)}: {escape(answer['answer'])}", "bold")
    for reason in answer["reasons"]:
        terminal.print_text(escape(reason))


@app.command(name="history")
def show_history(
    name: str,
    /,
    *,
    zone: ZoneOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
    place: Whereabouts = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """List the last runs of a task: when it was due, how late it started, and how it ended.

    Try:

        rota tasks history backup
    """
    local = choose_zone(zone)
    question = {"name": name, "zone": local.name}
    detail = converse(terminal, place, lambda it: it.get(f"{TASKS}/history", question))
    runs = detail["runs"][:limit]
    if as_json:
        terminal.print_document({**detail, "runs": runs})
        return
    viewer = Viewer(terminal.clock.now(), local.zone)
    if runs:
        print_table(terminal.out, RUN_COLUMNS, [run_row(it, viewer) for it in runs])
    failed = sum(it["outcome"] != "succeeded" for it in runs)
    noun = "run" if len(runs) == 1 else "runs"
    terminal.print_text(f"{len(runs)} {noun} of {escape(name)}, {failed} not successful", "bold")


@app.command(name="pause")
def pause(
    name: str,
    /,
    *,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Whereabouts = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Hold a task back until it is resumed. A run in progress finishes.

    The pause outlasts restarts and deployments. Try:

        rota tasks pause backup --why "the disk is full"
    """
    order = {"name": name, "why": why}
    detail = converse(terminal, place, lambda it: it.post(f"{TASKS}/pause", order))
    running = ", but runs now" if detail["task"]["phase"] == "Running" else ""
    done(terminal, detail, f"Paused: {name} starts no more{running}.", as_json=as_json)


@app.command(name="resume")
def resume(
    name: str,
    /,
    *,
    catch_up: Annotated[bool, flag("Run once now for what passed during the pause.")] = False,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Whereabouts = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Let a paused task go on with its next occurrence.

    Try:

        rota tasks resume backup --catch-up
    """
    order = {"name": name, "why": why, "catch_up": catch_up}
    detail = converse(terminal, place, lambda it: it.post(f"{TASKS}/resume", order))
    viewer = Viewer(terminal.clock.now(), choose_zone(None).zone)
    first = _show_first(detail["task"]["occurrences"], viewer)
    done(terminal, detail, f"Resumed: {name}, next at {first}.", as_json=as_json)


@app.command(name="run-now")
def run_now(
    name: str,
    /,
    *,
    as_json: JsonOption = False,
    place: Whereabouts = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Ask for a task to run once, now.

    It starts within seconds, if a scheduler is alive; otherwise when one is
    started. The task's schedule is not affected. Try:

        rota tasks run-now backup
    """
    asked = converse(terminal, place, lambda it: it.post(f"{TASKS}/run-now", {"name": name}))
    if as_json:
        terminal.print_document(asked)
    elif asked["scheduler_count"]:
        within = int(SchedulerSettings().peers_checked_every.total_seconds())
        terminal.print_text(f"Asked for: {escape(name)} starts within {within} seconds.")
    else:
        terminal.print_text(
            f"Asked for: {escape(name)} starts when a scheduler does; none is alive on this store."
        )


def _read_order(reference: str) -> list[dict[str, Any]]:
    """What the module registers, as a plan needs it; checked before anybody is asked."""
    accepted = accept_registrations(read_registrations(reference), DECLARATIVE.dialect)
    return [
        {"name": task.name, "cron": task.cron.text, "retry_delay_ms": task.retry_delay_ms}
        for task in accepted
    ]


def _print_footer(
    terminal: GivenTerminal, found: dict[str, Any], *, shown: int, total: int
) -> None:
    if shown < total:
        terminal.print_text(f"... and {total - shown} more; see --limit and --match", "dim")
    for name in found["unreadable"]:
        terminal.print_text(f"{escape(name)}: its record cannot be read", "red")
    noun = "task" if total == 1 else "tasks"
    alive = found["scheduler_count"]
    schedulers = (
        "no scheduler is" if not alive else f"{alive} scheduler{'s are' if alive > 1 else ' is'}"
    )
    terminal.print_text(f"{total} {noun}; {schedulers} alive", "bold")
