"""``rota series``: recurring jobs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from rota.cli.options import (
    DryRunOption,
    LimitOption,
    NewJob,
    NewPayloadOption,
    WhyOption,
    ZoneOption,
    bounds,
    check_argument,
    choose_zone,
    flag,
    format_instant,
    given,
    number,
    read_duration,
    read_json,
    read_moment,
    value,
)
from rota.cli.output import (
    NOTHING,
    Row,
    Terminal,
    Viewer,
    format_duration,
    print_facts,
    print_table,
    show_text,
)
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.errors import InvalidInputError
from rota.escape import escape
from rota.triggers.cron_dialects import split_zone


@Parameter(name="*", group="When")
@dataclass(frozen=True)
class Rule:
    """The options that say when; exactly one of the first three."""

    cron: Annotated[str | None, value("EXPRESSION", "Extended cron: 0 9 * * mon-fri.")] = None
    rrule: Annotated[str | None, value("RULE", "RFC 5545: FREQ=WEEKLY;BYDAY=MO.")] = None
    every: Annotated[str | None, value("DURATION", "Elapsed time between runs: 15m or 1h30m.")] = (
        None
    )
    zone: ZoneOption = None
    start: Annotated[
        str | None,
        value("INSTANT", "Not before this; a rule counts from it. Without an offset, wall time."),
    ] = None
    until: Annotated[str | None, value("INSTANT", "Not after this.")] = None
    times: Annotated[int | None, value("NUMBER", "End after this many occurrences.")] = None
    gap: Annotated[
        Literal["skip", "shift"] | None,
        Parameter(help="What to do with a time that clocks skip as they go forward."),
    ] = None
    fold: Annotated[
        Literal["first", "both"] | None,
        Parameter(help="Which one to run when clocks go back and a time happens twice."),
    ] = None
    overlap: Annotated[
        Literal["skip", "queue", "allow"],
        Parameter(help="What to do with an occurrence while the previous one still runs."),
    ] = "skip"
    catch_up: Annotated[
        Literal["once", "skip", "all"],
        Parameter(help="How to run what no worker ran in time: once for all, not at all, or each."),
    ] = "once"
    jitter: Annotated[str | None, value("DURATION", "Start each up to this much later: 5m.")] = None
    alert_after: Annotated[
        str | None, value("DURATION", "Alert if none has succeeded this long after it was due: 2h.")
    ] = None


def read_rule(rule: Rule) -> dict[str, Any]:
    """The rule as the service takes it. The service checks it.

    The zone is the one that is given, or that the expression names, or the host's.
    """
    if sum(it is not None for it in (rule.cron, rule.rrule, rule.every)) != 1:
        message = "give exactly one of --cron, --rrule and --every"
        raise InvalidInputError(message, {"field": "--cron"})
    chosen = choose_zone(rule.zone or split_zone(rule.cron or "")[0])
    if rule.every is not None:
        read_duration(rule.every, "--every")
    fields = vars(rule) | {
        "zone": chosen.name,
        "start": read_moment(rule.start, chosen.zone, "--start"),
        "until": read_moment(rule.until, chosen.zone, "--until"),
    }
    return {_FIELDS.get(name, name): it for name, it in fields.items() if it is not None}


_FIELDS = {"every": "interval", "times": "count"}
"""Options that the service calls otherwise."""


def series_row(series: dict[str, Any], viewer: Viewer) -> Row:
    last, rule = series["last_run"], series["recurrence"]
    zone = "" if rule["interval"] else f" ({escape(rule['zone'])})"
    cells = {
        "Id": escape(series["id"]),
        "Next": "paused" if series["is_paused"] else viewer.relative(series["next_at"]),
        "Last": NOTHING if last is None else str(last["status"]).lower(),
        "Name": show_text(series["name"], 40),
        "When": f"{show_text(series['description'])}{zone}",
    }
    if series["problem"] or (last is not None and last["status"] == "FAILED"):
        return cells, "red"
    return cells, "yellow" if series["is_paused"] else ""


def run_row(run: dict[str, Any], viewer: Viewer) -> Row:
    cells = {
        "Occurrence": viewer.show(run["occurrence_at"]),
        "Status": "skipped" if run["is_skipped"] else str(run["status"]),
        "Late": _show_seconds(run["late_seconds"]),
        "Ran for": _show_seconds(run["lasted_seconds"]),
        "Job": escape(run["job_id"]),
        "Error": show_text(run["error"], 200),
    }
    return cells, "red" if run["status"] == "FAILED" else ""


def _show_seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else format_duration(timedelta(seconds=seconds))


def print_upcoming(terminal: Terminal, shown: dict[str, Any]) -> None:
    """Print the next occurrences, on the clock of the series and in UTC."""
    rows: list[Row] = []
    for each in shown["occurrences"]:
        local, note = datetime.fromisoformat(each["local"]), each["note"]
        utc = datetime.fromisoformat(each["at"])
        cells = {
            "Local": f"{local:%a %Y-%m-%d %H:%M:%S}",
            "UTC": f"{utc:%Y-%m-%d %H:%M:%S}Z",
            "Note": "" if note is None else escape(note),
        }
        rows.append((cells, "yellow" if note else ""))
    print_table(terminal.out, rows)
    for text in shown["skipped"]:
        terminal.print_text(escape(text), "dim")


def _list_facts(series: dict[str, Any], viewer: Viewer) -> Iterator[tuple[str, str]]:
    recurrence = series["recurrence"]
    rule = recurrence.get("cron") or recurrence.get("rrule") or recurrence.get("interval")
    missed = series["missed_count"]
    yield "Name", show_text(series["name"])
    yield "When", f"{show_text(series['description'])} ({escape(recurrence['zone'])})"
    yield "Rule", show_text(rule)
    yield "Overlap", _show_choice(recurrence.get("overlap"), "skip")
    yield "Catch-up", _show_choice(recurrence.get("catch_up"), "once")
    yield "Jitter", show_text(recurrence.get("jitter"))
    yield "Alert after", show_text(recurrence.get("alert_after"))
    yield "Kind", show_text(series["kind"])
    yield "Queue", show_text(series["queue"])
    yield "Next", "paused" if series["is_paused"] else viewer.show(series["next_at"])
    yield "Job", f"{escape(series['job_id'])}, {series['status']}"
    yield "Missed", NOTHING if not missed else f"{missed} occurrences passed without a run"
    yield "Problem", show_text(series["problem"])


def _show_choice(chosen: str | None, usual: str) -> str:
    return NOTHING if chosen in {None, usual} else show_text(chosen)


app = App(name="series")

SeriesArgument = Annotated[
    str,
    Parameter(
        metavar="ID",
        validator=check_argument,
        help="The id, or its beginning, of a series or of any job of it.",
    ),
]


@app.command(name="list")
def list_series(*, limit: LimitOption = 50, session: ZonedSession = LOCALLY) -> None:
    """List series: the schedule in words, the next run and the last result.

    Try:

        rota series list
        rota series list --tenant guild-7 --json
    """
    listed = session.collect("series", limit=limit)
    session.print_items(listed, series_row, noun="series")


@app.command(name="show")
def show(series_id: SeriesArgument, /, *, session: ZonedSession = LOCALLY) -> None:
    """Show a series: its rule in words, its next occurrences and its last runs.

    Try:

        rota series show 01890a5d-ac96-774b-bcce-b302099a8057
    """
    series_id = session.find_job(series_id)
    detail = session.get("series", series_id)
    if session.is_done(detail):
        return
    viewer = session.viewer
    series, runs = detail["series"], detail["runs"]
    print_facts(session.terminal.out, ("Series", escape(series["id"])), _list_facts(series, viewer))
    session.terminal.print_text()
    print_upcoming(session.terminal, series)
    if runs:
        session.terminal.print_text()
        print_table(session.terminal.out, [run_row(it, viewer) for it in runs])


@app.command(name="create")
def create(
    name: Annotated[str, value("NAME", "What people call it.")],
    /,
    *,
    rule: Rule = Rule(),
    wanted: NewJob = NewJob(),
    session: TenantSession = HERE,
) -> None:
    """Create a series: a recurring job.

    Exactly one of --cron, --rrule and --every says when, on the clock of
    --zone. Try:

        rota series create digest --cron "0 9 * * mon-fri" --zone Europe/London
        rota series create sync --every 15m --payload '{"table": "orders"}'
        rota series create standup --rrule "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO"
    """
    body = wanted.to_body(name) | {"recurrence": read_rule(rule)}
    job, is_new = session.create_job(body)
    viewer = Viewer(session.viewer.now, choose_zone(rule.zone).zone)
    became = "Created" if is_new else "There already is"
    text = f"{became} series {job['id']}: first at {viewer.show(job['run_at'])}."
    session.print_done(job, text)


@app.command(name="preview")
def preview(
    *,
    rule: Rule = Rule(),
    count: Annotated[
        int,
        Parameter(
            name=["--count", "-n"],
            metavar="NUMBER",
            validator=bounds(least=1, most=100),
            help="How many occurrences.",
        ),
    ] = 5,
    session: TenantSession = HERE,
) -> None:
    """Show when a series would run, and how clock changes affect it.

    Try:

        rota series preview --cron "30 1 * * *" --zone Europe/London -n 10
    """
    order = {"recurrence": read_rule(rule), "count": count}
    shown = session.post("series", "preview", body=order, makes=True)
    if session.is_done(shown):
        return
    session.terminal.print_text(escape(shown["description"]), "bold")
    print_upcoming(session.terminal, shown)
    if shown["is_complete"]:
        session.terminal.print_text("And no more after that.", "dim")


@app.command(name="pause")
def pause(
    series_id: SeriesArgument, /, *, why: WhyOption = None, session: TenantSession = HERE
) -> None:
    """Pause a series until it is resumed. A running job finishes.

    Try:

        rota series pause 01890a5d-ac96-774b-bcce-b302099a8057 --why "no data"
    """
    _act(session, series_id, ("pause", "Paused"), why)


@app.command(name="resume")
def resume(
    series_id: SeriesArgument,
    /,
    *,
    catch_up: Annotated[bool, flag("Also run the first missed occurrence now.")] = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Resume a paused series with its next occurrence.

    Try:

        rota series resume 01890a5d-ac96-774b-bcce-b302099a8057 --catch-up
    """
    _act(session, series_id, ("resume", "Resumed"), why, {"catch_up": catch_up})


