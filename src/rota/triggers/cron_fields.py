"""The fields of a cron expression: sets of numbers, and how the two day fields combine.

A set is an int in which bit n says whether n is a member. The next member is then found with a
shift and a mask.
"""

import re
from calendar import isleap
from collections.abc import Callable, Sequence
from reprlib import repr as short_repr
from typing import NamedTuple

from rota.errors import FieldParseError, InvalidCronExpressionError, InvalidInputError


def bits_between(low: int, high: int, step: int = 1) -> int:
    """The set of low, low + step, … up to high."""
    if step == 1:
        return (2 << high) - (1 << low)
    return sum(1 << number for number in range(low, high + 1, step))


class FieldRange:
    """One field of an expression: its name in errors, and its lowest and highest number.

    ``singles`` has the set of each number as it is usually written, with one digit or two.
    """

    def __init__(self, name: str, low: int, high: int) -> None:
        self.name = name
        self.low = low
        self.high = high
        self.all_bits = bits_between(low, high)
        self.singles: dict[str, int] = {}
        for number in range(low, high + 1):
            self.singles[f"{number}"] = self.singles[f"{number:02}"] = 1 << number


def numbers_in(bits: int) -> list[int]:
    """The members of a set, ascending."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


SECOND = FieldRange("second", 0, 59)
MINUTE = FieldRange("minute", 0, 59)
HOUR = FieldRange("hour", 0, 23)
DAY = FieldRange("day", 1, 31)
MONTH = FieldRange("month", 1, 12)
WEEKDAY = FieldRange("weekday", 0, 6)

WEEKDAY_NAMES = (
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
)
MONTH_NAMES = (
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
"""Not those of the ``calendar`` module, which follow the locale; month 0 has none."""

AT_SECOND_ZERO = 1
ALL_DAYS = DAY.all_bits
ALL_WEEKDAYS = WEEKDAY.all_bits

_MONTH_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY = 1 << 2
_MONTHS_OF_31_DAYS = sum(1 << month for month in (1, 3, 5, 7, 8, 10, 12))
_IN_EVERY_MONTH = bits_between(1, 29)
_SIX_WEEKS = sum(1 << 7 * week for week in range(6))


class CronFields(NamedTuple):
    """The sets of an expression; Sunday is weekday 0.

    With ``either``, a day counts that is in ``days`` or in ``weekdays``; without it the day must
    be in both, and then at least one of them holds every day there is.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    either: bool

    def days_in(self, year: int, month: int, first_weekday: int) -> int:
        """The days of that month which count; ``first_weekday`` is that of its first day."""
        length = 29 if month == 2 and isleap(year) else _MONTH_LENGTHS[month]
        days = self.days
        if self.weekdays != ALL_WEEKDAYS or self.either:
            on_weekdays = (self.weekdays * _SIX_WEEKS >> first_weekday) << 1
            days = days | on_weekdays if self.either else days & on_weekdays
        return days & (2 << length) - 2

    def ever_happens(self) -> bool:
        """Whether any date satisfies the day fields; February is taken at its longest."""
        if self.either or self.days & _IN_EVERY_MONTH:
            return True
        if self.days & 1 << 30 and self.months & ~_FEBRUARY:
            return True
        return self.months & _MONTHS_OF_31_DAYS != 0


def read_digits(text: str) -> int | None:
    """The number that ``text`` writes in ASCII digits; None if it writes none.

    Leading zeros are fine. Whatever needs more than four digits is 9999, beyond every field, so
    that the length of a text costs next to nothing.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    significant = text.lstrip("0")
    return int(significant or "0") if len(significant) <= 4 else 9999


def refuse(reason: str, value: str, field: FieldRange) -> FieldParseError:
    return FieldParseError(reason, field_value=value, field_name=field.name)


LONGEST_EXPRESSION = 4096
"""Longer text is refused unread. Every possible schedule fits in a tenth of it."""

NEVER_HAPPENS = "no valid execution times: none of the months has any of the days"
"""The reason for refusing dates that no year has."""

ReadElement = Callable[[str, str, FieldRange], int]
"""Turns an element of a field's text into its set, or raises FieldParseError about the text."""


def check_text(expression: object) -> str:
    """The expression itself, if it is text of a reasonable length."""
    if not isinstance(expression, str):
        reason = f"must be a string, got {type(expression).__name__}"
        raise InvalidCronExpressionError(short_repr(expression), "expression", reason)
    if len(expression) > LONGEST_EXPRESSION:
        reason = f"must have at most {LONGEST_EXPRESSION} characters, got {len(expression)}"
        raise InvalidCronExpressionError(f"{expression[:40]}…", "expression", reason)
    return expression


def read_fields(
    expression: str, texts: Sequence[str], ranges: Sequence[FieldRange], read: ReadElement
) -> list[int]:
    """The sets of all fields. Refuses the leftmost invalid field, with its position."""
    sets: list[int] = []
    for text, allowed in zip(texts, ranges, strict=True):
        bits = allowed.all_bits if text == "*" else allowed.singles.get(text)
        if bits is None:
            try:
                bits = _read_elements(text, allowed, read)
            except FieldParseError as error:
                span = span_of_field(expression, texts, len(sets))
                raise InvalidCronExpressionError(
                    expression, allowed.name, error.reason, position=span
                ) from error
        sets.append(bits)
    return sets


def _read_elements(text: str, field: FieldRange, read: ReadElement) -> int:
    bits = 0
    for element in text.split(","):
        single = field.singles.get(element)
        bits |= read(element, text, field) if single is None else single
    return bits


def check_happens(expression: str, fields: CronFields) -> None:
    """Refuse dates that no year has, such as 31 February."""
    if not fields.ever_happens():
        raise InvalidCronExpressionError(expression, "expression", NEVER_HAPPENS)


def span_of_field(expression: str, texts: Sequence[str], index: int) -> tuple[int, int]:
    """The position of the field with that index in ``expression``, as a half-open span."""
    start = 0
    for text in texts[:index]:
        start = expression.index(text, start) + len(text)
    start = expression.index(texts[index], start)
    return start, start + len(texts[index])


def compile_splitter(blanks: str) -> Callable[[str], list[str]]:
    """A function that splits text at these characters, and at no other blank of Unicode."""
    return re.compile(f"[^{re.escape(blanks)}]+").findall


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise InvalidInputError(
            f"limit must not be negative, got {limit}", {"field": "limit", "value": limit}
        )
