"""The next occurrences of a series, with notes at DST changes."""

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from itertools import islice

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import Recurrence, make_trigger
from rota.triggers.asked_times import asked_by_cron, asked_by_rule
from rota.triggers.cron import CronTrigger
from rota.triggers.dst_notes import AskedFor, Note, annotate
from rota.triggers.interval import Interval
from rota.triggers.protocol import Trigger
from rota.triggers.rrule.rule import RecurrenceRule
from rota.triggers.zone import Fold, Gap, load_zone

HIGHEST_COUNT = 1_000

_INSTANT = timedelta(microseconds=1)


class Upcoming(msgspec.Struct, frozen=True):
    """One occurrence: the instant, the wall time, and how DST affected it."""

    at: datetime
    local: datetime
    note: str | None = None


class Preview(msgspec.Struct, frozen=True):
    """The next occurrences of a series.

    ``skipped`` lists wall times that do not exist. ``is_complete``: the series has no further
    occurrences.
    """

    description: str
    occurrences: tuple[Upcoming, ...]
    skipped: tuple[str, ...]
    is_complete: bool


def preview_series(recurrence: Recurrence, start: datetime, count: int) -> Preview:
    """Up to ``count`` occurrences from ``start`` on. A series' COUNT is counted from ``start``."""
    if type(count) is not int or not 1 <= count <= HIGHEST_COUNT:
        raise InvalidInputError(
            f"count must be an integer from 1 to {HIGHEST_COUNT}, got {count!r}", {"field": "count"}
        )
    trigger = make_trigger(recurrence)
    found = list(islice(_walk(recurrence, trigger, start - _INSTANT), count + 1))
    shown = found[:count]
    zone = load_zone(recurrence.zone)
    gap, fold, asked_for = _rules_of(trigger, recurrence)
    told = annotate(shown, zone, asked_for, after=start - _INSTANT, gap=gap, fold=fold)
    return Preview(
        _describe(trigger),
        tuple(_show(at, zone, told.notes.get(at)) for at in shown),
        tuple(each.text for each in told.skipped),
        is_complete=len(found) <= count,
    )


def _walk(recurrence: Recurrence, trigger: Trigger, after: datetime) -> Iterator[datetime]:
    left = recurrence.count
    at = trigger.next_after(after)
    while at is not None and (recurrence.until is None or at <= recurrence.until) and left != 0:
        yield at
        left = None if left is None else left - 1
        at = trigger.next_after(at)


def _rules_of(trigger: Trigger, recurrence: Recurrence) -> tuple[Gap, Fold, AskedFor | None]:
    """The gap and fold rules, and the wall times the series asks for."""
    if isinstance(trigger, CronTrigger):
        return trigger.gap, trigger.fold, asked_by_cron(trigger.cron)
    gap, fold = recurrence.gap or "shift", recurrence.fold or "first"
    return gap, fold, asked_by_rule(trigger) if isinstance(trigger, RecurrenceRule) else None


def _describe(trigger: Trigger) -> str:
    if isinstance(trigger, CronTrigger):
        return trigger.cron.describe()
    return trigger.describe() if isinstance(trigger, RecurrenceRule | Interval) else ""


def _show(at: datetime, zone: tzinfo, note: Note | None) -> Upcoming:
    return Upcoming(at, at.astimezone(zone), None if note is None else note.text)
