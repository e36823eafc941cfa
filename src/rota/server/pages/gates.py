"""The gates page: maintenance windows, quiet hours, and the kinds that quiet hours hold back."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from rota.errors import InvalidInputError
from rota.jobs.fields import read_word
from rota.ops.holds import find_hours, list_windows, weigh_window
from rota.ops.kinds import list_known_kinds, set_notifies
from rota.policy.gate_settings import Scope, ScopedMaintenance
from rota.policy.gates import Maintenance
from rota.policy.quiet_hours import WEEKDAYS, QuietHours, QuietWindow, format_time_of_day
from rota.rail.settings import list_gates
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.statuses import CLOSED, Sign, sign_of
from rota.server.pages.visit import Form, Visit, name_zone

LENGTHS = {
    "15m": ("15 minutes", timedelta(minutes=15)),
    "1h": ("1 hour", timedelta(hours=1)),
    "4h": ("4 hours", timedelta(hours=4)),
    "1d": ("1 day", timedelta(days=1)),
    "open": ("until I end it", None),
}
"""The offered lengths of a maintenance window."""

_OPEN = Sign("open", "check", "green")
_QUIET = Sign("quiet now", "pause", "amber")
_NOTHING_SENT: Mapping[str, str] = dict.fromkeys(("reason", "start", "end", "zone", "kind"), "")


async def change_maintenance(visit: Visit, form: Form) -> Response:
    """Set or end the maintenance of the tenant."""
    rail = visit.rail
    who, reason = visit.who, form.one("reason")
    if form.one("action") == "off":
        await rail.set_maintenance(False, reason=reason, who=who)
        return go_to(visit.link("gates", done="maintenance-off"))
    try:
        _, length = form.choose("lasts", LENGTHS)
        until = None if length is None else visit.now + length
        if form.one("confirmed") != "yes":
            return await _ask_maintenance(visit, form, until)
        await rail.set_maintenance(True, until=until, reason=reason, who=who)
    except InvalidInputError as error:
        return await show_gates(visit, form, error)
    return go_to(visit.link("gates", done="maintenance-on"))


async def _ask_maintenance(visit: Visit, form: Form, until: datetime | None) -> Response:
    """Ask before all jobs of the tenant stop. Nothing has changed yet."""
    window = Maintenance(until=until, reason=form.one("reason"))
    entry = ScopedMaintenance(Scope(tenant=visit.tenant), (window,))
    hold = await weigh_window(visit.store, entry, window, visit.now, visit.tenant)
    hidden = [(name, form.one(name)) for name in ("lasts", "reason")]
    return await render_page(
        visit, "maintenance.html", hold=hold, hidden=hidden, back=visit.link("gates")
    )


async def change_quiet_hours(visit: Visit, form: Form) -> Response:
    """Set or clear the quiet hours of the tenant."""
    if form.one("action") == "off":
        await visit.rail.set_quiet_hours(who=visit.who)
        return go_to(visit.link("gates", done="quiet-off"))
    asked = [form.one(name) for name in ("start", "end", "zone")]
    try:
        await visit.rail.set_quiet_hours(*asked, who=visit.who)
    except InvalidInputError as error:
        return await show_gates(visit, form, error)
    return go_to(visit.link("gates", done="quiet-on"))


CHOICES: Mapping[str, bool | None] = {"yes": True, "no": False, "declared": None}
"""What a person chooses for a kind."""


async def change_kind(visit: Visit, form: Form) -> Response:
    """Set whether jobs of a kind notify people, for all tenants."""
    try:
        notifies, kind = form.choose("notifies", CHOICES), read_word(form.one("kind"), "kind")
        around, who, why = visit.around_of(None), visit.who, form.why
        await set_notifies(around, kind, notifies=notifies, who=who, why=why)
    except InvalidInputError as error:
        return await show_gates(visit, form, error)
    return go_to(visit.link("gates", done="kind-set"))


async def show_gates(
    visit: Visit, form: Form | None = None, error: InvalidInputError | None = None
) -> Response:
    gates = await list_gates(visit.store)
    hours = find_hours(gates, visit.tenant)
    reopens_at = None if hours is None else hours.reopens_at(visit.now)
    listed = list_windows(gates, visit.now, visit.tenant)
    windows = [(str(entry.scope), window) for entry, window in listed]
    signs = [sign_of(window, visit.now) for _, window in windows]
    return await render_page(
        visit,
        "gates.html",
        status=200 if error is None else 400,
        windows=windows,
        maintenance_sign=CLOSED if CLOSED in signs else _OPEN,
        is_own_maintenance=any(scope == f"tenant {visit.tenant}" for scope, _ in windows),
        hours=None if hours is None else _describe_hours(hours),
        quiet_zone=None if hours is None else hours.zone,
        reopens_at=reopens_at,
        quiet_sign=_OPEN if reopens_at is None else _QUIET,
        kinds=await list_known_kinds(visit.store, visit.context.served),
        lengths=[(value, label) for value, (label, _) in LENGTHS.items()],
        damages=gates.damages if visit.may_administer else (),
        sent=_read_sent(form, hours),
        problem="" if error is None else error.message,
    )


def _read_sent(form: Form | None, hours: QuietHours | None) -> Mapping[str, Any]:
    """The values of the form fields: those that were refused, or the current ones."""
    if form is not None:
        return {name: form.one(name) for name in _NOTHING_SENT}
    if hours is None:
        return _NOTHING_SENT
    start, end = format_time_of_day(hours.start), format_time_of_day(hours.end)
    return {**_NOTHING_SENT, "start": start, "end": end, "zone": name_zone(hours.zone)}


def _describe_hours(hours: QuietHours) -> list[tuple[str, str]]:
    rest_days = ", ".join(WEEKDAYS[day] for day in sorted(hours.rest_days))
    holidays = ", ".join(day.isoformat() for day in sorted(hours.holidays))
    facts = [("Quiet", text) for text in _show_windows(hours)]
    facts += [("All day on", rest_days), ("Holidays", holidays), ("Zone", name_zone(hours.zone))]
    return [(name, text) for name, text in facts if text]


def _show_windows(hours: QuietHours) -> list[str]:
    if hours.windows or hours.rest_days or hours.holidays:
        return [_show_window(each) for each in hours.windows]
    return ["never: the start equals the end"]


def _show_window(window: QuietWindow) -> str:
    shown = f"{format_time_of_day(window.start)} to {format_time_of_day(window.end)}"
    days = [WEEKDAYS[day] for day in sorted(window.weekdays)]
    return f"{shown}, every day" if len(days) == len(WEEKDAYS) else f"{shown} on {', '.join(days)}"
