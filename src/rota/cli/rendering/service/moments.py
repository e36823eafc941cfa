"""Instants of the service's documents, for people: in their zone, and how far away."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from rota.cli.rendering.durations import format_duration
from rota.escape import escape

NOTHING = "-"


class Viewer(NamedTuple):
    """Who looks: when, and with a clock in which zone."""

    now: datetime
    zone: ZoneInfo

    def show(self, instant: str | None) -> str:
        """The instant on the viewer's wall, and which that is: ``Fri 2027-03-26 12:00:30 GMT``."""
        if instant is None:
            return NOTHING
        at = read_utc(instant)
        if at.year >= 9999:
            return "paused"
        return f"{at.astimezone(self.zone):%a %Y-%m-%d %H:%M:%S %Z}"

    def tell(self, instant: str | None) -> str:
        """How far away it is: ``in 5m`` or ``2h ago``."""
        if instant is None:
            return NOTHING
        at = read_utc(instant)
        if at.year >= 9999:
            return "paused"
        if at > self.now:
            return f"in {format_duration(at - self.now)}"
        return f"{format_duration(self.now - at)} ago"


def read_utc(instant: str) -> datetime:
    return datetime.fromisoformat(instant).astimezone(UTC)


def format_seconds(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


def show_text(value: Any, longest: int = 200) -> str:
    """A text of a document, safe to show and cut if it is long."""
    if value is None:
        return NOTHING
    text = str(value)
    return escape(text if len(text) <= longest else f"{text[:longest]}…")
