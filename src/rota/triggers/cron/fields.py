"""What a cron expression means: sets of numbers, and how its two day fields combine.

A set is an int whose bit n says whether n belongs to it: the next member is then found with a
shift and a mask instead of a walk.
"""

from calendar import isleap
from dataclasses import dataclass
from typing import NamedTuple

from rota.errors import FieldParseError


@dataclass(frozen=True, slots=True)
class FieldRange:
    """One field of an expression: its name in errors, and its lowest and highest number."""

    name: str
    low: int
    high: int

    @property
    def all_bits(self) -> int:
        return bits_between(self.low, self.high)


def bits_between(low: int, high: int, step: int = 1) -> int:
    """The set of low, low + step, … up to high."""
    if step == 1:
        return (2 << high) - (1 << low)
    return sum(1 << number for number in range(low, high + 1, step))


def numbers_in(bits: int) -> list[int]:
    """The members of a set, ascending."""
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


SECOND = FieldRange("second", 0, 59)
MINUTE = FieldRange("minute", 0, 59)
HOUR = FieldRange("hour", 0, 23)
DAY = FieldRange("day", 1, 31)
MONTH = FieldRange("month", 1, 12)
WEEKDAY = FieldRange("weekday", 0, 6)

AT_SECOND_ZERO = 1
ALL_DAYS = DAY.all_bits
ALL_WEEKDAYS = WEEKDAY.all_bits

_MONTH_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
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
        """Whether any date satisfies the day fields; each month is taken at its longest."""
        return self.either or any(self._has_day_in(month) for month in numbers_in(self.months))

    def _has_day_in(self, month: int) -> bool:
        longest = 29 if month == 2 else _MONTH_LENGTHS[month]
        return self.days & (2 << longest) - 2 != 0


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
