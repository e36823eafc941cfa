"""APScheduler's way to the next fire, which matters where clocks change.

It goes through the fields from the year to the second. A field that fits is kept, one that is too
low is set, and one that has passed moves a larger field on. That move is computed on the wall clock
and made in real time, so a change of the clocks on the way can make it miss a fire.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from rota.cli.import_rule import DAY, FieldRule, Numbers, find_changing_days, find_midnight

_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_FIELDS = ("year", "month", "day", "week", "weekday", "hour", "minute", "second")
_SET = ("year", "month", "day", "hour", "minute", "second")
_LOWEST = {"year": 1970, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
_HIGHEST = {"year": 9999, "month": 12, "hour": 23, "minute": 59, "second": 59}


@dataclass(frozen=True)
class SearchedRule(FieldRule):
    """A rule whose fires are those that APScheduler finds, one after the other."""

    def fires(self, begin: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        changing = find_changing_days(begin, end, zone)
        last: datetime | None = begin - _MICROSECOND
        while last is not None and last < end:
            day = last.astimezone(zone).date()
            found = [] if day in changing else self._list_rest(day, last, zone)
            if not found:
                following = self._search(last, end, zone)
                found = [] if following is None else [following]
            yield from (at for at in found if at < end)
            last = found[-1] if found else None

    def _list_rest(self, day: date, last: datetime, zone: tzinfo) -> list[datetime]:
        """The fires of a day after the last one; no clock change is near."""
        if not self.matches(day):
            return []
        midnight = find_midnight(day, zone)
        return [midnight + since for since in self.clock_times if midnight + since > last]

    def _search(self, last: datetime, end: datetime, zone: tzinfo) -> datetime | None:
        """The next fire, or an instant after ``end``; None if the calendar ends."""
        at = _ceil(last + _MICROSECOND).astimezone(zone)
        index = 0
        while 0 <= index < len(_FIELDS) and at.astimezone(UTC) < end:
            name = _FIELDS[index]
            current, wanted = _value(name, at), self._next_value(name, at)
            if wanted is not None and wanted <= current:
                index += 1
            elif wanted is not None and name in _SET:
                at = _reset(at, name, wanted).replace(tzinfo=zone, fold=at.fold)
                index += 1
            else:
                at, index = _move_on(at, index if wanted is not None else index - 1)
        return None if index < 0 else at.astimezone(UTC)

    def _next_value(self, name: str, at: datetime) -> int | None:
        """The first value of a field that fits, from the one at hand on."""
        if name == "year":
            return at.year
        if name == "day":
            days = range(at.day, _highest("day", at) + 1)
            return next((day for day in days if self.matches_day(at.date().replace(day=day))), None)
        chosen = self._numbers(name)
        return min((number for number in chosen if number >= _value(name, at)), default=None)

    def _numbers(self, name: str) -> Numbers:
        if name == "week":
            return frozenset(range(1, 54)) if self.weeks is None else self.weeks
        found: Numbers = getattr(self, f"{name}s")
        return found


def _value(name: str, at: datetime) -> int:
    if name == "week":
        return at.isocalendar().week
    value: int = at.weekday() if name == "weekday" else getattr(at, name)
    return value


def _highest(name: str, at: datetime) -> int:
    if name != "day":
        return _HIGHEST[name]
    return ((at.replace(day=1, tzinfo=None) + 31 * DAY).replace(day=1) - DAY).day


def _reset(at: datetime, name: str, value: int) -> datetime:
    """The wall time with a field set, and the smaller ones at their lowest."""
    smaller = _SET[_SET.index(name) + 1 :]
    values = {it: getattr(at, it) for it in _SET} | {name: value}
    values |= {it: _LOWEST[it] for it in smaller}
    return datetime(**values)  # noqa: DTZ001 - a wall time


def _move_on(at: datetime, index: int) -> tuple[datetime, int]:
    """Add one to a field, or to the next larger one that is not at its highest."""
    while index >= 0:
        name = _FIELDS[index]
        if name in _SET and getattr(at, name) < _highest(name, at):
            wall = _reset(at, name, getattr(at, name) + 1)
            passed = wall - at.replace(tzinfo=None)
            return (at.astimezone(UTC) + passed).astimezone(at.tzinfo), index
        index -= 1
    return at, index


def _ceil(instant: datetime) -> datetime:
    whole = instant.replace(microsecond=0)
    return whole if whole == instant else whole + _SECOND
