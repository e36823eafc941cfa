"""From the wall times of a rule to instants, in order, whatever the zone does to its clocks.

Away from transitions wall times and instants have the same order, and one look at the series is
enough. Near one, time is taken apart into pieces of one offset each. A gap that is shifted over is
a piece of its own, read with the offset before it and lying on top of the time that follows; the
second showing of a fold is left out of the piece it begins, unless both showings count.
"""

from collections.abc import Iterator
from functools import cached_property

from rota.triggers.rrule.budget import JUMP_STEPS, Budget
from rota.triggers.rrule.frame import CALENDAR_END, LONGEST_SHIFT, Frame
from rota.triggers.rrule.wall_series import WallSeries

_WINDOW = 2 * LONGEST_SHIFT

_MOST_FRUITLESS_WINDOWS = 600
"""A rule whose every wall time falls into a gap, at most a few a year, never occurs: both the
calendar and the rules of the zone repeat within this number.
"""

Piece = tuple[int, int, int]
"""A half-open range of instants, and the offset that its wall times have."""


class WallSearch:
    """Finds the instants of a rule that is written in wall time."""

    def __init__(self, series: WallSeries, frame: Frame, count: int | None) -> None:
        self._series = series
        self._frame = frame
        self._count = count

    def first_in(self, after: int, upto: int, budget: Budget) -> int | None:
        """The first occurrence later than ``after`` and not later than ``upto``."""
        frame = self._frame
        if after < frame.start_at:
            if self._start_occurs:
                return frame.start_at if frame.start_at <= upto else None
            after = frame.start_at
        found = self._first_after(after, upto, budget)
        return found if found is not None and found <= upto else None

    def _first_after(self, at: int, upto: int, budget: Budget) -> int | None:
        for _ in range(_MOST_FRUITLESS_WINDOWS):
            if at >= min(upto, CALENDAR_END):
                return None
            budget.spend()
            offset = self._frame.calm_offset(at)
            if offset is not None:
                wall = self._wall_from(at + offset + 1)
                if wall is None:
                    return None
                offset = self._frame.calm_wall_offset(wall)
                if offset is not None:
                    return wall - offset
                at = max(at, min(self._frame.showings(wall)) - LONGEST_SHIFT)
            budget.spend(JUMP_STEPS)
            found = self._first_near_transition(at)
            if found is not None:
                return found
            at += _WINDOW
        return None

    def _wall_from(self, wall: int) -> int | None:
        found = self._series.first_from(max(wall, self._frame.start_wall))
        last = self._last_wall
        return None if found is None or (last is not None and found > last) else found

    def _first_near_transition(self, after: int) -> int | None:
        found = None
        for start, end, offset in self._pieces(after, after + _WINDOW):
            wall = self._wall_from(max(start, after + 1) + offset)
            if wall is not None and wall - offset < min(end, found or end):
                found = wall - offset
        return found

    def _pieces(self, after: int, upto: int) -> Iterator[Piece]:
        """The pieces that hold every occurrence in ``(after, upto]``."""
        start = after - LONGEST_SHIFT
        offset = self._frame.offset_at(start)
        for at, before, now in self._frame.transitions(start + 1, upto + 1):
            yield start, at, before
            start, offset = at, now
            if now > before and self._frame.gap == "shift":
                yield at, at + now - before, before
            if now < before and self._frame.fold == "first":
                start += before - now
        yield start, upto + 1, offset

    @cached_property
    def _start_occurs(self) -> bool:
        frame = self._frame
        if frame.gap == "skip" and frame.starts_in_gap:
            return False
        return self._wall_from(frame.start_wall) == frame.start_wall

    @cached_property
    def _last_wall(self) -> int | None:
        """The wall time that uses up COUNT; None where nothing does.

        Every wall time counts once, though a fold may show it twice and two may be shifted onto
        one instant. Those that a gap makes vanish do not count, so the last one moves on by as
        many.
        """
        if self._count is None:
            return None
        start = self._frame.start_wall
        last, skipped = self._series.nth_from(start, self._count), 0
        while last is not None and self._frame.gap == "skip":
            now_skipped = self._count_skipped(start, last)
            if now_skipped == skipped:
                break
            skipped = now_skipped
            last = self._series.nth_from(start, self._count + skipped)
        return last

    def _count_skipped(self, first: int, last: int) -> int:
        """How many wall times from ``first`` to ``last`` fall into gaps."""
        skipped = 0
        margin = LONGEST_SHIFT
        for at, before, after in self._frame.transitions(first - margin, last + margin):
            wall, end = max(at + before, first), min(at + after, last + 1)
            while (found := self._series.first_from(wall)) is not None and found < end:
                skipped += 1
                wall = found + 1
        return skipped
