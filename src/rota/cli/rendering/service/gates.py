"""What holds jobs back, in sentences."""

from collections.abc import Iterator
from typing import Any

from rota.cli.rendering.service.moments import Viewer, show_text

DAYS_OF_A_WEEK = 7


def describe_hours(hours: dict[str, Any] | None, viewer: Viewer) -> str:
    if hours is None:
        return "No quiet hours."
    times = list(_list_times(hours))
    if not times:
        return "No quiet hours: those that end when they begin are none."
    text = f"Quiet {', '.join(times)}"
    if hours["is_quiet"]:
        text += f"; quiet now, until {viewer.show(hours['reopens_at'])}"
    return f"{text}."


def _list_times(hours: dict[str, Any]) -> Iterator[str]:
    """When it is quiet; with equal ends there is no window, only whole days there may be."""
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
