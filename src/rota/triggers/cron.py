"""Cron expressions: parsing in each dialect, and when they occur in a zone."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import ClassVar, Literal, Never, Protocol, get_args

from rota.errors import (
    CronCalculationError,
    InvalidCronExpressionError,
    InvalidInputError,
    InvalidZoneError,
    NoOccurrenceError,
)
from rota.triggers.cron_dialects import (
    BLANKS,
    BLANKS_AND_LINE_ENDS,
    EVERY,
    MACROS,
    parse_extended,
    parse_period,
    parse_posix,
    split_extended,
    split_zone,
)
from rota.triggers.cron_fields import CronFields, check_limit, check_text
from rota.triggers.cron_search import next_instant, previous_instant
from rota.triggers.descriptions import describe_fields
from rota.triggers.interval import describe_duration
from rota.triggers.zone import Fold, Gap, load_zone, nearest_utc


class Cron(Protocol):
    """A parsed cron expression. Immutable; equal to another with the same meaning.

    Instants go in as aware datetimes and come out in UTC. ``gap`` and ``fold`` say what happens to
    wall times that DST skips or repeats.
    """

    @property
    def text(self) -> str:
        """The expression as it was written."""
        ...

    @property
    def zone(self) -> tzinfo | None:
        """The zone that the expression itself names. It replaces the ``zone`` of every call."""
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


@dataclass(frozen=True, slots=True)
class FieldCron:
    """A schedule made of fields: a set of wall times, which a zone turns into instants."""

    fields: CronFields = field(repr=False)
    unit: timedelta = field(repr=False)
    text: str = field(compare=False)
    zone: tzinfo | None = field(default=None, repr=False)

    def next_after(
        self, instant: datetime, zone: tzinfo, *, gap: Gap = "skip", fold: Fold = "both"
    ) -> datetime:
        start = nearest_utc(instant)
        try:
            found = next_instant(self.fields, start, self.zone or zone, gap, fold)
        except OverflowError:
            found = None
        if found is None:
            raise _no_occurrence(self.text, start, "after")
        return found

    def previous_at(
        self, instant: datetime, zone: tzinfo, *, gap: Gap = "skip", fold: Fold = "both"
    ) -> datetime:
        start = nearest_utc(instant)
        try:
            found = previous_instant(self.fields, start, self.zone or zone, gap, fold)
        except OverflowError:
            found = None
        if found is None:
            raise _no_occurrence(self.text, start, "at or before")
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
        found = self._walk(nearest_utc(start, "start"), nearest_utc(end, "end"), zone, gap, fold)
        return islice(found, limit)

    def describe(self) -> str:
        words = describe_fields(self.fields)
        return words if self.zone is None else f"{words}, in {self.zone}"

    def _walk(
        self, start: datetime, end: datetime, zone: tzinfo, gap: Gap, fold: Fold
    ) -> Iterator[datetime]:
        """The occurrences up to ``end``, or to the end of the calendar."""
        zone = self.zone or zone
        try:
            found = next_instant(self.fields, start, zone, gap, fold)
            while found is not None and found <= end:
                yield found
                found = next_instant(self.fields, found, zone, gap, fold)
        except OverflowError:
            return


def _no_occurrence(text: str, instant: datetime, side: str) -> CronCalculationError:
    cause = NoOccurrenceError(f"no occurrence {side} {instant.isoformat()} in the calendar")
    error = CronCalculationError(text, instant, cause)
    error.__cause__ = cause
    return error


@dataclass(frozen=True, slots=True)
class Every:
    """``@every``: a schedule without an anchor, which counts from the given instant.

    It has a next occurrence after any instant, but no previous one: ``previous_at`` and ``matches``
    raise CronCalculationError. Zone, gap and fold make no difference.
    """

    period: timedelta
    text: str = field(compare=False)
    zone: ClassVar[None] = None

    def next_after(
        self,
        instant: datetime,
        zone: tzinfo,  # noqa: ARG002 - required by Cron
        *,
        gap: Gap = "skip",  # noqa: ARG002 - required by Cron
        fold: Fold = "both",  # noqa: ARG002 - required by Cron
    ) -> datetime:
        """``instant`` plus the period, without its fraction of a second."""
        start = nearest_utc(instant)
        with suppress(OverflowError):
            return start.replace(microsecond=0) + self.period
        raise _no_occurrence(self.text, start, "after")

    def previous_at(
        self,
        instant: datetime,
        zone: tzinfo,  # noqa: ARG002 - required by Cron
        *,
        gap: Gap = "skip",  # noqa: ARG002 - required by Cron
        fold: Fold = "both",  # noqa: ARG002 - required by Cron
    ) -> Never:
        """Raise CronCalculationError: without an anchor there is no previous occurrence."""
        cause = NoOccurrenceError(f"{EVERY} counts from the last run and has no past of its own")
        raise CronCalculationError(self.text, nearest_utc(instant), cause) from cause

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
        gap: Gap = "skip",  # noqa: ARG002 - required by Cron
        fold: Fold = "both",  # noqa: ARG002 - required by Cron
    ) -> Iterator[datetime]:
        """The occurrences when each is counted from the one before, the first from ``start``."""
        check_limit(limit)
        return islice(self._walk(nearest_utc(start, "start"), nearest_utc(end, "end"), zone), limit)

    def describe(self) -> str:
        return f"Every {describe_duration(self.period)}"

    def _walk(self, start: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        with suppress(CronCalculationError):
            while (start := self.next_after(start, zone)) <= end:
                yield start


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

    def previous_at(self, instant: datetime, /) -> datetime | None:
        """The last occurrence at or before ``instant``; None when there was none."""
        try:
            return self.cron.previous_at(instant, self.zone, gap=self.gap, fold=self.fold)
        except CronCalculationError:
            return None


Dialect = Literal["posix", "posix-multiline", "extended"]
"""Five strict fields separated by spaces and tabs; the same on several lines; and the standard
dialect of robfig/cron with an optional seconds field.
"""

_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)


def parse_cron(text: str, dialect: Dialect = "posix") -> Cron:
    """The schedule in ``text``. InvalidCronExpressionError says what is wrong, and where.

    Dates that no year has, such as 31 February, are refused. Parsing is fast for any text.
    """
    if dialect == "posix":
        return FieldCron(parse_posix(text, BLANKS), _MINUTE, text)
    if dialect == "posix-multiline":
        return FieldCron(parse_posix(text, BLANKS_AND_LINE_ENDS), _MINUTE, text)
    if dialect == "extended":
        return _parse_extended(text)
    raise InvalidInputError(
        f'dialect must be one of {", ".join(get_args(Dialect))}, got "{dialect}"',
        {"field": "dialect", "value": dialect},
    )


def parse_stored_cron(text: str, dialect: Dialect = "posix-multiline") -> Cron:
    """The schedule of a stored task. Only its text is known.

    A text that ``dialect`` refuses is read in the extended one: a scheduler whose policy allows it
    stored it. Where both understand a text, they agree on its meaning. Raises the error of
    ``dialect``.
    """
    try:
        return parse_cron(text, dialect)
    except InvalidCronExpressionError:
        with suppress(InvalidCronExpressionError):
            return parse_cron(text, "extended")
        raise


def settle_zone(text: str, zone: str | None) -> tuple[str, str | None]:
    """The expression without a prefix such as ``CRON_TZ=Europe/London``, and its zone.

    Without a prefix, both as they are. InvalidInputError when the prefix and ``zone`` differ.
    """
    named, expression = split_zone(text)
    if named is None:
        return text, zone
    parse_cron(text, dialect="extended")
    if zone is not None and zone != named:
        reason = f"is {zone}, but the expression names {named}: leave one of them out"
        raise InvalidInputError(f"zone {reason}", {"field": "zone", "value": zone})
    return expression, named


def _parse_extended(text: str) -> Cron:
    name, expression = split_zone(check_text(text))
    zone = None if name is None else _load_zone(text, name)
    texts = split_extended(expression)
    first = texts[0] if texts else ""
    if first == EVERY:
        return Every(parse_period(text, texts), text)
    if len(texts) == 1 and first in MACROS:
        return FieldCron(parse_extended(text, MACROS[first].split()), _MINUTE, text, zone)
    if first.startswith("@"):
        reason = f"has no macro {first[:20]}; there are {', '.join(MACROS)} and {EVERY}"
        raise InvalidCronExpressionError(text, "expression", reason)
    unit = _SECOND if len(texts) == 6 else _MINUTE
    return FieldCron(parse_extended(text, texts), unit, text, zone)


def _load_zone(text: str, name: str) -> tzinfo:
    try:
        return load_zone(name)
    except InvalidZoneError as error:
        reason = f'names the zone "{name[:40]}", which does not exist: write one like Europe/London'
        raise InvalidCronExpressionError(text, "expression", reason) from error