@app.command(name="run-now")
def run_now(
    series_id: SeriesArgument, /, *, why: WhyOption = None, session: TenantSession = HERE
) -> None:
    """Run the next occurrence of a series now; it continues as scheduled.

    Try:

        rota series run-now 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _act(session, series_id, ("run-now", "Due now"), why)


@app.command(name="edit")
def edit(
    series_id: SeriesArgument,
    /,
    *,
    rule: Rule = Rule(),
    queue: Annotated[str | None, value("NAME", "Another queue.")] = None,
    payload: NewPayloadOption = None,
    priority: Annotated[int | None, value("NUMBER", "1 to 10, 10 first.")] = None,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Change a series: when it runs, its queue, priority or payload.

    A new rule replaces the old one with all its options. A running job
    finishes. Try:

        rota series edit 01890a5d-ac96-774b-bcce-b302099a8057 --priority 7
    """
    series_id = session.find_job(series_id)
    body: dict[str, Any] = {"dry_run": dry_run, "why": why}
    if rule != Rule():
        body["recurrence"] = read_rule(rule)
    new_payload = None if payload is None else read_json(payload, "--payload")
    body |= given(queue=queue, priority=priority, payload=new_payload)
    plan = session.ask("PATCH", "series", series_id, body=body)
    if session.is_done(plan):
        return
    _print_changes(session.terminal, plan)


