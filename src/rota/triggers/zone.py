"""Wall time and instants.

An instant is an aware UTC datetime; a wall time is what a clock in some zone shows, a naive
datetime. A *gap* is a stretch of wall time that never happens, a *fold* one that happens twice.
This module alone turns one into the other, and its callers name a rule for both. There is no
default: the specifications disagree.

Any tzinfo that follows PEP 495 works, such as ``zoneinfo`` and ``datetime.timezone``. Only its
public methods are used, and nothing is cached between calls.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, cast
from zoneinfo import ZoneInfo

import msgspec

from rota.clock.protocol import to_utc
from rota.errors import InvalidInputError, InvalidZoneError

Gap = Literal["skip", "shift"]
"""What happens to a wall time that DST skips: nothing, or it moves on by the gap's length."""

Fold = Literal["first", "both"]
"""Which showing of a repeated wall time counts."""

LONGEST_SHIFT = timedelta(hours=48)
"""No transition moves a clock further: offsets lie strictly between -24 and +24 hours.

It is also the step of the search for transitions. Transitions in the IANA database are at least
three days apart, so the search misses none.
"""

_SECOND = timedelta(seconds=1)
_MIDDLE_YEAR = 5000
_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
# Closer to the ends of the calendar a wall time may lie outside it.
_EARLIEST = _FIRST + LONGEST_SHIFT
_LATEST = _LAST - LONGEST_SHIFT


class Transition(msgspec.Struct, frozen=True):
    """A change of a zone's offset; ``at`` is the first instant with the new one."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        return self.after > self.before

    @property
    def is_fold(self) -> bool:
        return self.after < self.before

    @property
    def length(self) -> timedelta:
        """How much wall time is skipped or shown twice."""
        return abs(self.after - self.before)

    @property
    def wall_from(self) -> datetime:
        """The first wall time that is skipped or shown twice."""
        return self.at.replace(tzinfo=None) + min(self.before, self.after)

    @property
    def wall_to(self) -> datetime:
        """The first wall time after those that are skipped or shown twice."""
        return self.at.replace(tzinfo=None) + max(self.before, self.after)


def load_zone(name: str) -> ZoneInfo:
    """The IANA zone with that name. Raises ``InvalidZoneError`` for any other name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise InvalidZoneError(name) from error


def nearest_utc(instant: datetime, field: str = "instant") -> datetime:
    """As ``to_utc``; an instant outside the calendar of UTC becomes the nearest end of it."""
    try:
        return to_utc(instant, field)
    except OverflowError:
        return _LAST if instant.year > _MIDDLE_YEAR else _FIRST


def wall_time(instant: datetime, zone: tzinfo) -> datetime:
    """The wall time in ``zone`` at ``instant``; ``fold`` is 1 in a second showing."""
    return to_utc(instant).astimezone(zone).replace(tzinfo=None)


def instants_of(wall: datetime, zone: tzinfo, *, gap: Gap, fold: Fold) -> tuple[datetime, ...]:
    """The instants at which a clock in ``zone`` shows ``wall``, ascending: none, one or two.

    In a gap there is none; with ``gap="shift"`` it is the instant that the offset before the gap
    gives, so the wall time moves on by the gap's length. In a fold it is the first showing or
    both. ``wall.fold`` is ignored. An instant outside the calendar does not count.
    """
    if wall.tzinfo is not None:
        raise InvalidInputError(
            f"wall must be a naive datetime, got {wall.isoformat()}",
            {"field": "wall", "value": wall.isoformat()},
        )
    try:
        first, second = showings(wall, zone)
    except OverflowError:
        return ()
    if first == second:
        return (first,)
    if first > second:
        return (first,) if gap == "shift" else ()
    return (first,) if fold == "first" else (first, second)


def showings(wall: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """``wall`` as an instant by the offset before, and by the offset after, a transition near it.

    Equal: it happens once. Ascending: it is in a fold, and these are its showings. Descending: it
    is in a gap. Raises OverflowError when one of them is outside the calendar.
    """
    year, month, day, hour = wall.year, wall.month, wall.day, wall.hour
    minute, second, microsecond = wall.minute, wall.second, wall.microsecond
    before = datetime(year, month, day, hour, minute, second, microsecond, zone)
    after = datetime(year, month, day, hour, minute, second, microsecond, zone, fold=1)
    first = before.astimezone(UTC)
    if zone.utcoffset(before) == zone.utcoffset(after):
        return first, first
    return first, after.astimezone(UTC)


def transition_around(wall: datetime, zone: tzinfo) -> Transition | None:
    """The transition whose gap or fold contains ``wall``; None if ``wall`` happens exactly once."""
    first, second = showings(wall, zone)
    if first == second:
        return None
    if first < second:
        return first_transition(first, second, zone)
    return first_transition(second, first, zone)


def transitions_between(start: datetime, end: datetime, zone: tzinfo) -> Iterator[Transition]:
    """The changes of offset in ``[start, end)``, ascending, exact to the second.

    A change of only the name or the DST flag does not count. A zone that changes its offset and
    back within ``LONGEST_SHIFT`` may go unnoticed; no IANA zone does this.
    """
    low = _last_second_before(max(to_utc(start, "start"), _EARLIEST))
    last = _last_second_before(min(to_utc(end, "end"), _LATEST))
    before = _offset(low, zone)
    while low < last:
        high = min(low + LONGEST_SHIFT, last)
        if _offset(high, zone) == before:
            low = high
        else:
            transition = first_transition(low, high, zone)
            yield transition
            low, before = transition.at, transition.after


def first_transition(low: datetime, high: datetime, zone: tzinfo) -> Transition:
    """The first transition in ``(low, high]``, by bisection. The two offsets must differ."""
    before = _offset(low, zone)
    low = low.replace(microsecond=0)
    unchanged, changed = 0, (high - low) // _SECOND
    while changed - unchanged > 1:
        middle = (unchanged + changed) // 2
        if _offset(low + timedelta(0, middle), zone) == before:
            unchanged = middle
        else:
            changed = middle
    at = low + timedelta(0, changed)
    return Transition(at, before, _offset(at, zone))


def _last_second_before(instant: datetime) -> datetime:
    """The last whole second strictly before ``instant``."""
    return (instant - timedelta(microseconds=1)).replace(microsecond=0)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    # astimezone refuses a zone without an offset, so there always is one.
    return cast("timedelta", instant.astimezone(zone).utcoffset())
