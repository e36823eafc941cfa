"""What holds jobs back, in sentences."""

from typing import Any

from rota.cli.rendering.service.moments import Viewer, show_text

DAYS_OF_A_WEEK = 7


def describe_hours(hours: dict[str, Any] | None, viewer: Viewer) -> str:
    if hours is None:
        return "No quiet hours."
    days = hours["weekdays"]
    when = "every day" if len(days) == DAYS_OF_A_WEEK else f"on {', '.join(days)}"
    text = f"Quiet from {hours['start']} to {hours['end']} {hours['zone']} {when}"
    if hours["rest_days"]:
        text += f", all day on {', '.join(hours['rest_days'])}"
    if hours["is_quiet"]:
        text += f"; quiet now, until {viewer.show(hours['reopens_at'])}"
    return f"{text}."


def describe_maintenance(window: dict[str, Any], viewer: Viewer) -> str:
    scopes = {"tenant": "this tenant", "everything": "everybody"}
    whom = scopes.get(window["scope"]) or f"the queue {show_text(window['queue'])}"
    begins = "now" if window["is_closed"] else f"from {viewer.show(window['from_at'])}"
    ends = "until further notice"
    if window["until"] is not None:
        ends = f"until {viewer.show(window['until'])}"
    reason = f": {show_text(window['reason'])}" if window["reason"] else ""
    return f"Maintenance of {whom}, {begins}, {ends}{reason}."
