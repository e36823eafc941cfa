"""``rota gates``: quiet hours and maintenance, which hold jobs back for a while."""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.operating.answers import done
from rota.cli.operating.options import WhyOption
from rota.cli.reading.instants import choose_zone, read_instant
from rota.cli.reading.options import GivenTerminal, JsonOption, ZoneOption
from rota.cli.reading.place import NOWHERE, Place, converse
from rota.cli.rendering.occurrences import format_instant
from rota.cli.rendering.service.gates import describe_hours, describe_maintenance
from rota.cli.rendering.service.moments import Viewer
from rota.errors import InvalidInputError

app = App(name="gates")

OffOption = Annotated[bool, Parameter(negative="", show_default=False, help="Clear it.")]


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


@app.command(name="quiet-hours")
def quiet_hours(
    *,
    start: Annotated[str | None, Parameter(metavar="TIME", help="Such as 22:00.")] = None,
    end: Annotated[str | None, Parameter(metavar="TIME", help="Such as 07:00.")] = None,
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
    """Set the hours in which nobody is notified, or clear them with --off.

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


@Parameter(name="*")
@dataclass(frozen=True)
class Window:
    """Since when, until when and for whom nothing runs."""

    start: Annotated[
        str | None,
        Parameter(name="--from", metavar="INSTANT", help="When it begins. Default: now."),
    ] = None
    until: Annotated[
        str | None, Parameter(metavar="INSTANT", help="When it ends. Default: with --off.")
    ] = None
    reason: Annotated[str | None, Parameter(metavar="TEXT", help="Why, for people.")] = None
    add: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Beside what is planned already, not in its place.",
        ),
    ] = False
    everywhere: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="For all tenants; with --queue in that queue only.",
        ),
    ] = False
    queue: Annotated[
        str | None, Parameter(metavar="NAME", help="With --everywhere: this queue.")
    ] = None
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
