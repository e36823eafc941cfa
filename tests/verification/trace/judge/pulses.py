"""When an expression is due, asked lazily: no pulse of an idle year is ever enumerated."""

from datetime import datetime, timedelta, tzinfo
from functools import lru_cache

from tests.verification.trace.editions import Dialect

from rota.errors import CronCalculationError
from rota.triggers.cron import parse_cron
from rota.triggers.zone import Fold, wall_time

_parse = lru_cache(maxsize=4096)(parse_cron)
_INSTANT_BEFORE = timedelta(microseconds=1)


class Pulses:
    """The due instants of every expression of a trace, in one zone and under one fold rule."""

    def __init__(self, zone: tzinfo, fold: Fold, dialect: Dialect) -> None:
        self._zone = zone
        self._fold: Fold = fold
        self._dialect: Dialect = dialect
        self._found: dict[tuple[str, datetime], datetime | None] = {}

    def first_after(self, expression: str, instant: datetime) -> datetime | None:
        """The first due instant strictly after; None when the calendar has no more."""
        key = (expression, instant)
        if key not in self._found:
            self._found[key] = self._search(expression, instant)
        return self._found[key]

    def is_due_within(self, expression: str, after: datetime, until: datetime) -> bool:
        """Whether a due instant lies in ``(after, until]``."""
        if until <= after:
            return False
        due_at = self.first_after(expression, after)
        return due_at is not None and due_at <= until

    def before_minute(self, instant: datetime) -> datetime:
        """The last moment before the civil minute that holds ``instant``."""
        wall = wall_time(instant, self._zone)
        into_minute = timedelta(seconds=wall.second, microseconds=wall.microsecond)
        return instant - into_minute - _INSTANT_BEFORE

    def _search(self, expression: str, instant: datetime) -> datetime | None:
        cron = _parse(expression, self._dialect)
        try:
            return cron.next_after(instant, self._zone, fold=self._fold)
        except CronCalculationError:
            return None
