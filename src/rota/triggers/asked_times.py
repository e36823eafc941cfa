"""The wall times that a schedule asks for, before DST changes apply.

In UTC every wall time happens once, so the schedule itself can be asked there.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rota.triggers.cron.expression import Cron, FieldCron
from rota.triggers.dst_notes import AskedFor
from rota.triggers.rrule.rule import Exclusions, RecurrenceRule
from rota.triggers.zone import wall_time

_TICK = timedelta.resolution


def asked_by_cron(cron: Cron) -> AskedFor | None:
    """The wall times of an expression; None for one that counts elapsed time."""
    if not isinstance(cron, FieldCron):
        return None

    def asked_for(start: datetime, end: datetime) -> Iterator[datetime]:
        for instant in cron.between(_before(start), _before(end), UTC):
            yield instant.replace(tzinfo=None)

    return asked_for


def asked_by_rule(rule: RecurrenceRule) -> AskedFor | None:
    """The wall times of a rule without its RDATEs; None for one that steps in elapsed time."""
    if rule.parts.frequency.is_sub_daily:
        return None
    twin = _without_zone(rule)

    def asked_for(start: datetime, end: datetime) -> Iterator[datetime]:
        for instant in twin.between(_before(start), _before(end)):
            yield instant.replace(tzinfo=None)

    return asked_for


def _without_zone(rule: RecurrenceRule) -> RecurrenceRule:
    """The same rule on the same wall clock, in a zone that never changes."""
    parts = rule.parts
    if isinstance(parts.until, datetime) and parts.until.tzinfo is not None:
        until = wall_time(parts.until, rule.zone).replace(fold=0)
        parts = replace(parts, until=until)
    frame = replace(rule.frame, zone=UTC, start_at=rule.frame.start_wall)
    days_only = Exclusions(days=rule.excluded.days)
    return replace(rule, parts=parts, frame=frame, added=(), excluded=days_only)


def _before(wall: datetime) -> datetime:
    """The last instant before ``wall``: what a schedule calls a stretch ends with its end."""
    return wall.replace(tzinfo=UTC) - _TICK
