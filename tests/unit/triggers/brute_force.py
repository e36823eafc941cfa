"""Cron by brute force: every tick of a stretch of real time is looked at, one after another.

This is the authority that the search is measured against, so it shares nothing with it: fields are
sets built by plain loops, and what a gap skips is found by walking the wall clock across it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from random import Random
from typing import NamedTuple

MINUTE = timedelta(minutes=1)
BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
NAMES = {
    name: number
    for names, first in (
        (("jan", "feb", "mar", "apr", "may", "jun"), 1),
        (("jul", "aug", "sep", "oct", "nov", "dec"), 7),
        (("sun", "mon", "tue", "wed", "thu", "fri", "sat"), 0),
    )
    for number, name in enumerate(names, start=first)
}

Matcher = Callable[[datetime], bool]


def _number(text: str) -> int:
    return NAMES[text.lower()] if text.lower() in NAMES else int(text)


def _members(text: str, low: int, high: int) -> set[int]:
    members = set()
    for element in text.split(","):
        numbers, _, step = element.partition("/")
        if numbers in {"*", "?"}:
            first, last = low, high
        elif "-" in numbers:
            first, last = (_number(end) for end in numbers.split("-"))
        else:
            first = _number(numbers)
            last = high if step else first
        number = first
        while number <= last:
            members.add(number)
            number += int(step or "1")
    return members


def matcher(text: str) -> Matcher:
    """Whether a wall time satisfies an expression of five or six fields, in either dialect."""
    texts = text.split()
    if len(texts) == 5:
        texts.insert(0, "0")
    second, minute, hour, day, month, weekday = (
        _members(field, *bounds) for field, bounds in zip(texts, BOUNDS, strict=True)
    )
    stars = {"*", "?", "*/1", "?/1"}
    day_starred = not stars.isdisjoint(texts[3].split(","))
    weekday_starred = not stars.isdisjoint(texts[5].split(","))

    def matches(wall: datetime) -> bool:
        if wall.second not in second or wall.minute not in minute or wall.hour not in hour:
            return False
        if wall.month not in month:
            return False
        by_day, by_weekday = wall.day in day, wall.isoweekday() % 7 in weekday
        if day_starred or weekday_starred:
            return by_day and by_weekday
        return by_day or by_weekday

    return matches


class Tick(NamedTuple):
    at: datetime
    wall: datetime
    is_second_showing: bool


class Stretch:
    """A stretch of real time in a zone, cut into ticks that its offsets are multiples of."""

    def __init__(self, start: datetime, end: datetime, zone: tzinfo, tick: timedelta) -> None:
        self.start, self.end, self.zone = start, end, zone
        self._ticks = list(self._walk(tick))
        self._skipped = list(self._find_skipped(tick))
        self._matched: dict[str, tuple[list[Tick], list[Tick]]] = {}

    def _walk(self, tick: timedelta) -> Iterator[Tick]:
        at = self.start
        while at <= self.end:
            shown = at.astimezone(self.zone)
            yield Tick(at, shown.replace(tzinfo=None, fold=0), shown.fold == 1)
            at += tick

    def _find_skipped(self, tick: timedelta) -> Iterator[Tick]:
        """The wall times never shown, at the instants where a clock left alone would show them."""
        for before, after in zip(self._ticks, self._ticks[1:], strict=False):
            count = 1
            while before.wall + count * tick < after.wall:
                yield Tick(before.at + count * tick, before.wall + count * tick, False)
                count += 1

    def occurrences(self, text: str, gap: str, fold: str) -> list[datetime]:
        shown, skipped = self._matching(text)
        ticks = [tick for tick in shown if fold == "both" or not tick.is_second_showing]
        if gap == "shift":
            ticks += [tick for tick in skipped if tick.at <= self.end]
        return sorted({tick.at for tick in ticks})

    def _matching(self, text: str) -> tuple[list[Tick], list[Tick]]:
        if text not in self._matched:
            matches = matcher(text)
            self._matched[text] = (
                [tick for tick in self._ticks if matches(tick.wall)],
                [tick for tick in self._skipped if matches(tick.wall)],
            )
        return self._matched[text]


def first_after(occurrences: list[datetime], instant: datetime) -> datetime | None:
    place = bisect_right(occurrences, instant)
    return occurrences[place] if place < len(occurrences) else None


def last_at(occurrences: list[datetime], instant: datetime) -> datetime | None:
    place = bisect_right(occurrences, instant)
    return occurrences[place - 1] if place else None


def is_within_unit(occurrences: list[datetime], instant: datetime, unit: timedelta) -> bool:
    place = bisect_left(occurrences, instant - unit + timedelta.resolution)
    return place < len(occurrences) and occurrences[place] <= instant


def posix_expression(random: Random) -> str:
    """A random strict expression; its hours lean to the night, when clocks change."""
    last_hour = random.choice((3, 3, 23))
    chances = ((0, 59, 0.3), (0, last_hour, 0.5), (1, 31, 0.7), (1, 12, 0.85), (0, 6, 0.7))
    return " ".join(_random_field(random, *chance) for chance in chances)


def _random_field(random: Random, low: int, high: int, star_chance: float) -> str:
    if random.random() < star_chance:
        return "*"
    ends = sorted((random.randint(low, high), random.randint(low, high)))
    shapes = (
        f"{ends[0]}",
        f"{ends[0]}-{ends[1]}",
        ",".join(f"{random.randint(low, high)}" for _ in range(random.randint(2, 5))),
        f"{ends[0]},{ends[0]}-{ends[1]}",
    )
    return random.choice(shapes)


def extended_expression(random: Random) -> str:
    """A random expression with steps, names and question marks, sometimes with seconds."""
    fields = posix_expression(random).split()
    fields[0] = random.choice((fields[0], "*/7", "5/20", "10-50/10", "*/30"))
    fields[1] = random.choice((fields[1], "*/2", "1/3", "0-6/2"))
    fields[2] = random.choice((fields[2], "?", "*/2", "1/7", "*/1"))
    fields[3] = random.choice((fields[3], "jan-dec", "*/2", "Mar,oct,NOV"))
    fields[4] = random.choice((fields[4], "?", "mon-fri", "*/3", "sun", "6"))
    return " ".join(fields)


WRITERS: dict[str, Callable[[Random], str]] = {
    "posix": posix_expression,
    "posix-multiline": posix_expression,
    "extended": extended_expression,
}
