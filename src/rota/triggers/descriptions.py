"""Cron schedules and recurrence rules in English words."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise, product
from typing import TypeVar

from rota.triggers.cron_fields import (
    ALL_DAYS,
    ALL_WEEKDAYS,
    AT_SECOND_ZERO,
    HOUR,
    MINUTE,
    MONTH,
    MONTH_NAMES,
    SECOND,
    WEEKDAY_NAMES,
    CronFields,
    FieldRange,
    numbers_in,
)
from rota.triggers.rrule_parts import Frequency, NthWeekday, Parts, complete_parts
from rota.triggers.rrule_walls import times_of_day

_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_WEEKDAYS = (*WEEKDAY_NAMES[1:], WEEKDAY_NAMES[0])
_MOST_TIMES = 6
"""More times of day are described by their hours and minutes instead of listed."""

_Item = TypeVar("_Item")


def describe_fields(fields: CronFields) -> str:
    """One line such as "At 09:00 on Monday to Friday"."""
    times = _list_times(fields)
    if times is not None:
        return f"At {times} {_describe_days(fields) or 'every day'}{_describe_months(fields)}"
    days = _describe_days(fields)
    phrase = f"{_describe_pattern(fields)} {days}" if days else _describe_pattern(fields)
    return phrase + _describe_months(fields)


def _list_times(fields: CronFields) -> str | None:
    """The times of day one by one, if they are few and not at even steps."""
    hours, minutes, seconds = (numbers_in(bits) for bits in fields[2::-1])
    few = len(hours) * len(minutes) * len(seconds) <= _MOST_TIMES
    if not few or _step(fields.hours, HOUR):
        return None
    pattern = "{:02}:{:02}" if fields.seconds == AT_SECOND_ZERO else "{:02}:{:02}:{:02}"
    return _join([pattern.format(*time) for time in product(hours, minutes, seconds)])


def _describe_pattern(fields: CronFields) -> str:
    """The pattern of the times of day when there are too many to list."""
    if fields.seconds == AT_SECOND_ZERO:
        return _describe_minutes(fields)
    step = _step(fields.seconds, SECOND)
    seconds = _every(step, "second") if step else f"At {_numbered('second', fields.seconds)}"
    if step and fields.minutes == MINUTE.all_bits:
        return seconds + _during(fields.hours)
    step = _step(fields.minutes, MINUTE)
    if step:
        return f"{seconds} of every {_nth_or_each(step)}minute{_during(fields.hours)}"
    return f"{seconds} of {_numbered('minute', fields.minutes)}{_of_hours(fields.hours)}"


def _describe_minutes(fields: CronFields) -> str:
    step = _step(fields.minutes, MINUTE)
    if step:
        return _every(step, "minute") + _during(fields.hours)
    hourly = _step(fields.hours, HOUR)
    if fields.minutes == 1 and hourly:
        return _every(hourly, "hour")
    hours = numbers_in(fields.hours)
    if fields.minutes == 1 and _is_run(hours):
        return f"Every hour from {hours[0]:02}:00 to {hours[-1]:02}:00"
    return f"At {_numbered('minute', fields.minutes)}{_of_hours(fields.hours)}"


def _of_hours(hours: int) -> str:
    return _during(hours) or " of every hour"


def _during(hours: int) -> str:
    """The hours to which a pattern of minutes is limited, if it is."""
    if hours == HOUR.all_bits:
        return ""
    numbers = numbers_in(hours)
    if _is_run(numbers):
        return f" from {numbers[0]:02}:00 to {numbers[-1]:02}:59"
    hourly = _step(hours, HOUR)
    if hourly:
        return f" of every {_nth_or_each(hourly)}hour"
    return f" of the hours {_join_runs(numbers, lambda hour: f'{hour:02}')}"


def _describe_days(fields: CronFields) -> str:
    weekdays = [place for place in range(7) if fields.weekdays >> (place + 1) % 7 & 1]
    on_weekdays = f"on {_join_runs(weekdays, _WEEKDAYS.__getitem__)}"
    if fields.days == ALL_DAYS and not fields.either:
        return "" if fields.weekdays == ALL_WEEKDAYS else on_weekdays
    month = "the month" if fields.either or fields.months == MONTH.all_bits else _months(fields)
    on_days = f"on day {_join_runs(numbers_in(fields.days), str)} of {month}"
    return f"{on_days}, or {on_weekdays}" if fields.either else on_days


def _describe_months(fields: CronFields) -> str:
    """The months, where they are not already part of "day 1 of January"."""
    if fields.months == MONTH.all_bits or (fields.days != ALL_DAYS and not fields.either):
        return ""
    return f", in {_months(fields)}" if fields.either else f" in {_months(fields)}"


def _months(fields: CronFields) -> str:
    return _join_runs(numbers_in(fields.months), MONTH_NAMES.__getitem__)


def _step(bits: int, field: FieldRange) -> int:
    """The step of a set that divides its field evenly, such as every 15 minutes; else 0."""
    numbers = numbers_in(bits)
    if len(numbers) < 2 or numbers[0] != 0:
        return 0
    step = numbers[1]
    even = all(later - earlier == step for earlier, later in pairwise(numbers))
    return step if even and numbers[-1] + step == field.high + 1 else 0


def _every(step: int, unit: str) -> str:
    return f"Every {unit}" if step == 1 else f"Every {step} {unit}s"


def _nth_or_each(step: int) -> str:
    return "" if step == 1 else f"{_ordinal(step)} "


def _is_run(numbers: Sequence[int]) -> bool:
    return numbers[-1] - numbers[0] == len(numbers) - 1


def _numbered(unit: str, bits: int) -> str:
    numbers = numbers_in(bits)
    return f"{unit} {numbers[0]}" if len(numbers) == 1 else f"{unit}s {_join_runs(numbers, str)}"


def describe_rule(parts: Parts, start: datetime) -> str:
    """One sentence without a full stop. Parts the rule leaves open are taken from ``start``."""
    full = complete_parts(parts, start)
    every = _every(full.interval, _UNITS[full.frequency])
    words = " ".join([every, *_days(full), *_times(full)])
    return "".join([words, *_choice(full), *_limits(full)])


def _days(parts: Parts) -> Iterator[str]:
    if _is_one_date(parts):
        days = _join_all(parts.month_days, str)
        yield f"on {days} {MONTH_NAMES[parts.months[0]]}"
        return
    if parts.months:
        yield "in " + _join_all(parts.months, MONTH_NAMES.__getitem__)
    if parts.week_numbers:
        yield "in " + _weeks(parts.week_numbers)
    if parts.year_days:
        yield f"on {_join_nths(parts.year_days, 'day')} of the year"
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
        return ("week " if len(numbers) == 1 else "weeks ") + _join_runs(numbers, str)
    return f"{_join_nths(numbers, 'week')} of the year"


def _month_days(days: Sequence[int]) -> str:
    if days[0] > 0:
        return "the " + _join_all(days, _ordinal)
    return f"{_join_nths(days, 'day')} of the month"


def _weekdays(parts: Parts) -> str:
    if not parts.has_ordinals:
        return _join_runs([day.weekday for day in parts.weekdays], lambda day: _WEEKDAYS[day])
    whole = parts.frequency is Frequency.YEARLY and not parts.months
    return _join_all(parts.weekdays, _weekday) + (" of the year" if whole else " of the month")


def _weekday(day: NthWeekday) -> str:
    name = _WEEKDAYS[day.weekday]
    return f"the {_nth(day.ordinal, name)}" if day.ordinal else f"every {name}"


def _times(parts: Parts) -> Iterator[str]:
    if not parts.frequency.is_sub_daily:
        times = times_of_day(parts)
        if len(times) <= _MOST_TIMES:
            yield "at " + _join_all(times, _clock)
            return
    if parts.hours:
        yield ("during hour " if len(parts.hours) == 1 else "during hours ") + _join_runs(
            parts.hours, str
        )
    for name, numbers in (("minute", parts.minutes), ("second", parts.seconds)):
        if numbers:
            yield f"at {name}{'' if len(numbers) == 1 else 's'} " + _join_runs(numbers, str)


def _choice(parts: Parts) -> Iterator[str]:
    if parts.positions:
        yield f", only {_join_nths(parts.positions, '')} of each {_UNITS[parts.frequency]}"


def _limits(parts: Parts) -> Iterator[str]:
    if parts.count is not None:
        yield ", once" if parts.count == 1 else f", {parts.count} times"
    if parts.until is not None:
        yield ", until " + _moment(parts.until)


def _moment(moment: date | datetime) -> str:
    words = f"{moment.day} {MONTH_NAMES[moment.month]} {moment.year}"
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


def _join_nths(numbers: Sequence[int], what: str) -> str:
    """Numbers that count from the front, then those that count from the end."""
    ordered = sorted(numbers, key=lambda number: (number < 0, number))
    return _join([f"the {_nth(number, what)}".rstrip() for number in ordered])


def _ordinal(number: int) -> str:
    is_teen = number % 100 in {11, 12, 13}
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _join_all(values: Iterable[_Item], name: Callable[[_Item], str]) -> str:
    return _join([name(value) for value in values])


def _join_runs(numbers: Sequence[int], name: Callable[[int], str]) -> str:
    """The numbers by name; three or more in a row become "first to last"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    phrases: list[str] = []
    for run in runs:
        names = [name(number) for number in run]
        phrases += [f"{names[0]} to {names[-1]}"] if len(run) > 2 else names
    return _join(phrases)


def _join(phrases: Sequence[str]) -> str:
    *others, last = phrases
    return f"{', '.join(others)} and {last}" if others else last
