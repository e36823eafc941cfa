"""What somebody should look at, judged from how a store stands."""

from datetime import timedelta
from typing import Literal

import msgspec

from rota.observing.standing import Standing

Concern = Literal["dead_letters", "stalled", "late", "set_aside", "pinned", "schema", "store"]

LATE_AFTER = timedelta(minutes=5)


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """What is still well: so many dead letters and stalled jobs, and jobs due for so long."""

    dead_letters: int = 0
    stalled: int = 0
    late_after: timedelta = LATE_AFTER


class Finding(msgspec.Struct, frozen=True):
    """One thing to look at: what it is, how many, and what to make of it."""

    concern: Concern
    count: int
    text: str


def list_findings(standing: Standing, thresholds: Thresholds | None = None) -> list[Finding]:
    """What is not well; empty when all is."""
    limits = thresholds or Thresholds()
    judged = (
        _judge_dead_letters(standing, limits),
        _judge_stalled(standing, limits),
        _judge_late(standing, limits),
        judge_set_aside(standing.set_aside_count),
        _judge_pinned(standing),
    )
    return [finding for finding in judged if finding is not None]


def _judge_dead_letters(standing: Standing, limits: Thresholds) -> Finding | None:
    count = standing.dead_count
    if count <= limits.dead_letters:
        return None
    return Finding("dead_letters", count, describe_dead(count))


def _judge_stalled(standing: Standing, limits: Thresholds) -> Finding | None:
    count = standing.stalled_count
    if count <= limits.stalled:
        return None
    return Finding("stalled", count, describe_stalled(count))


def _judge_late(standing: Standing, limits: Thresholds) -> Finding | None:
    late_for = standing.oldest_due_for
    if late_for <= limits.late_after:
        return None
    since = f"{standing.oldest_due_at:%Y-%m-%dT%H:%M:%SZ}"
    text = f"jobs are late: one is due since {since}, for {_in_words(late_for)}"
    return Finding("late", 1, text)


def judge_set_aside(count: int) -> Finding | None:
    """Records that cannot be read wait for somebody to mend them."""
    if not count:
        return None
    text = f"{count} records are set aside: they cannot be read, and are kept"
    if count == 1:
        text = "1 record is set aside: it cannot be read, and is kept"
    return Finding("set_aside", count, text)


def _judge_pinned(standing: Standing) -> Finding | None:
    if standing.pinned_by is None:
        return None
    text = f"the database cannot clear away what is gone: it is kept by {standing.pinned_by}"
    return Finding("pinned", 1, text)


def describe_dead(count: int) -> str:
    """A sentence about dead letters, one or many."""
    if count == 1:
        return "1 job has had its last attempt, and failed: a dead letter"
    return f"{count} jobs have had their last attempt, and failed: dead letters"


def describe_stalled(count: int) -> str:
    """A sentence about jobs that stalled, one or many."""
    if count == 1:
        return "1 job is stalled: its lease has run out, and no worker has rescued it"
    return f"{count} jobs are stalled: their leases have run out, and no worker has rescued them"


def _in_words(duration: timedelta) -> str:
    """Days, hours, minutes or seconds: the largest that fits, rounded down."""
    seconds = int(duration.total_seconds())
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            number = seconds // length
            return f"{number} {name}{'s' if number > 1 else ''}"
    return f"{seconds} seconds"
