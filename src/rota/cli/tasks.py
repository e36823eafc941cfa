"""``rota tasks``: the declarative tasks on a store, or of a server."""

from collections import Counter
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.options import WhyOption, ask_about, bounds, flag, value
from rota.cli.output import (
    NOTHING,
    GivenTerminal,
    Row,
    Viewer,
    count_of,
    format_duration,
    print_table,
    read_utc,
    show_text,
)
from rota.cli.session import Session, Zoned
from rota.escape import escape
from rota.runtime.user_modules import read_registrations
from rota.scheduler.policy import DECLARATIVE, SchedulerSettings
from rota.scheduler.registration import accept_registrations

_STATES = {"AwaitingRun": "waiting", "Running": "running", "AwaitingRetry": "retrying"}
_STYLES = {"running": "green", "retrying": "yellow", "interrupted": "red", "paused": "yellow"}
_RUN_STYLES = {"failed": "red", "interrupted": "yellow"}
_STANDING_STYLES = {"new": "green", "changed": "yellow", "removed": "red"}


def task_row(task: dict[str, Any], viewer: Viewer) -> Row:
    state = "interrupted" if task["is_interrupted"] else _STATES.get(task["phase"], task["phase"])
    if task["is_paused"] and state != "running":
        state = "paused"
    cells = {
        "Task": escape(task["name"]),
        "State": escape(state),
        "Started": viewer.relative(task["last_attempt_at"]),
        "Next": NOTHING if task["is_paused"] else _show_first(task["occurrences"], viewer),
        "Schedule": escape(task["description"] or task["cron"]),
    }
    return cells, _STYLES.get(state, "")


def run_row(run: dict[str, Any], viewer: Viewer) -> Row:
    due, started = read_utc(run["scheduled_at"]), read_utc(run["started_at"])
    ended = None if run["ended_at"] is None else read_utc(run["ended_at"])
    cells = {
        "Due": viewer.show(run["scheduled_at"]),
        "Late": format_duration(max(started - due, timedelta(0))),
        "Ran for": NOTHING if ended is None else format_duration(ended - started),
        "Outcome": escape(run["outcome"]),
        "Reason": escape(run["reason"]),
        "Error": show_text(run["error"], 100),
    }
    return cells, _RUN_STYLES.get(run["outcome"], "")


