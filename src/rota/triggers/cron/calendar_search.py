"""The wall times that satisfy an expression, in the order of a calendar without zones.

A wall time may carry a tzinfo: it is handed on to the answer and never asked.
"""

# ruff: noqa: DTZ001 - the zone is handed on by position, which takes half the time

from datetime import MAXYEAR, MINYEAR, date, datetime, tzinfo

from rota.triggers.cron.fields import CronFields

_TimeOfDay = tuple[int, int, int]


def first_after(fields: CronFields, wall: datetime) -> datetime | None:
    """The first one strictly after ``wall``; None when the calendar ends before it."""
    year, month, day = wall.year, wall.month, wall.day
    if fields.months >> month & 1:
        days = fields.days_in(year, month, (wall.isoweekday() - day + 1) % 7)
        if days >> day & 1:
            time = _time_after(fields, wall.hour, wall.minute, wall.second)
            if time is not None:
                return datetime(year, month, day, *time, 0, wall.tzinfo)
        later = days >> day + 1
        if later:
            time = _first_time(fields)
            return datetime(year, month, day + _lowest(later) + 1, *time, 0, wall.tzinfo)
    return _first_in_later_month(fields, year, month, wall.tzinfo)


def last_at(fields: CronFields, wall: datetime) -> datetime | None:
    """The last one at or before ``wall``; None when the calendar begins after it."""
    year, month, day = wall.year, wall.month, wall.day
    if fields.months >> month & 1:
        days = fields.days_in(year, month, (wall.isoweekday() - day + 1) % 7)
        if days >> day & 1:
            time = _time_at_or_before(fields, wall.hour, wall.minute, wall.second)
            if time is not None:
                return datetime(year, month, day, *time, 0, wall.tzinfo)
        earlier = days & (1 << day) - 1
        if earlier:
            time = _last_time(fields)
            return datetime(year, month, _highest(earlier), *time, 0, wall.tzinfo)
    return _last_in_earlier_month(fields, year, month, wall.tzinfo)


def _first_in_later_month(
    fields: CronFields, year: int, month: int, zone: tzinfo | None
) -> datetime | None:
    while True:
        later = fields.months >> month + 1
        if later:
            month += _lowest(later) + 1
        else:
            year += 1
            month = _lowest(fields.months)
        if year > MAXYEAR:
            return None
        days = fields.days_in(year, month, date(year, month, 1).isoweekday() % 7)
        if days:
            return datetime(year, month, _lowest(days), *_first_time(fields), 0, zone)


def _last_in_earlier_month(
    fields: CronFields, year: int, month: int, zone: tzinfo | None
) -> datetime | None:
    while True:
        earlier = fields.months & (1 << month) - 1
        if earlier:
            month = _highest(earlier)
        else:
            year -= 1
            month = _highest(fields.months)
        if year < MINYEAR:
            return None
        days = fields.days_in(year, month, date(year, month, 1).isoweekday() % 7)
        if days:
            return datetime(year, month, _highest(days), *_last_time(fields), 0, zone)


def _time_after(fields: CronFields, hour: int, minute: int, second: int) -> _TimeOfDay | None:
    """The first time of day in the sets strictly after this one."""
    if fields.hours >> hour & 1:
        if fields.minutes >> minute & 1:
            later = fields.seconds >> second + 1
            if later:
                return hour, minute, second + _lowest(later) + 1
        later = fields.minutes >> minute + 1
        if later:
            return hour, minute + _lowest(later) + 1, _lowest(fields.seconds)
    later = fields.hours >> hour + 1
    if later:
        return hour + _lowest(later) + 1, _lowest(fields.minutes), _lowest(fields.seconds)
    return None


def _time_at_or_before(
    fields: CronFields, hour: int, minute: int, second: int
) -> _TimeOfDay | None:
    """The last time of day in the sets at or before this one."""
    if fields.hours >> hour & 1:
        if fields.minutes >> minute & 1:
            earlier = fields.seconds & (2 << second) - 1
            if earlier:
                return hour, minute, _highest(earlier)
        earlier = fields.minutes & (1 << minute) - 1
        if earlier:
            return hour, _highest(earlier), _highest(fields.seconds)
    earlier = fields.hours & (1 << hour) - 1
    if earlier:
        return _highest(earlier), _highest(fields.minutes), _highest(fields.seconds)
    return None


def _first_time(fields: CronFields) -> _TimeOfDay:
    return _lowest(fields.hours), _lowest(fields.minutes), _lowest(fields.seconds)


def _last_time(fields: CronFields) -> _TimeOfDay:
    return _highest(fields.hours), _highest(fields.minutes), _highest(fields.seconds)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _highest(bits: int) -> int:
    return bits.bit_length() - 1
