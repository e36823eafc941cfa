"""``rota gates``: quiet hours and maintenance, which hold jobs back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.options import WhyOption, flag, given, read_moment, several, value
from rota.cli.output import Viewer, show_text
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.errors import InvalidInputError, invalid

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
    scopes = {"tenant": "this tenant", "everything": "all tenants"}
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
def show(*, session: ZonedSession = LOCALLY) -> None:
    """Show what holds jobs back, now or later.

    Try:

        rota gates show --tenant guild-7
    """
    gates = session.get("gates")
    if session.is_done(gates):
        return
    viewer = session.viewer
    session.terminal.print_text(describe_hours(gates["quiet_hours"], viewer))
    for window in gates["maintenance"]:
        style = "yellow" if window["is_closed"] else ""
        session.terminal.print_text(describe_maintenance(window, viewer), style)
    if not gates["maintenance"]:
        session.terminal.print_text("No maintenance.")
    for each in gates["kinds"]:
        session.terminal.print_text(describe_kind(each))


def describe_kind(kind: dict[str, Any]) -> str:
    verb = "notifies" if kind["notifies"] else "does not notify"
    held = "hold back" if kind["notifies"] else "do not hold back"
    return f"Kind {show_text(kind['kind'])} {verb} people: quiet hours {held} its jobs."


@app.command(name="quiet-hours")
def quiet_hours(
    *,
    start: Annotated[str | None, value("TIME", "When they start, such as 22:00.")] = None,
    end: Annotated[str | None, value("TIME", "When they end, such as 07:00.")] = None,
    day: Annotated[
        list[str] | None, several("--day", "DAY", "On this weekday only, such as mon. Repeatable.")
    ] = None,
    off: OffOption = False,
    why: WhyOption = None,
    session: ZonedSession = LOCALLY,
) -> None:
    """Set the hours without notifications, or clear them with --off.

    Jobs of kinds that notify people wait until the hours are over. Try:

        rota gates quiet-hours --start 22:00 --end 07:00 --zone Europe/London
        rota gates quiet-hours --off
    """
    if off:
        session.ask("DELETE", "gates", "quiet-hours")
        session.print_done({"quiet_hours": None}, "No quiet hours.")
        return
    if start is None or end is None:
        raise invalid("--start", "and --end are needed, or --off")
    body: dict[str, Any] = {"start": start, "end": end, "zone": session.local.name, "why": why}
    if day:
        body["weekdays"] = day
    hours = session.ask("PUT", "gates", "quiet-hours", body=body, makes=True)
    viewer = session.viewer
    session.print_done(hours, describe_hours(hours, viewer))


@app.command(name="kind")
def kind(
    kind: Annotated[str, value("KIND", "Its name, such as receipt.send.")],
    /,
    *,
    notifies: Annotated[
        bool | None,
        Parameter(
            negative="--no-notifies", show_default=False, help="Whether quiet hours hold it back."
        ),
    ] = None,
    off: Annotated[bool, flag("Clear it: the app or the worker decides.")] = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Set whether jobs of a kind notify people, for all tenants.

    Quiet hours hold back what notifies people. A job with its own setting is
    not affected. Try:

        rota gates kind receipt.send --notifies
        rota gates kind receipt.send --no-notifies --why "goes to a printer"
        rota gates kind receipt.send --off
    """
    if off == (notifies is not None):
        message = "give one of --notifies, --no-notifies and --off"
        raise InvalidInputError(message, {"field": "--notifies"})
    if off:
        session.ask("DELETE", "kinds", "notifies", query={"kind": kind})
        text = f"Kind {show_text(kind)}: as the app or the worker says."
        session.print_done({"kind": kind, "set_notifies": None}, text)
        return
    body = {"kind": kind, "notifies": notifies, "why": why}
    found = session.ask("PUT", "kinds", "notifies", body=body, makes=True)
    session.print_done(found, describe_kind(found))


@Parameter(name="*")
@dataclass(frozen=True)
class Window:
    """Since when, until when and for whom nothing runs."""

    start: Annotated[
        str | None, value("INSTANT", "When it begins. Default: now.", name="--from")
    ] = None
    until: Annotated[str | None, value("INSTANT", "When it ends. Default: when --off ends it.")] = (
        None
    )
    reason: Annotated[str | None, value("TEXT", "The reason; waiting jobs show it.")] = None
    add: Annotated[bool, flag("Add it to the planned windows instead of replacing them.")] = False
    everywhere: Annotated[bool, flag("For all tenants; with --queue in that queue only.")] = False
    queue: Annotated[str | None, value("NAME", "With --everywhere: only this queue.")] = None


@app.command(name="maintenance")
def maintenance(
    *, off: OffOption = False, window: Window = Window(), session: ZonedSession = LOCALLY
) -> None:
    """Start no jobs for a while; --off ends it.

    Running jobs finish. Due jobs wait and lose no attempt. Try:

        rota gates maintenance --reason "moving house" --until 2027-03-28T06:00
        rota gates maintenance --off
        rota gates maintenance --everywhere --queue mail --reason "mail is down"
    """
    if window.queue is not None and not window.everywhere:
        raise invalid("--queue", "needs --everywhere")
    steps = ["gates", "maintenance", *(["installation"] if window.everywhere else [])]
    if off:
        session.ask("DELETE", *steps, query={"queue": window.queue})
        session.print_done({"maintenance": []}, "Maintenance is over.")
        return
    planned = session.ask("PUT", *steps, body=_read_window(window, session), makes=True)
    viewer = session.viewer
    lines = [describe_maintenance(it, viewer) for it in planned] or ["No maintenance."]
    session.print_done({"maintenance": planned}, *lines)


def _read_window(window: Window, session: ZonedSession) -> dict[str, Any]:
    zone = session.local.zone
    body = given(
        from_at=read_moment(window.start, zone, "--from"),
        until=read_moment(window.until, zone, "--until"),
    )
    body |= {"reason": window.reason, "is_added": window.add}
    return body | ({"queue": window.queue} if window.everywhere else {})