@app.command(name="backfill")
def backfill(
    series_id: SeriesArgument,
    /,
    *,
    since: Annotated[str, value("INSTANT", "The first occurrence to run.")],
    until: Annotated[str | None, value("INSTANT", "The last one. Default: now.")] = None,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    session: ZonedSession = LOCALLY,
) -> None:
    """Run a series for past occurrences that have no successful run.

    Each gets a job of its own. Repeating the command creates nothing twice.
    Instants without an offset are wall time in --zone. Try:

        rota series backfill 01890a5d --since 2027-03-01T00:00Z --dry-run
    """
    series_id = session.find_job(series_id)
    viewer = session.viewer
    order = {
        "since": read_moment(since, viewer.zone, "--since"),
        "until": read_moment(until, viewer.zone, "--until") or format_instant(viewer.now),
        "dry_run": dry_run,
        "why": why,
    }
    made = session.post("series", series_id, "backfill", body=order)
    if session.is_done(made):
        return
    rows: list[Row] = [({"Occurrence": viewer.show(at)}, "") for at in made["occurrences"]]
    print_table(session.terminal.out, rows)
    did = "Created" if made["is_applied"] else "Would create"
    left_out = made["left_out_count"]
    note = f"; {left_out} left out, which have a job" if left_out else ""
    session.terminal.print_text(f"{did} {len(rows)} jobs{note}.", "bold")


