"""Instants and lengths of time in words that are read at a glance."""

from datetime import UTC, datetime, timedelta, tzinfo

from rota.jobs import PAUSED_UNTIL

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_SECOND = timedelta(seconds=1)
_STEPS = (
    (timedelta(days=1), "d", timedelta(hours=1), "h"),
    (timedelta(hours=1), "h", timedelta(minutes=1), "min"),
    (timedelta(minutes=1), "min", _SECOND, "s"),
)
_WHOLE_DAYS_FROM = timedelta(days=3)
_WHOLE_UNITS_FROM = 10
_FAR_FROM = timedelta(days=365 * 100)


def tell_length(length: timedelta) -> str:
    """Two units at most: "1 h 5 min", "40 s", "3 d"; below a second milliseconds."""
    if length < timedelta(0):
        return f"-{tell_length(-length)}"
    if length < _SECOND:
        return f"{length // timedelta(milliseconds=1)} ms"
    if length < timedelta(seconds=10):
        return f"{length / _SECOND:.1f} s".replace(".0 s", " s")
    for unit, name, smaller, smaller_name in _STEPS:
        if length >= unit:
            count, rest = length // unit, (length % unit) // smaller
            is_whole = rest == 0 or count >= _WHOLE_UNITS_FROM or length >= _WHOLE_DAYS_FROM
            return f"{count} {name}" if is_whole else f"{count} {name} {rest} {smaller_name}"
    return f"{length // _SECOND} s"


def tell_distance(instant: datetime, now: datetime) -> str:
    """How far off it is: "5 s ago", "in 2 h 10 min"; "when resumed" for what is paused."""
    if instant >= PAUSED_UNTIL:
        return "when resumed"
    distance = instant - now
    if abs(distance) < _SECOND:
        return "now"
    if abs(distance) > _FAR_FROM:
        return "never" if distance > timedelta(0) else "long ago"
    length = tell_length(_whole(abs(distance)))
    return f"in {length}" if distance > timedelta(0) else f"{length} ago"


def tell_instant(instant: datetime) -> str:
    """To the second, in UTC: "2026-11-16 03:30:37 UTC"."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def tell_local(instant: datetime, zone: tzinfo) -> str:
    """On the clock of a zone, with its weekday and name: "Mon 2026-11-16 04:30 CET"."""
    local = instant.astimezone(zone)
    clock = "%H:%M:%S" if local.second else "%H:%M"
    return f"{WEEKDAYS[local.weekday()]} {local:%Y-%m-%d} {local.strftime(clock)} {local:%Z}"


def machine_instant(instant: datetime) -> str:
    """For the ``datetime`` attribute of HTML's ``time``."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _whole(length: timedelta) -> timedelta:
    """A distance is told in whole seconds: fractions would only flicker."""
    return length - length % _SECOND
