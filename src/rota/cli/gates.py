"""``rota gates``: quiet hours and maintenance, which hold jobs back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.arguments import choose_zone, read_instant
from rota.cli.connection import converse
from rota.cli.occurrences import format_instant
from rota.cli.options import GivenTerminal, JsonOption, WhyOption, ZoneOption, flag, value
from rota.cli.output import Viewer, done, show_text
from rota.cli.place import NOWHERE, Place
from rota.errors import InvalidInputError

DAYS_OF_A_WEEK = 7


def describe_hours(hours: dict[str, Any] | None, viewer: Viewer) -> str:
    if hours is None:
        return "No quiet hours."
    times = list(_list_times(hours))
    if not times:
        return "No quiet hours: they start and end at the same time."
    text = f"Quiet {', '.join(times)}"
    if hours["is_quiet"]:
        text += f"; quiet now, until {viewer.show(hours['reopens_at'])}"
    return f"{text}."


def _list_times(hours: dict[str, Any]) -> Iterator[str]:
    """The daily window, unless it is empty, and the whole days."""
    days, zone = hours["weekdays"], hours["zone"]
    if hours["start"] != hours["end"]:
        when = "every day" if len(days) == DAYS_OF_A_WEEK else f"on {', '.join(days)}"
        yield f"from {hours['start']} to {hours['end']} {zone} {when}"
        zone = ""
    whole_days = [*hours["rest_days"], *hours["holidays"]]
    if whole_days:
        yield " ".join(filter(None, ("all day on", ", ".join(whole_days), zone)))


def describe_maintenance(window: dict[str, Any], viewer: Viewer) -> str:
    scopes = {"tenant": "this tenant", "everything": "everybody"}
    whom = scopes.get(window["scope"]) or f"the queue {show_text(window['queue'])}"
    begins = "now" if window["is_closed"] else f"from {viewer.show(window['from_at'])}"
    ends = "until further notice"
    if window["until"] is not None:
        ends = f"until {viewer.show(window['until'])}"
    reason = f": {show_text(window['reason'])}" if window["reason"] else ""
    return f"Maintenance of {whom}, {begins}, {ends}{reason}."


app = App(name="gates")

OffOption = Annotated[bool, flag("Clear it.")]


@app.command(name="show")
def show(
    *,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Show what holds jobs back, now or later.

    Try:

        rota gates show --tenant guild-7
    """
    gates = converse(terminal, place, lambda it: it.get("/gates"))
    if as_json:
        terminal.print_document(gates)
        return
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    terminal.print_text(describe_hours(gates["quiet_hours"], viewer))
    for window in gates["maintenance"]:
        style = "yellow" if window["is_closed"] else ""
        terminal.print_text(describe_maintenance(window, viewer), style)
    if not gates["maintenance"]:
        terminal.print_text("No maintenance.")
    for each in gates["kinds"]:
        terminal.print_text(describe_kind(each))


def describe_kind(kind: dict[str, Any]) -> str:
    verb = "notifies" if kind["notifies"] else "does not notify"
    held = "hold back" if kind["notifies"] else "do not hold back"
    return f"Kind {show_text(kind['kind'])} {verb} people: quiet hours {held} its jobs."