def plan_rows(plan: dict[str, Any], viewer: Viewer) -> list[Row]:
    """What would change; kept tasks are not worth a row."""
    return [
        (
            {
                "Task": escape(task["name"]),
                "": escape(task["standing"]),
                "Next before": _show_first(task["occurrences_before"], viewer),
                "Next after": _show_first(task["occurrences_after"], viewer),
                "Change": _list_changes(task),
            },
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


ANYWHERE = Session()
IN_ZONE = Zoned()

app = App(name="tasks")

TasksReference = Annotated[
    str,
    value(
        "MODULE:NAME",
        "Where the registrations are: a list, or a function that returns one. The module is "
        "loaded here, also when a server is asked.",
    ),
]
TaskArgument = Annotated[str, value("NAME", "The name of the task.")]
LimitOption = Annotated[
    int, Parameter(metavar="NUMBER", validator=bounds(least=1), help="How many to list at most.")
]
MatchOption = Annotated[str | None, value("TEXT", "Only tasks whose name contains this text.")]
AtOption = Annotated[
    str | None,
    value(
        "INSTANT",
        "An ISO 8601 instant; without an offset it is wall time in the zone. Default: now.",
    ),
]


@app.command(name="list")
def list_tasks(
    *, match: MatchOption = None, limit: LimitOption = 50, session: Zoned = IN_ZONE
) -> None:
    """List the tasks: state, last start and next occurrence.

    Try:

        rota tasks list
        rota tasks list --match backup --json
        rota tasks list --url https://rota.example --token-file ~/.rota-token
    """
    found = session.get("tasks", query={"zone": session.local.name})
    chosen = [task for task in found["items"] if match is None or match in task["name"]]
    has_more = len(chosen) > limit
    if session.is_done({**found, "items": chosen[:limit], "has_more": has_more}):
        return
    viewer = session.viewer
    rows = [task_row(task, viewer) for task in chosen[:limit]]
    print_table(session.terminal.out, rows)
    _print_footer(session.terminal, found, shown=len(rows), total=len(chosen))


@app.command(name="plan")
def show_plan(tasks: TasksReference, /, *, session: Zoned = IN_ZONE) -> None:
    """Say what starting a scheduler with these registrations would change.

    Nothing is written. Try:

        rota tasks plan myapp.tasks:registrations
    """
    order = {"registrations": _read_order(tasks), "zone": session.local.name}
    plan = session.post("tasks", "plan", body=order, makes=True)
    if session.is_done(plan):
        return
    print_table(session.terminal.out, plan_rows(plan, session.viewer))
    counts = Counter(task["standing"] for task in plan["tasks"])
    words = ("new", "changed", "removed", "kept")
    session.terminal.print_text(", ".join(f"{counts[word]} {word}" for word in words), "bold")


@app.command(name="why")
def explain(name: TaskArgument, /, *, at: AtOption = None, session: Zoned = IN_ZONE) -> None:
    """Explain why a task ran, did not run, or will run.

    Try:

        rota tasks why backup
        rota tasks why backup --at 2027-03-28T01:30 --zone Europe/London
    """
    question = {"name": name, "zone": session.local.name, **ask_about(at)}
    answer = session.get("tasks", "why", query=question)
    if session.is_done(answer):
        return
    session.terminal.print_text(f"{escape(name)}: {escape(answer['answer'])}", "bold")
    for reason in answer["reasons"]:
        session.terminal.print_item(escape(reason))


@app.command(name="history")
def show_history(
    name: TaskArgument, /, *, limit: LimitOption = 50, session: Zoned = IN_ZONE
) -> None:
    """List the last runs of a task: due time, lateness, and outcome.

    Try:

        rota tasks history backup
    """
    question = {"name": name, "zone": session.local.name}
    detail = session.get("tasks", "history", query=question)
    runs = detail["runs"][:limit]
    if session.is_done({**detail, "runs": runs}):
        return
    viewer = session.viewer
    print_table(session.terminal.out, [run_row(it, viewer) for it in runs])
    failed = sum(it["outcome"] != "succeeded" for it in runs)
    session.terminal.print_text(
        f"{count_of(len(runs), 'run')} of {escape(name)}, {failed} not successful", "bold"
    )


@app.command(name="pause")
def pause(name: TaskArgument, /, *, why: WhyOption = None, session: Session = ANYWHERE) -> None:
    """Pause a task until it is resumed. A run in progress finishes.

    The pause outlasts restarts and deployments. Try:

        rota tasks pause backup --why "the disk is full"
    """
    order = {"name": name, "why": why}
    detail = session.post("tasks", "pause", body=order)
    running = ", but runs now" if detail["task"]["phase"] == "Running" else ""
    session.print_done(detail, f"Paused: {name} starts no more{running}.")


@app.command(name="resume")
def resume(
    name: TaskArgument,
    /,
    *,
    catch_up: Annotated[bool, flag("Run once now for what passed during the pause.")] = False,
    why: WhyOption = None,
    session: Session = ANYWHERE,
) -> None:
    """Resume a paused task with its next occurrence.

    Try:

        rota tasks resume backup --catch-up
    """
    order = {"name": name, "why": why, "catch_up": catch_up}
    detail = session.post("tasks", "resume", body=order)
    viewer = session.viewer
    first = _show_first(detail["task"]["occurrences"], viewer)
    session.print_done(detail, f"Resumed: {name}, next at {first}.")


@app.command(name="run-now")
def run_now(name: TaskArgument, /, *, session: Session = ANYWHERE) -> None:
    """Ask for a task to run once, now.

    It starts within seconds, if a scheduler is alive; otherwise when one is
    started. The task's schedule is not affected. Try:

        rota tasks run-now backup
    """
    asked = session.post("tasks", "run-now", body={"name": name})
    if session.is_done(asked):
        pass
    elif asked["scheduler_count"]:
        within = int(SchedulerSettings().peers_checked_every.total_seconds())
        session.terminal.print_text(f"Asked for: {escape(name)} starts within {within} seconds.")
    else:
        session.terminal.print_text(
            f"Asked for: {escape(name)} starts when a scheduler does; none is alive on this store."
        )


def _read_order(reference: str) -> list[dict[str, Any]]:
    """What the module registers, as a plan needs it; checked before the service is asked."""
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
    alive = found["scheduler_count"]
    schedulers = (
        "no scheduler is" if not alive else f"{alive} scheduler{'s are' if alive > 1 else ' is'}"
    )
    terminal.print_text(f"{count_of(total, 'task')}; {schedulers} alive", "bold")
