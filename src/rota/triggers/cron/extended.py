"""The extended cron dialect: steps, names, macros, seconds and ``@every``."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from fractions import Fraction
from itertools import islice
from typing import Final, Never

from rota.errors import (
    CronCalculationError,
    FieldParseError,
    InvalidCronExpressionError,
    NoOccurrenceError,
)
from rota.triggers.cron.expression import (
    check_happens,
    check_limit,
    compile_splitter,
    read_fields,
    span_of_field,
)
from rota.triggers.cron.fields import (
    AT_SECOND_ZERO,
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    MONTH_NAMES,
    SECOND,
    WEEKDAY,
    WEEKDAY_NAMES,
    CronFields,
    FieldRange,
    bits_between,
    read_digits,
    refuse,
)
from rota.triggers.interval import describe_duration
from rota.triggers.zone import Fold, Gap, to_utc

EVERY: Final = "@every"

_SHORTEST = timedelta(seconds=1)
_LONGEST = timedelta(days=106_751)  # what 63 bits of nanoseconds hold, as in Go
_SECONDS_IN = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),  # the micro sign
    "μs": Fraction(1, 10**6),  # the Greek letter, which Go reads as well
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_TERM = re.compile(rf"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)({'|'.join(_SECONDS_IN)})")
_DURATION = re.compile(rf"(?:{_TERM.pattern})+")


@dataclass(frozen=True, slots=True)
class Every:
    """A schedule without an anchor: it counts from whatever instant it is asked about.

    So it has a next occurrence after any instant, and no occurrence that could be called the
    previous one: ``previous_at`` and ``matches`` raise CronCalculationError. Zone and rules make
    no difference.
    """

    period: timedelta
    text: str = field(compare=False)

    def next_after(
        self,
        instant: datetime,
        zone: tzinfo,  # noqa: ARG002 - as every Cron
        *,
        gap: Gap = "skip",  # noqa: ARG002 - as every Cron
        fold: Fold = "both",  # noqa: ARG002 - as every Cron
    ) -> datetime:
        """``instant`` plus the period, without its fraction of a second."""
        start = to_utc(instant)
        try:
            return start.replace(microsecond=0) + self.period
        except OverflowError:
            cause = NoOccurrenceError(f"no occurrence after {start.isoformat()} in the calendar")
            raise CronCalculationError(self.text, start, cause) from cause

    def previous_at(
        self,
        instant: datetime,
        zone: tzinfo,  # noqa: ARG002 - as every Cron
        *,
        gap: Gap = "skip",  # noqa: ARG002 - as every Cron
        fold: Fold = "both",  # noqa: ARG002 - as every Cron
    ) -> Never:
        """Raise CronCalculationError: without an anchor nothing is the previous occurrence."""
        cause = NoOccurrenceError(f"{EVERY} counts from the last run and has no past of its own")
        raise CronCalculationError(self.text, to_utc(instant), cause) from cause

    def matches(
        self, instant: datetime, zone: tzinfo, *, gap: Gap = "skip", fold: Fold = "both"
    ) -> bool:
        """Raise CronCalculationError, as ``previous_at`` does."""
        self.previous_at(instant, zone, gap=gap, fold=fold)

    def between(
        self,
        start: datetime,
        end: datetime,
        zone: tzinfo,
        *,
        limit: int | None = None,
        gap: Gap = "skip",  # noqa: ARG002 - as every Cron
        fold: Fold = "both",  # noqa: ARG002 - as every Cron
    ) -> Iterator[datetime]:
        """What follows if each run is followed by the next, the first counted from ``start``."""
        check_limit(limit)
        return islice(self._walk(to_utc(start, "start"), to_utc(end, "end"), zone), limit)

    def describe(self) -> str:
        return f"Every {describe_duration(self.period)}"

    def _walk(self, start: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        with suppress(CronCalculationError):
            while (start := self.next_after(start, zone)) <= end:
                yield start


def parse_every(expression: str, texts: list[str]) -> Every:
    """The schedule of ``@every`` and a duration as Go writes it; whole seconds, at least one."""
    if len(texts) != 2:
        reason = f"{EVERY} must be followed by one duration such as 1h30m"
        raise InvalidCronExpressionError(expression, "expression", reason)
    try:
        period = _read_duration(texts[1])
    except FieldParseError as error:
        span = span_of_field(expression, texts, 1)
        raise InvalidCronExpressionError(
            expression, "expression", error.reason, position=span
        ) from error
    return Every(period, expression)


def _read_duration(text: str) -> timedelta:
    if _DURATION.fullmatch(text) is None:
        reason = "has an invalid duration, expected numbers with units such as 1h30m or 90s"
        raise _refuse_duration(reason, text)
    terms = (Fraction(term[1]) * _SECONDS_IN[term[2]] for term in _TERM.finditer(text))
    seconds = sum(terms, Fraction())
    if seconds == 0:
        raise _refuse_duration("has a duration of zero", text)
    if seconds > _LONGEST.total_seconds():
        raise _refuse_duration(f"has a duration above {_LONGEST.days} days", text)
    return max(timedelta(seconds=int(seconds)), _SHORTEST)


def _refuse_duration(reason: str, text: str) -> FieldParseError:
    return FieldParseError(reason, field_value=text, field_name="expression")


MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

split_extended = compile_splitter(" \t\n\v\f\r")

_RANGES = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_NAMES = {
    MONTH.name: {name[:3].lower(): number for number, name in enumerate(MONTH_NAMES) if name},
    WEEKDAY.name: {name[:3].lower(): number for number, name in enumerate(WEEKDAY_NAMES)},
}
_STARS = ("*", "?")


def parse_extended(expression: str, texts: list[str]) -> CronFields:
    """The meaning of these field texts, cut from ``expression``; or InvalidCronExpressionError."""
    if len(texts) not in {5, 6}:
        reason = f"must have 5 fields, or 6 with seconds first, got {len(texts)}"
        raise InvalidCronExpressionError(expression, "expression", reason)
    sets = read_fields(expression, texts, _RANGES[-len(texts) :], _read_field)
    seconds = sets.pop(0) if len(texts) == 6 else AT_SECOND_ZERO
    minutes, hours, days, months, weekdays = sets
    either = not (_is_starred(texts[-3]) or _is_starred(texts[-1]))
    fields = CronFields(seconds, minutes, hours, days, months, weekdays, either)
    check_happens(expression, fields)
    return fields


def _is_starred(text: str) -> bool:
    """Whether an element of the field is a star whose step, if it has one, is 1."""
    for element in text.split(","):
        star, _, step = element.partition("/")
        if star in _STARS and (not step or read_digits(step) == 1):
            return True
    return False


def _read_field(text: str, field: FieldRange) -> int:
    bits = 0
    for element in text.split(","):
        single = field.singles.get(element)
        bits |= _read_element(element, text, field) if single is None else single
    return bits


def _read_element(element: str, text: str, field: FieldRange) -> int:
    numbers, slash, step_text = element.partition("/")
    step = _read_step(step_text, text, field) if slash else 1
    if numbers in _STARS:
        return bits_between(field.low, field.high, step)
    low_text, dash, high_text = numbers.partition("-")
    low = _read_number(low_text, text, field)
    high = field.high if slash else low
    if dash:
        high = _read_number(high_text, text, field)
    if low > high:
        raise refuse("wrap-around ranges not supported", text, field)
    return bits_between(low, high, step)


def _read_step(step_text: str, text: str, field: FieldRange) -> int:
    step = read_digits(step_text)
    if step is None:
        raise refuse("invalid step format", text, field)
    if step == 0:
        raise refuse("step must be at least 1", text, field)
    return step


def _read_number(number_text: str, text: str, field: FieldRange) -> int:
    names = _NAMES.get(field.name, {})
    number = names.get(number_text.lower(), read_digits(number_text))
    if number is None:
        expected = "a number or a name such as " + next(iter(names)) if names else "a number"
        raise refuse(f"invalid number format, expected {expected}", text, field)
    if not field.low <= number <= field.high:
        raise refuse(_out_of_range(number, field), text, field)
    return number


def _out_of_range(number: int, field: FieldRange) -> str:
    reason = f"out of range ({field.low}-{field.high})"
    return reason + ": Sunday is 0" if field is WEEKDAY and number == 7 else reason
