"""A rule in words, for people who do not read BYDAY."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import TypeVar

from rota.triggers.rrule.parts import Frequency, NthWeekday, Parts, complete_parts
from rota.triggers.rrule.wall_series import times_of_day

_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_T = TypeVar("_T")
_MOST_TIMES = 6
"""A longer list of times of day is described by its hours and minutes instead."""


def describe_rule(parts: Parts, start: datetime) -> str:
    """One sentence without a full stop. Parts the rule leaves open are taken from ``start``."""
    told = complete_parts(parts, start)
    words = " ".join([_every(told), *_days(told), *_times(told)])
    return "".join([words, *_choice(told), *_limits(told)])


def _every(parts: Parts) -> str:
    unit = _UNITS[parts.frequency]
    return f"Every {unit}" if parts.interval == 1 else f"Every {parts.interval} {unit}s"


def _days(parts: Parts) -> Iterator[str]:
    if _is_one_date(parts):
        days = _listed(parts.month_days, str)
        yield f"on {days} {_MONTHS[parts.months[0] - 1]}"
        return
    if parts.months:
        yield "in " + _listed(parts.months, lambda month: _MONTHS[month - 1])
    if parts.week_numbers:
        yield "in " + _weeks(parts.week_numbers)
    if parts.year_days:
        yield (
            "on "
            + _listed(_from_both_ends(parts.year_days), lambda day: f"the {_nth(day, 'day')}")
            + " of the year"
        )
    if parts.month_days:
        yield "on " + _month_days(parts.month_days)
    if parts.weekdays:
        link = "if that is" if parts.month_days or parts.year_days else "on"
        yield f"{link} " + _weekdays(parts)


def _is_one_date(parts: Parts) -> bool:
    """Whether the days read best as dates of one month, such as 14 March."""
    plain = parts.frequency is Frequency.YEARLY and len(parts.months) == 1
    alone = not (parts.week_numbers or parts.year_days or parts.weekdays)
    return plain and alone and bool(parts.month_days) and parts.month_days[0] > 0


def _weeks(numbers: Sequence[int]) -> str:
    if numbers[0] > 0:
        return ("week " if len(numbers) == 1 else "weeks ") + _ranges(numbers, str)
    return (
        _listed(_from_both_ends(numbers), lambda week: f"the {_nth(week, 'week')}") + " of the year"
    )


def _month_days(days: Sequence[int]) -> str:
    if days[0] > 0:
        return "the " + _listed(days, _ordinal)
    return _listed(_from_both_ends(days), lambda day: f"the {_nth(day, 'day')}") + " of the month"


def _weekdays(parts: Parts) -> str:
    if not parts.has_ordinals:
        return _ranges([day.weekday for day in parts.weekdays], lambda day: _WEEKDAYS[day])
    whole = parts.frequency is Frequency.YEARLY and not parts.months
    return _listed(parts.weekdays, _weekday) + (" of the year" if whole else " of the month")


def _weekday(day: NthWeekday) -> str:
    name = _WEEKDAYS[day.weekday]
    return f"the {_nth(day.ordinal, name)}" if day.ordinal else f"every {name}"


def _times(parts: Parts) -> Iterator[str]:
    if not parts.frequency.is_sub_daily:
        times = times_of_day(parts)
        if len(times) <= _MOST_TIMES:
            yield "at " + _listed(times, _clock)
            return
    if parts.hours:
        yield ("during hour " if len(parts.hours) == 1 else "during hours ") + _ranges(
            parts.hours, str
        )
    for name, numbers in (("minute", parts.minutes), ("second", parts.seconds)):
        if numbers:
            yield f"at {name}{'' if len(numbers) == 1 else 's'} " + _ranges(numbers, str)


def _choice(parts: Parts) -> Iterator[str]:
    if parts.positions:
        chosen = _listed(
            _from_both_ends(parts.positions), lambda place: f"the {_nth(place, '').rstrip()}"
        )
        yield f", only {chosen} of each {_UNITS[parts.frequency]}"


def _limits(parts: Parts) -> Iterator[str]:
    if parts.count is not None:
        yield ", once" if parts.count == 1 else f", {parts.count} times"
    if parts.until is not None:
        yield ", until " + _moment(parts.until)


def _moment(moment: date | datetime) -> str:
    words = f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"
    if not isinstance(moment, datetime):
        return words
    clock = _clock(moment.hour * 3600 + moment.minute * 60 + moment.second)
    return f"{words} {clock}" + (" UTC" if moment.tzinfo is UTC else "")


def _clock(time: int) -> str:
    words = f"{time // 3600:02}:{time // 60 % 60:02}"
    return f"{words}:{time % 60:02}" if time % 60 else words


def _nth(number: int, what: str) -> str:
    """Such as "2nd Monday", "last day", "2nd to last week"."""
    if number > 0:
        return f"{_ordinal(number)} {what}"
    return f"last {what}" if number == -1 else f"{_ordinal(-number)} to last {what}"


def _from_both_ends(numbers: Sequence[int]) -> list[int]:
    """Those counted from the front first, as people say them."""
    return sorted(numbers, key=lambda number: (number < 0, number))


def _ordinal(number: int) -> str:
    is_teen = number % 100 in {11, 12, 13}
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _listed(values: Iterable[_T], tell: Callable[[_T], str]) -> str:
    words = [tell(value) for value in values]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _ranges(numbers: Sequence[int], tell: Callable[[int], str]) -> str:
    """A list in which three or more neighbours become a range."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words: list[str] = []
    for run in runs:
        words += [f"{tell(run[0])} to {tell(run[-1])}"] if len(run) > 2 else map(tell, run)
    return _listed(words, str)
