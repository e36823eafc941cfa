"""The wall times that satisfy an expression, in the order of a calendar without zones."""

from datetime import MAXYEAR, MINYEAR, date, datetime

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
                return datetime(year, month, day, *time)  # noqa: DTZ001 - wall time
        later = days >> day + 1
        if later:
            return _at_first_time(fields, year, month, day + _lowest(later) + 1)
    return _first_in_later_month(fields, year, month)


def last_at(fields: CronFields, wall: datetime) -> datetime | None:
    """The last one at or before ``wall``; None when the calendar begins after it."""
    year, month, day = wall.year, wall.month, wall.day
    if fields.months >> month & 1:
        days = fields.days_in(year, month, (wall.isoweekday() - day + 1) % 7)
        if days >> day & 1:
            time = _time_at_or_before(fields, wall.hour, wall.minute, wall.second)
            if time is not None:
                return datetime(year, month, day, *time)  # noqa: DTZ001 - wall time
        earlier = days & (1 << day) - 1
        if earlier:
            return _at_last_time(fields, year, month, _highest(earlier))
    return _last_in_earlier_month(fields, year, month)


def _first_in_later_month(fields: CronFields, year: int, month: int) -> datetime | None:
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
            return _at_first_time(fields, year, month, _lowest(days))


def _last_in_earlier_month(fields: CronFields, year: int, month: int) -> datetime | None:
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
            return _at_last_time(fields, year, month, _highest(days))


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


def _at_first_time(fields: CronFields, year: int, month: int, day: int) -> datetime:
    hour, minute, second = map(_lowest, (fields.hours, fields.minutes, fields.seconds))
    return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - wall time


def _at_last_time(fields: CronFields, year: int, month: int, day: int) -> datetime:
    hour, minute, second = map(_highest, (fields.hours, fields.minutes, fields.seconds))
    return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - wall time


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _highest(bits: int) -> int:
    return bits.bit_length() - 1
