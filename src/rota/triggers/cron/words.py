"""A cron schedule in English words: first the time of day, then the days."""

from collections.abc import Callable, Sequence
from itertools import pairwise, product

from rota.triggers.cron.fields import (
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

_MOST_TIMES_LISTED = 6
_MONDAY_FIRST = (1, 2, 3, 4, 5, 6, 0)


def describe_fields(fields: CronFields) -> str:
    """One line such as "At 09:00 on Monday to Friday"."""
    times = _list_times(fields)
    if times is not None:
        return f"At {times} {_describe_days(fields) or 'every day'}{_describe_months(fields)}"
    days = _describe_days(fields)
    phrase = f"{_describe_rhythm(fields)} {days}" if days else _describe_rhythm(fields)
    return phrase + _describe_months(fields)


def _list_times(fields: CronFields) -> str | None:
    """The times of day one by one, if they are few enough and no plain rhythm."""
    hours, minutes, seconds = (numbers_in(bits) for bits in fields[2::-1])
    few = len(hours) * len(minutes) * len(seconds) <= _MOST_TIMES_LISTED
    if not few or _step(fields.hours, HOUR):
        return None
    pattern = "{:02}:{:02}" if fields.seconds == AT_SECOND_ZERO else "{:02}:{:02}:{:02}"
    return _enumerate([pattern.format(*time) for time in product(hours, minutes, seconds)])


def _describe_rhythm(fields: CronFields) -> str:
    """How the times of day follow one another, where they are too many to list."""
    if fields.seconds == AT_SECOND_ZERO:
        return _describe_minutes(fields)
    step = _step(fields.seconds, SECOND)
    seconds = _every(step, "second") if step else f"At {_numbered('second', fields.seconds)}"
    if step and fields.minutes == MINUTE.all_bits:
        return seconds + _during(fields.hours)
    step = _step(fields.minutes, MINUTE)
    if step:
        return f"{seconds} of every {_ordinal(step)}minute{_during(fields.hours)}"
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
    """The hours that a rhythm of minutes is confined to, if it is."""
    if hours == HOUR.all_bits:
        return ""
    numbers = numbers_in(hours)
    if _is_run(numbers):
        return f" from {numbers[0]:02}:00 to {numbers[-1]:02}:59"
    hourly = _step(hours, HOUR)
    if hourly:
        return f" of every {_ordinal(hourly)}hour"
    return f" of the hours {_runs(numbers, lambda hour: f'{hour:02}')}"


def _describe_days(fields: CronFields) -> str:
    weekdays = [number for number in _MONDAY_FIRST if fields.weekdays >> number & 1]
    on_weekdays = f"on {_runs(weekdays, WEEKDAY_NAMES.__getitem__, _MONDAY_FIRST)}"
    if fields.days == ALL_DAYS and not fields.either:
        return "" if fields.weekdays == ALL_WEEKDAYS else on_weekdays
    month = "the month" if fields.either or fields.months == MONTH.all_bits else _months(fields)
    on_days = f"on day {_runs(numbers_in(fields.days), str)} of {month}"
    return f"{on_days}, or {on_weekdays}" if fields.either else on_days


def _describe_months(fields: CronFields) -> str:
    """The months, where they are not already part of "day 1 of January"."""
    if fields.months == MONTH.all_bits or (fields.days != ALL_DAYS and not fields.either):
        return ""
    return f", in {_months(fields)}" if fields.either else f" in {_months(fields)}"


def _months(fields: CronFields) -> str:
    return _runs(numbers_in(fields.months), MONTH_NAMES.__getitem__)


def _step(bits: int, field: FieldRange) -> int:
    """The step of a set that goes round its field evenly, such as every 15 minutes; else 0."""
    numbers = numbers_in(bits)
    if len(numbers) < 2 or numbers[0] != 0:
        return 0
    step = numbers[1]
    even = all(later - earlier == step for earlier, later in pairwise(numbers))
    return step if even and numbers[-1] + step == field.high + 1 else 0


def _every(step: int, unit: str) -> str:
    return f"Every {unit}" if step == 1 else f"Every {step} {unit}s"


def _ordinal(number: int) -> str:
    """What stands between "every" and a unit in the singular; nothing for 1."""
    return {1: "", 2: "2nd ", 3: "3rd "}.get(number, f"{number}th ")


def _is_run(numbers: Sequence[int]) -> bool:
    return numbers[-1] - numbers[0] == len(numbers) - 1


def _numbered(unit: str, bits: int) -> str:
    numbers = numbers_in(bits)
    return f"{unit} {numbers[0]}" if len(numbers) == 1 else f"{unit}s {_runs(numbers, str)}"


def _runs(
    numbers: Sequence[int], name: Callable[[int], str], order: Sequence[int] = range(60)
) -> str:
    """The numbers by name; three or more in a row, in this order, become "first to last"."""
    runs: list[list[int]] = []
    for number in numbers:
        place = order.index(number)
        if runs and order.index(runs[-1][-1]) == place - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    phrases: list[str] = []
    for run in runs:
        names = [name(number) for number in run]
        phrases += [f"{names[0]} to {names[-1]}"] if len(run) > 2 else names
    return _enumerate(phrases)


def _enumerate(phrases: Sequence[str]) -> str:
    *others, last = phrases
    return f"{', '.join(others)} and {last}" if others else last