@app.command(name="quiet-hours")
def quiet_hours(
    *,
    start: Annotated[str | None, value("TIME", "Such as 22:00.")] = None,
    end: Annotated[str | None, value("TIME", "Such as 07:00.")] = None,
    zone: ZoneOption = None,
    day: Annotated[
        list[str] | None,
        Parameter(
            metavar="DAY",
            negative="",
            show_default=False,
            help="On this weekday only: mon; may be repeated.",
        ),
    ] = None,
    off: OffOption = False,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Set the hours without notifications, or clear them with --off.

    Jobs of kinds that notify people wait until the hours are over. Try:

        rota gates quiet-hours --start 22:00 --end 07:00 --zone Europe/London
        rota gates quiet-hours --off
    """
    if off:
        converse(terminal, place, lambda it: it.ask("DELETE", "/gates/quiet-hours"))
        done(terminal, {"quiet_hours": None}, "No quiet hours.", as_json=as_json)
        return
    if start is None or end is None:
        raise InvalidInputError("--start and --end are needed, or --off", {"field": "--start"})
    body: dict[str, Any] = {"start": start, "end": end, "zone": choose_zone(zone).name, "why": why}
    if day:
        body["weekdays"] = day
    hours = converse(
        terminal, place, lambda it: it.ask("PUT", "/gates/quiet-hours", body=body), makes=True
    )
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    done(terminal, hours, describe_hours(hours, viewer), as_json=as_json)


@app.command(name="kind")
def kind(
    kind: Annotated[str, value("KIND", "Its name, such as receipt.send.")],
    /,
    *,
    notifies: Annotated[
        bool | None,
        Parameter(
            negative="--no-notifies",
            show_default=False,
            help="Quiet hours hold it back, or do not.",
        ),
    ] = None,
    off: Annotated[bool, flag("As the app or the worker says.")] = False,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Set whether jobs of a kind notify people, for all tenants.

    Quiet hours hold back what notifies people. A job that says so itself is not affected. Try:

        rota gates kind receipt.send --notifies
        rota gates kind receipt.send --no-notifies --why "goes to a printer"
        rota gates kind receipt.send --off
    """
    if off == (notifies is not None):
        reason = "give one of --notifies, --no-notifies and --off"
        raise InvalidInputError(reason, {"field": "--notifies"})
    path = "/kinds/notifies"
    if off:
        converse(terminal, place, lambda it: it.ask("DELETE", path, query={"kind": kind}))
        text = f"Kind {show_text(kind)}: as the app or the worker says."
        done(terminal, {"kind": kind, "set_notifies": None}, text, as_json=as_json)
        return
    body = {"kind": kind, "notifies": notifies, "why": why}
    found = converse(terminal, place, lambda it: it.ask("PUT", path, body=body), makes=True)
    done(terminal, found, describe_kind(found), as_json=as_json)


@Parameter(name="*")
@dataclass(frozen=True)
class Window:
    """Since when, until when and for whom nothing runs."""

    start: Annotated[
        str | None,
        Parameter(name="--from", metavar="INSTANT", help="When it begins. Default: now."),
    ] = None
    until: Annotated[str | None, value("INSTANT", "When it ends. Default: with --off.")] = None
    reason: Annotated[str | None, value("TEXT", "Why, for people.")] = None
    add: Annotated[bool, flag("Beside what is planned already, not in its place.")] = False
    everywhere: Annotated[bool, flag("For all tenants; with --queue in that queue only.")] = False
    queue: Annotated[str | None, value("NAME", "With --everywhere: this queue.")] = None
    zone: ZoneOption = None


FROM_NOW_ON = Window()


@app.command(name="maintenance")
def maintenance(
    *,
    off: OffOption = False,
    window: Window = FROM_NOW_ON,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Let nothing run for a while, or go on again with --off.

    What runs is finished; what is due waits and loses nothing. Try:

        rota gates maintenance --reason "moving house" --until 2027-03-28T06:00
        rota gates maintenance --off
        rota gates maintenance --everywhere --queue mail --reason "mail is down"
    """
    if window.queue is not None and not window.everywhere:
        raise InvalidInputError("--queue needs --everywhere", {"field": "--queue"})
    path = "/gates/maintenance/installation" if window.everywhere else "/gates/maintenance"
    if off:
        query = {"queue": window.queue}
        converse(terminal, place, lambda it: it.ask("DELETE", path, query=query))
        done(terminal, {"maintenance": []}, "Maintenance is over.", as_json=as_json)
        return
    body = _read_window(window)
    planned = converse(terminal, place, lambda it: it.ask("PUT", path, body=body), makes=True)
    viewer = Viewer(terminal.clock.now(), choose_zone(window.zone).zone)
    lines = [describe_maintenance(it, viewer) for it in planned] or ["No maintenance."]
    done(terminal, {"maintenance": planned}, *lines, as_json=as_json)


def _read_window(window: Window) -> dict[str, Any]:
    zone = choose_zone(window.zone).zone
    named = (("from_at", window.start, "--from"), ("until", window.until, "--until"))
    body: dict[str, Any] = {
        field: format_instant(read_instant(text, zone, option))
        for field, text, option in named
        if text is not None
    }
    body |= {"reason": window.reason, "is_added": window.add}
    return body | ({"queue": window.queue} if window.everywhere else {})
