"""Schedules of other schedulers, and their rules: when they fire, and the same in Rota's words.

The fires are computed here without Rota's own parsers and searches: the comparison would prove
nothing otherwise.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cached_property
from itertools import product
from typing import Any, Literal, Protocol

from rota.errors import InvalidInputError
from rota.triggers.zone import instants_of, transitions_between

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONTHS = (*("jan", "feb", "mar", "apr", "may", "jun"), *("jul", "aug", "sep", "oct", "nov", "dec"))

Numbers = frozenset[int]
GapRule = Literal["skip", "shift", "after"]
"""What happens to a wall time that clocks skip: nothing, it moves by the length of the gap, or it
fires as soon as the clocks have moved."""


class Rule(Protocol):
    """When another scheduler fires."""

    def fires(self, begin: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        """The instants from ``begin`` on and before ``end``, ascending."""
        ...


@dataclass(frozen=True)
class IntervalRule:
    """Fires each time that a period of real time has passed since the last fire."""

    every: timedelta

    def fires(self, begin: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:  # noqa: ARG002 - clock changes do not matter
        at = begin
        while at < end:
            yield at
            at += self.every


@dataclass(frozen=True)
class NumberField:
    """A field of numbers: its range, its names, and whether a range may wrap around."""

    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)
    may_wrap: bool = False

    @property
    def all(self) -> Numbers:
        return frozenset(range(self.low, self.high + 1))

    def parse(self, text: str) -> Numbers:
        """The numbers in ``1,5-9,*/2``. Raises InvalidInputError."""
        found: set[int] = set()
        for element in str(text).strip().lower().split(","):
            found.update(self._parse_element(element.strip()))
        return frozenset(found)

    def _parse_element(self, element: str) -> Iterable[int]:
        numbers, _, step_text = element.partition("/")
        step = int(step_text) if step_text.isdecimal() and int(step_text) else 0
        if "/" in element and not step:
            raise _unreadable(element)
        if numbers in ("*", "?"):
            return range(self.low, self.high + 1, step or 1)
        first, dash, last = numbers.partition("-")
        low = self._parse_number(first)
        high = self._parse_number(last) if dash else (self.high if step else low)
        if low <= high:
            return range(low, high + 1, step or 1)
        if not self.may_wrap:
            raise _unreadable(element)
        return [*range(low, self.high + 1), *range(self.low, high + 1)][:: step or 1]

    def _parse_number(self, text: str) -> int:
        number = self.names.get(text, int(text) if text.isdecimal() else -1)
        if not self.low <= number <= self.high:
            raise InvalidInputError(
                f'"{text}" is not a number from {self.low} to {self.high}', {"field": "schedule"}
            )
        return number


def _unreadable(text: str) -> InvalidInputError:
    return InvalidInputError(f'"{text[:40]}" is not a value of its field', {"field": "schedule"})


SECOND_FIELD = NumberField(0, 59)
MINUTE_FIELD = NumberField(0, 59)
HOUR_FIELD = NumberField(0, 23)
DAY_FIELD = NumberField(1, 31)
MONTH_FIELD = NumberField(1, 12, {name: number for number, name in enumerate(MONTHS, 1)})


@dataclass(frozen=True)
class FieldRule:
    """A cron-like rule, with the conventions of its scheduler.

    ``weekdays`` are numbered from Monday, 0. ``is_either``: a day that matches one of ``days`` and
    ``weekdays`` is enough. ``nth`` are pairs such as (2, 4), the second Friday of a month, or
    (-1, 4), the last. ``has_last``: the last day of the month counts too. ``follows_last``: the
    next fire is the first wall time after the one that clocks showed at the last fire.
    """

    minutes: Numbers
    hours: Numbers
    days: Numbers = DAY_FIELD.all
    months: Numbers = MONTH_FIELD.all
    weekdays: Numbers = frozenset(range(7))
    seconds: Numbers = frozenset({0})
    weeks: Numbers | None = None
    nth: tuple[tuple[int, int], ...] = ()
    has_last: bool = False
    is_either: bool = False
    gap: GapRule = "shift"
    fold: Literal["first", "both"] = "first"
    follows_last: bool = False

    @cached_property
    def clock_times(self) -> tuple[timedelta, ...]:
        """The times of day, since midnight, ascending."""
        times = product(sorted(self.hours), sorted(self.minutes), sorted(self.seconds))
        return tuple(timedelta(hours=it[0], minutes=it[1], seconds=it[2]) for it in times)

    @property
    def limits_days(self) -> bool:
        return self.days != DAY_FIELD.all or bool(self.nth) or self.has_last

    @property
    def limits_weekdays(self) -> bool:
        return len(self.weekdays) < 7

    def matches(self, day: date) -> bool:
        """Whether it fires on that day."""
        if day.month not in self.months:
            return False
        if self.weeks is not None and day.isocalendar().week not in self.weeks:
            return False
        in_days, in_weekdays = self.matches_day(day), day.weekday() in self.weekdays
        return (in_days or in_weekdays) if self.is_either else (in_days and in_weekdays)

    def matches_day(self, day: date) -> bool:
        """Whether the day of the month fits."""
        if self.has_last and (day + DAY).month != day.month:
            return True
        if any(_is_nth(day, number, weekday) for number, weekday in self.nth):
            return True
        has_others = bool(self.nth or self.has_last)
        return day.day in self.days and not (has_others and self.days == DAY_FIELD.all)

    def fires(self, begin: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        changing = find_changing_days(begin, end, zone)
        day, held = begin.astimezone(zone).date(), list[datetime]()
        last = begin - timedelta(microseconds=1)
        while (midnight := find_midnight(day, zone)) < end:
            found = self._fires_on(day, midnight, zone, last if day in changing else None)
            # What a gap moves past midnight waits for the next day.
            found, tomorrow = (
                sorted({*held, *found}) if held else found,
                find_midnight(day + DAY, zone),
            )
            held = [at for at in found if at >= tomorrow] if day in changing else []
            for at in found:
                if begin <= at < min(end, tomorrow):
                    yield at
                    last = at
            day += DAY

    def _fires_on(
        self, day: date, midnight: datetime, zone: tzinfo, last: datetime | None
    ) -> list[datetime]:
        """The fires of one day; ``last`` is the one before, None if no clock change is near."""
        if not self.matches(day):
            return []
        if last is None:
            return [midnight + since for since in self.clock_times]
        shown, found = _shown(last, zone), list[datetime]()
        for since in self.clock_times:
            wall = datetime.combine(day, time()) + since
            if self.follows_last and wall <= shown:
                continue
            found += self._resolve(wall, zone)
            shown = _shown(found[-1], zone) if found else shown
        return sorted(set(found))

    def _resolve(self, wall: datetime, zone: tzinfo) -> Iterator[datetime]:
        shown = instants_of(wall, zone, gap="skip", fold="both")
        if shown:
            yield from shown if self.fold == "both" else shown[:1]
        elif self.gap == "shift":
            yield from instants_of(wall, zone, gap="shift", fold="first")
        elif self.gap == "after":
            yield _end_of_gap(wall, zone)


def _shown(instant: datetime, zone: tzinfo) -> datetime:
    """The wall time that clocks show."""
    return instant.astimezone(zone).replace(tzinfo=None)


def find_midnight(day: date, zone: tzinfo) -> datetime:
    """When a day begins."""
    return instants_of(datetime.combine(day, time()), zone, gap="shift", fold="first")[0]


def find_changing_days(begin: datetime, end: datetime, zone: tzinfo) -> set[date]:
    """The days on which clocks change, and the days beside them."""
    changes = transitions_between(begin - 2 * DAY, end + 2 * DAY, zone)
    days = [change.at.astimezone(zone).date() for change in changes]
    return {day + number * DAY for day in days for number in (-1, 0, 1)}


def _is_nth(day: date, number: int, weekday: int) -> bool:
    if day.weekday() != weekday:
        return False
    if number < 0:
        return (day + 7 * DAY).month != day.month
    return (day.day - 1) // 7 + 1 == number


def _end_of_gap(wall: datetime, zone: tzinfo) -> datetime:
    """The first minute after a gap in which the wall time lies."""
    while not (shown := instants_of(wall, zone, gap="skip", fold="first")):
        wall += MINUTE
    return shown[0]


def to_when(rule: FieldRule) -> str:
    """The rule as Rota writes it: cron if cron can say it, else an RRULE."""
    is_plain = rule.weeks is None and not rule.nth and not rule.has_last
    needs_both = rule.limits_days and rule.limits_weekdays and not rule.is_either
    return _to_cron(rule) if is_plain and not needs_both else _to_rrule(rule)


def _to_cron(rule: FieldRule) -> str:
    weekdays = [(number + 1) % 7 for number in rule.weekdays]
    fields = [
        _format(rule.minutes, MINUTE_FIELD),
        _format(rule.hours, HOUR_FIELD),
        _format(rule.days, DAY_FIELD),
        _format(rule.months, MONTH_FIELD),
        _format(frozenset(weekdays), NumberField(0, 6)),
    ]
    if rule.seconds != {0}:
        fields.insert(0, _format(rule.seconds, SECOND_FIELD))
    return " ".join(fields)


def _format(numbers: Numbers, of: NumberField) -> str:
    """The numbers as a field: a star, a step, or a list of ranges."""
    if numbers == of.all:
        return "*"
    listed = sorted(numbers)
    step = listed[1] - listed[0] if len(listed) > 2 else 0
    if step > 1 and listed == list(range(of.low, of.high + 1, step)):
        return f"*/{step}"
    return ",".join(_runs(listed))


def _runs(listed: list[int]) -> Iterator[str]:
    start = last = listed[0]
    for number in [*listed[1:], -1]:
        if number == last + 1:
            last = number
            continue
        yield str(start) if start == last else f"{start}-{last}"
        start = last = number


def _to_rrule(rule: FieldRule) -> str:
    parts = [f"FREQ={'YEARLY' if rule.weeks else 'MONTHLY'}"]
    if rule.months != MONTH_FIELD.all:
        parts.append(f"BYMONTH={_join(rule.months)}")
    if rule.weeks:
        parts.append(f"BYWEEKNO={_join(rule.weeks)}")
    if rule.has_last or (rule.days != DAY_FIELD.all and not rule.nth):
        days = set() if rule.days == DAY_FIELD.all else set(rule.days)
        parts.append(f"BYMONTHDAY={_join(days | ({-1} if rule.has_last else set()))}")
    days_of_week = [f"{number}{_code(day)}" for number, day in rule.nth]
    if rule.limits_weekdays and not rule.nth:
        days_of_week = [_code(day) for day in sorted(rule.weekdays)]
    if rule.weeks and not days_of_week:
        days_of_week = [_code(day) for day in range(7)]
    if days_of_week:
        parts.append(f"BYDAY={','.join(days_of_week)}")
    parts += [
        f"BYHOUR={_join(rule.hours)}",
        f"BYMINUTE={_join(rule.minutes)}",
        f"BYSECOND={_join(rule.seconds)}",
    ]
    return ";".join(parts)


def _code(weekday: int) -> str:
    return WEEKDAYS[weekday][:2].upper()


def _join(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


_WORD = re.compile(r"[^0-9A-Za-z_]+")


def to_identifier(text: str, taken: set[str]) -> str:
    """A function name that is not taken, made from a text."""
    base = _WORD.sub("_", text).strip("_").lower()[:40].rstrip("_") or "task"
    base = f"run_{base}" if base[0].isdigit() else base
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name


def utc(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


@dataclass(frozen=True)
class ImportedSchedule:
    """One schedule of another scheduler.

    ``when`` and ``options`` are those of ``app.schedule``, ``queue`` that of ``app.task``. ``rule``
    is when the other scheduler fires, from ``start`` on. ``body`` are the lines of the function.
    ``gap_reason`` says why fires near a skipped hour may differ, ``miss_reason`` why others may,
    and ``notes`` what else is different.
    """

    name: str
    where: str
    source: str
    when: str
    body: tuple[str, ...]
    zone: tzinfo
    rule: Rule
    start: datetime | None = None
    queue: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    gap_reason: str = ""
    miss_reason: str = "the two read the rule differently"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unreadable:
    """A part of the file that was left out."""

    where: str
    reason: str


@dataclass(frozen=True)
class Imported:
    """All of a file."""

    schedules: tuple[ImportedSchedule, ...]
    unreadable: tuple[Unreadable, ...]
    imports: tuple[str, ...] = ()
