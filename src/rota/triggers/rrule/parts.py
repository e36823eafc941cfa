"""The parts of a recurrence rule, and which of them may stand together."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import IntEnum
from typing import NamedTuple


class Frequency(IntEnum):
    """The frequencies of RFC 5545, from the rarest."""

    YEARLY = 0
    MONTHLY = 1
    WEEKLY = 2
    DAILY = 3
    HOURLY = 4
    MINUTELY = 5
    SECONDLY = 6

    @property
    def is_sub_daily(self) -> bool:
        """Whether the rule steps in elapsed time instead of wall time."""
        return self >= Frequency.HOURLY


class NthWeekday(NamedTuple):
    """A day of the week, Monday being 0; ``ordinal`` is 0 where every such day is meant."""

    weekday: int
    ordinal: int = 0


@dataclass(frozen=True)
class Parts:
    """What an RRULE says. An absent list is empty; lists are ascending and hold nothing twice.

    ``until`` is a date, a naive wall time or an aware instant, as it was written.
    """

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: date | datetime | None = None
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[NthWeekday, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    week_start: int = 0

    @property
    def has_ordinals(self) -> bool:
        return any(day.ordinal for day in self.weekdays)

    @property
    def names_days(self) -> bool:
        """Whether a part says which days are meant, beyond the month."""
        return bool(self.week_numbers or self.year_days or self.month_days or self.weekdays)

    @property
    def filters_days(self) -> bool:
        return bool(self.months) or self.names_days

    @property
    def has_lists(self) -> bool:
        """Whether any BY part is given besides BYSETPOS."""
        return self.filters_days or bool(self.hours or self.minutes or self.seconds)


def complete_parts(parts: Parts, start: datetime) -> Parts:
    """``parts`` with what is left open taken from the wall time ``start``, as RFC 5545 has it.

    A sub-daily rule is left as it is: what it does not say is a matter of elapsed time.
    """
    if parts.frequency.is_sub_daily:
        return parts
    return replace(
        _complete_days(parts, start),
        hours=parts.hours or (start.hour,),
        minutes=parts.minutes or (start.minute,),
        seconds=parts.seconds or (start.second,),
    )


def _complete_days(parts: Parts, start: datetime) -> Parts:
    if parts.names_days or parts.frequency is Frequency.DAILY:
        return parts
    if parts.frequency is Frequency.WEEKLY:
        return replace(parts, weekdays=(NthWeekday(start.weekday()),))
    if parts.frequency is Frequency.MONTHLY:
        return replace(parts, month_days=(start.day,))
    return replace(parts, months=parts.months or (start.month,), month_days=(start.day,))


def find_conflict(parts: Parts) -> tuple[str, str] | None:
    """The first part that RFC 5545 forbids beside the others, and why; None when all is well."""
    return next(_conflicts(parts), None)


def _conflicts(parts: Parts) -> Iterator[tuple[str, str]]:
    frequency = parts.frequency
    if parts.count is not None and parts.until is not None:
        yield "UNTIL", "cannot stand beside COUNT"
    if parts.week_numbers and frequency is not Frequency.YEARLY:
        yield "BYWEEKNO", "is for FREQ=YEARLY only"
    if parts.year_days and Frequency.MONTHLY <= frequency <= Frequency.DAILY:
        yield "BYYEARDAY", f"cannot stand beside FREQ={frequency.name}"
    if parts.month_days and frequency is Frequency.WEEKLY:
        yield "BYMONTHDAY", "cannot stand beside FREQ=WEEKLY"
    yield from _ordinal_conflicts(parts)
    if parts.positions and not parts.has_lists:
        yield "BYSETPOS", "needs another BY part to choose from"


def _ordinal_conflicts(parts: Parts) -> Iterator[tuple[str, str]]:
    if not parts.has_ordinals:
        return
    if parts.frequency > Frequency.MONTHLY:
        yield "BYDAY", "may have an ordinal with FREQ=MONTHLY or FREQ=YEARLY only"
    if parts.week_numbers:
        yield "BYDAY", "cannot have an ordinal beside BYWEEKNO"
