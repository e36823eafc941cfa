"""Where a rule stands: its zone, its start and its rules for gaps and folds.

All searching is done in whole seconds since the day before the calendar's first, so that a number
divided by the length of a day is the ordinal of ``datetime.date``. The same scale serves wall time
and UTC; the difference between the two is the offset.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property

from rota.triggers import zone as zones
from rota.triggers.zone import Fold, Gap

DAY = 86_400
LONGEST_SHIFT = int(zones.LONGEST_SHIFT.total_seconds())

FIRST_YEAR = 2
LAST_YEAR = 9998
"""The years a rule may use: one is left at each end, so that no zone leads out of the calendar."""

_WALL_ORIGIN = datetime.min  # noqa: DTZ901 - wall times are naive
_UTC_ORIGIN = _WALL_ORIGIN.replace(tzinfo=UTC)


def wall_seconds(wall: datetime) -> int:
    """A naive wall time as a number; its fraction of a second is dropped."""
    since = wall - _WALL_ORIGIN
    return (since.days + 1) * DAY + since.seconds


def instant_seconds(instant: datetime) -> int:
    """An aware instant as a number; its fraction of a second is dropped."""
    since = instant - _UTC_ORIGIN
    return (since.days + 1) * DAY + since.seconds


def as_wall(seconds: int) -> datetime:
    return _WALL_ORIGIN + timedelta(seconds=seconds - DAY)


def as_instant(seconds: int) -> datetime:
    return _UTC_ORIGIN + timedelta(seconds=seconds - DAY)


CALENDAR_END = instant_seconds(datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC))
"""The first second that no rule reaches."""


@dataclass(frozen=True)
class Frame:
    """``start_wall`` is DTSTART on the clock of the zone, ``start_at`` the same as an instant."""

    zone: tzinfo
    start_wall: int
    start_at: int
    gap: Gap
    fold: Fold

    @cached_property
    def _origin(self) -> datetime:
        """A wall time of the zone to count from: to add is cheaper than to replace a zone."""
        return _WALL_ORIGIN.replace(tzinfo=self.zone)

    @property
    def starts_in_gap(self) -> bool:
        first, second = self.showings(self.start_wall)
        return first > second

    def offset_at(self, at: int) -> int:
        """How far the wall time is ahead of UTC."""
        return _whole_seconds(as_instant(at).astimezone(self.zone).utcoffset())

    def calm_offset(self, at: int) -> int | None:
        """The offset, where no transition is so near that it could reorder wall times."""
        return _calm_offset(as_instant(at).astimezone(self.zone))

    def calm_wall_offset(self, wall: int) -> int | None:
        """The same for a wall time, which then happens exactly once."""
        return _calm_offset(self._origin + timedelta(seconds=wall - DAY))

    def stretch_at(self, at: int) -> tuple[int, int]:
        """The offset, and an instant up to which it certainly stays the same."""
        offset, end = self.offset_at(at), at + LONGEST_SHIFT
        if self.offset_at(end) != offset:
            end = next(at for at, _, _ in self.transitions(at + 1, end + 1))
        return offset, end

    def showings(self, wall: int) -> tuple[int, int]:
        """``wall`` by the offset before and after a transition near it: equal where it is calm."""
        shown = self._origin + timedelta(seconds=wall - DAY)
        first, second = shown.utcoffset(), shown.replace(fold=1).utcoffset()
        return wall - _whole_seconds(first), wall - _whole_seconds(second)

    def last_second_of(self, day: int) -> int:
        """The last second before the clock of the zone first shows a later day."""
        first, second = self.showings((day + 1) * DAY)
        if first > second:
            first = next(at for at, _, _ in self.transitions(second, first + 1))
        return first - 1

    def transitions(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Each change of offset in ``[start, end)``: when, and the offset before and after."""
        for change in zones.transitions_between(as_instant(start), as_instant(end), self.zone):
            at = instant_seconds(change.at)
            yield at, _whole_seconds(change.before), _whole_seconds(change.after)


def _calm_offset(shown: datetime) -> int | None:
    offset = shown.utcoffset()
    before, after = shown - zones.LONGEST_SHIFT, shown + zones.LONGEST_SHIFT
    return _whole_seconds(offset) if before.utcoffset() == offset == after.utcoffset() else None


def _whole_seconds(offset: timedelta | None) -> int:
    return offset.days * DAY + offset.seconds if offset else 0
