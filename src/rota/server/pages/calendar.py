"""The calendar: what will run in the coming day or week, and what collides."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from starlette.responses import Response

from rota.ops.calendar import (
    Calendar,
    CalendarEntry,
    find_full_minutes,
    make_calendar,
    to_minute,
)
from rota.server.pages.formats import WEEKDAYS
from rota.server.pages.responses import stream_page
from rota.server.pages.series import choose_zone
from rota.server.pages.visit import Visit

VIEWS = {"day": 1, "week": 7}
MOST_SHOWN = 300
_LEVELS = (1, 3, 8)
"""The numbers of runs in an hour at which a square becomes darker."""


class Square(NamedTuple):
    """An hour of the week view: how many runs, how dark, and what happens in words."""

    run_count: int
    level: int
    title: str
    is_full: bool = False


async def show_calendar(visit: Visit) -> Response:
    view = visit.ask("view", "day")
    view = view if view in VIEWS else "day"
    there, zone_problem = choose_zone(visit)
    known = {"view": view, "there": there, "zone_problem": zone_problem}
    return await stream_page(visit, "calendar.html", lambda: _read(visit, view, there), **known)


async def _read(visit: Visit, view: str, there: tzinfo) -> dict[str, Any]:
    context = visit.around
    found = await visit.cached(
        f"calendar {view} {visit.may_administer}",
        lambda: make_calendar(
            context, VIEWS[view], has_tasks=visit.may_administer, zone=visit.zone
        ),
    )
    full = set(find_full_minutes(found.entries))
    return {
        "calendar": found,
        "hours": _list_hours(found.entries[:MOST_SHOWN], full, there) if view == "day" else {},
        "days": _draw_week(found, full, there) if view == "week" else [],
        "hour_labels": [f"{hour:02}" for hour in range(24)],
        "is_cut": found.is_cut or (view == "day" and len(found.entries) > MOST_SHOWN),
    }


def _list_hours(
    entries: Iterable[CalendarEntry], full: set[datetime], zone: tzinfo
) -> dict[str, list[tuple[CalendarEntry, str, bool]]]:
    """The runs of each hour that has any: wall time, and whether its minute is full.

    An hour that clocks repeat is shown twice.
    """
    hours: dict[str, list[tuple[CalendarEntry, str, bool]]] = {}
    for entry in entries:
        local = entry.at.astimezone(zone)
        label = f"{WEEKDAYS[local.weekday()]} {local:%H}:00 {local:%Z}"
        clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
        hours.setdefault(label, []).append((entry, clock, to_minute(entry.at) in full))
    return hours


def _draw_week(
    calendar: Calendar, full: set[datetime], zone: tzinfo
) -> list[tuple[str, list[Square]]]:
    """The days, and the 24 hours of each."""
    found: defaultdict[tuple[date, int], list[CalendarEntry]] = defaultdict(list)
    for entry in calendar.entries:
        local = entry.at.astimezone(zone)
        found[local.date(), local.hour].append(entry)
    first, last = (at.astimezone(zone).date() for at in (calendar.since, calendar.until))
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [
        (
            f"{WEEKDAYS[day.weekday()]} {day.day}",
            [_draw_square(day, hour, found[day, hour], full) for hour in range(24)],
        )
        for day in days
    ]


def _draw_square(day: date, hour: int, entries: list[CalendarEntry], full: set[datetime]) -> Square:
    if not entries:
        return Square(0, 0, "")
    names = sorted({entry.name for entry in entries})
    shown = ", ".join(names[:5]) + ("…" if len(names) > 5 else "")
    level = sum(len(entries) >= each for each in _LEVELS)
    is_full = any(to_minute(entry.at) in full for entry in entries)
    return Square(len(entries), level, f"{day} {hour:02}:00: {shown}", is_full)