@app.command(name="calendar")
def show_calendar(
    *,
    days: Annotated[int, number(1, 31, "How many days to look ahead.")] = 1,
    session: ZonedSession = LOCALLY,
) -> None:
    """List what will run in the coming days, and what collides.

    Try:

        rota series calendar --days 7
    """
    found = session.get("series", "calendar", query={"days": days})
    if session.is_done(found):
        return
    viewer = session.viewer
    _print_calendar(session.terminal, found, viewer)


@app.command(name="cancel")
def cancel(
    series_id: SeriesArgument, /, *, why: WhyOption = None, session: TenantSession = HERE
) -> None:
    """End a series for good.

    Try:

        rota series cancel 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _act(session, series_id, ("cancel", "Ended"), why)


def _print_changes(terminal: Terminal, plan: dict[str, Any]) -> None:
    rows: list[Row] = [
        ({name: _show_value(it[name.lower()]) for name in ("Field", "Before", "After")}, "")
        for it in plan["changes"]
    ]
    if not rows:
        terminal.print_text("Nothing would change." if not plan["is_applied"] else "No change.")
        return
    print_table(terminal.out, rows)
    terminal.print_text()
    shown = {"occurrences": plan["occurrences_after"], "skipped": plan["skipped"]}
    print_upcoming(terminal, shown)
    for note in plan["notes"]:
        terminal.print_text(escape(note), "dim")
    terminal.print_text("Changed." if plan["is_applied"] else "Nothing is changed yet.", "bold")


def _show_value(value: Any) -> str:
    return show_text(value if isinstance(value, str | None) else json.dumps(value))


def _print_calendar(terminal: Terminal, found: dict[str, Any], viewer: Viewer) -> None:
    rows: list[Row] = []
    for it in found["entries"]:
        name = show_text(it["name"], 60)
        rows.append(
            ({"Due": viewer.show(it["at"]), "What": escape(it["source"]), "Name": name}, "")
        )
    print_table(terminal.out, rows)
    for it in found["frequent"]:
        first = viewer.show(it["first_at"])
        terminal.print_text(f"{show_text(it['name'], 60)}: {it['count']} times from {first}", "dim")
    for it in found["collisions"]:
        names = ", ".join(show_text(name, 40) for name in it["names"])
        times = "once" if it["count"] == 1 else f"{it['count']} times"
        terminal.print_text(f"together {times}, first {viewer.show(it['at'])}: {names}", "yellow")
    groups = len(found["collisions"])
    terminal.print_text(f"{len(rows)} runs; {groups} groups of schedules collide", "bold")


def _act(
    session: TenantSession,
    series_id: str,
    action: tuple[str, str],
    why: str | None,
    query: dict[str, bool] | None = None,
) -> None:
    verb, word = action
    found = session.find_job(series_id)
    detail = session.post("series", found, verb, body={"why": why}, query=query)
    session.print_done(detail, f"{word}: {detail['series']['name']}.")
