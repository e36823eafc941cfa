"""``@every 1h30m``: a fixed time after the last run, whatever the clock on the wall shows."""

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
from rota.triggers.cron.expression import span_of_field
from rota.triggers.cron.schedule import check_limit
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
