"""A cron expression and its schedule."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from reprlib import repr as short_repr
from typing import Protocol

from rota.errors import (
    CronCalculationError,
    FieldParseError,
    InvalidCronExpressionError,
    InvalidInputError,
    NoOccurrenceError,
)
from rota.triggers.cron.fields import CronFields, FieldRange
from rota.triggers.cron.search import next_instant, previous_instant
from rota.triggers.cron.words import describe_fields
from rota.triggers.zone import Fold, Gap, to_utc

LONGEST_EXPRESSION = 4096
"""Longer text is refused unread. Every possible schedule fits in a tenth of it."""

NEVER_HAPPENS = "no valid execution times: none of the months has any of the days"
"""The reason for refusing dates that no year has."""

ReadField = Callable[[str, FieldRange], int]
"""Turns the text of a field into its set, or raises FieldParseError."""


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
    expression: str, texts: Sequence[str], ranges: Sequence[FieldRange], read: ReadField
) -> list[int]:
    """The sets of all fields. The leftmost invalid one is refused, with its position."""
    sets: list[int] = []
    for text, allowed in zip(texts, ranges, strict=True):
        bits = allowed.all_bits if text == "*" else allowed.singles.get(text)
        if bits is None:
            try:
                bits = read(text, allowed)
            except FieldParseError as error:
                span = span_of_field(expression, texts, len(sets))
                raise InvalidCronExpressionError(
                    expression, allowed.name, error.reason, position=span
                ) from error
        sets.append(bits)
    return sets


def check_happens(expression: str, fields: CronFields) -> None:
    """Refuse dates that no year has, such as 31 February, by looking at the sets alone."""
    if not fields.ever_happens():
        raise InvalidCronExpressionError(expression, "expression", NEVER_HAPPENS)


def span_of_field(expression: str, texts: Sequence[str], index: int) -> tuple[int, int]:
    """Where in ``expression`` the field of that index stands, as a half-open span."""
    start = 0
    for text in texts[:index]:
        start = expression.index(text, start) + len(text)
    start = expression.index(texts[index], start)
    return start, start + len(texts[index])


def compile_splitter(blanks: str) -> Callable[[str], list[str]]:
    """A function that cuts text at these characters, and at no other blank of Unicode."""
    return re.compile(f"[^{re.escape(blanks)}]+").findall


class Cron(Protocol):
    """A parsed cron expression. Immutable; equal to another with the same meaning.

    Instants go in as aware datetimes and come out in UTC. ``gap`` and ``fold`` say what happens to
    wall times that DST skips or repeats.
    """

    @property
    def text(self) -> str:
        """The expression as it was written."""
        ...

    def next_after(
        self, instant: datetime, zone: tzinfo, *, gap: Gap = "skip", fold: Fold = "both"
    ) -> datetime:
        """The first occurrence strictly after ``instant``; CronCalculationError if none is left."""
        ...

    def previous_at(
        self, instant: datetime, zone: tzinfo, *, gap: Gap = "skip", fold: Fold = "both"
    ) -> datetime:
        """The last occurrence at or before ``instant``; CronCalculationError if there was none."""
        ...

    def matches(
        self, instant: datetime, zone: tzinfo, *, gap: Gap = "skip", fold: Fold = "both"
    ) -> bool:
        """Whether an occurrence began within the minute up to ``instant``.

        With a seconds field it is the second instead of the minute.
        """
        ...

    def between(
        self,
        start: datetime,
        end: datetime,
        zone: tzinfo,
        *,
        limit: int | None = None,
        gap: Gap = "skip",
        fold: Fold = "both",
    ) -> Iterator[datetime]:
        """The occurrences after ``start`` up to and including ``end``, at most ``limit``."""
        ...

    def describe(self) -> str:
        """The schedule in English words."""
        ...


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise InvalidInputError(
            f"limit must not be negative, got {limit}", {"field": "limit", "value": limit}
        )


@dataclass(frozen=True, slots=True)
class FieldCron:
    """A schedule made of fields: it knows which wall times it wants, and asks a zone when."""

    fields: CronFields = field(repr=False)
    unit: timedelta = field(repr=False)
    text: str = field(compare=False)

    def next_after(
        self, instant: datetime, zone: tzinfo, *, gap: Gap = "skip", fold: Fold = "both"
    ) -> datetime:
        start = to_utc(instant)
        try:
            found = next_instant(self.fields, start, zone, gap, fold)
        except OverflowError:
            found = None
        if found is None:
            raise self._no_occurrence(start, "after")
        return found

    def previous_at(
        self, instant: datetime, zone: tzinfo, *, gap: Gap = "skip", fold: Fold = "both"
    ) -> datetime:
        start = to_utc(instant)
        try:
            found = previous_instant(self.fields, start, zone, gap, fold)
        except OverflowError:
            found = None
        if found is None:
            raise self._no_occurrence(start, "at or before")
        return found

    def matches(
        self, instant: datetime, zone: tzinfo, *, gap: Gap = "skip", fold: Fold = "both"
    ) -> bool:
        try:
            latest = self.previous_at(instant, zone, gap=gap, fold=fold)
        except CronCalculationError:
            return False
        return instant - latest < self.unit

    def between(
        self,
        start: datetime,
        end: datetime,
        zone: tzinfo,
        *,
        limit: int | None = None,
        gap: Gap = "skip",
        fold: Fold = "both",
    ) -> Iterator[datetime]:
        check_limit(limit)
        found = self._walk(to_utc(start, "start"), to_utc(end, "end"), zone, gap, fold)
        return islice(found, limit)

    def describe(self) -> str:
        return describe_fields(self.fields)

    def _walk(
        self, start: datetime, end: datetime, zone: tzinfo, gap: Gap, fold: Fold
    ) -> Iterator[datetime]:
        """Occurrence after occurrence up to ``end``, or to the end of the calendar."""
        try:
            found = next_instant(self.fields, start, zone, gap, fold)
            while found is not None and found <= end:
                yield found
                found = next_instant(self.fields, found, zone, gap, fold)
        except OverflowError:
            return

    def _no_occurrence(self, instant: datetime, side: str) -> CronCalculationError:
        cause = NoOccurrenceError(f"no occurrence {side} {instant.isoformat()} in the calendar")
        error = CronCalculationError(self.text, instant, cause)
        error.__cause__ = cause
        return error


@dataclass(frozen=True, slots=True)
class CronTrigger:
    """A cron schedule bound to its zone and rules: a ``Trigger``."""

    cron: Cron
    zone: tzinfo
    gap: Gap = "skip"
    fold: Fold = "both"

    def next_after(self, instant: datetime, /) -> datetime | None:
        try:
            return self.cron.next_after(instant, self.zone, gap=self.gap, fold=self.fold)
        except CronCalculationError:
            return None
