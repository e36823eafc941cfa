"""Series: when they occur next, the job of the next occurrence, and how punctual a run is."""

from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from rota.errors import RotaError
from rota.jobs.codec import format_instant
from rota.jobs.identity import derive_job_id
from rota.jobs.record import PAUSED_UNTIL, Job, Recurrence
from rota.jobs.states import JobStatus
from rota.triggers import Trigger
from rota.triggers.cron import CronTrigger, Every, parse_cron
from rota.triggers.cron_dialects import EVERY
from rota.triggers.interval import Interval
from rota.triggers.rrule import parse_rrule
from rota.triggers.zone import load_zone

MISSED_LIMIT = 1_000
"""The maximum number of missed occurrences counted when no ``count`` depends on them."""

_INSTANT_BEFORE = timedelta(microseconds=1)
_LONGEST_KEY_TEXT = 200
_KEPT_TRIGGERS = 1_024


class NextOccurrence(msgspec.Struct, frozen=True, gc=False):
    """The next occurrence, how many were skipped, and what is left of the series."""

    at: datetime
    missed_count: int
    recurrence: Recurrence


class SeriesEnd(msgspec.Struct, frozen=True, gc=False):
    """The series has ended, and why."""

    reason: str


def make_trigger(recurrence: Recurrence) -> Trigger:
    """The trigger of the recurrence, bound to its zone and start.

    Raises the parsers' errors. Ignores ``until`` and ``count``.
    """
    return _make_trigger(
        msgspec.structs.replace(recurrence, until=None, count=None, overlap="skip")
    )


@lru_cache(maxsize=_KEPT_TRIGGERS)
def _make_trigger(recurrence: Recurrence) -> Trigger:
    zone = load_zone(recurrence.zone)
    gap, fold = recurrence.gap, recurrence.fold
    if recurrence.rrule is not None:
        return parse_rrule(
            recurrence.rrule,
            zone=zone,
            start=recurrence.start,
            gap=gap or "shift",
            fold=fold or "first",
        )
    text = recurrence.cron if recurrence.interval is None else f"{EVERY} {recurrence.interval}"
    cron = parse_cron(text or "", dialect="extended")
    if isinstance(cron, Every):
        return Interval(cron.period, recurrence.start)
    return CronTrigger(cron, zone, gap or "skip", fold or "both")


def first_occurrence(recurrence: Recurrence) -> datetime | None:
    """The first occurrence at or after the start; None when there is none up to ``until``."""
    at = make_trigger(recurrence).next_after(recurrence.start - _INSTANT_BEFORE)
    if at is None or (recurrence.until is not None and at > recurrence.until):
        return None
    return at


def next_occurrence(
    recurrence: Recurrence,
    occurrence_at: datetime,
    now: datetime,
    started_at: datetime | None = None,
) -> NextOccurrence | SeriesEnd:
    """The occurrence after ``occurrence_at`` when its job ends at ``now``.

    It is the first one strictly after that occurrence or, when that is in the past, the first after
    now: missed occurrences are counted, not run. With overlap ``queue``, the first one that came
    due since the job's last attempt, at ``started_at``, follows at once. A series that cannot be
    computed, for example because of an unknown zone, ends with the reason.
    """
    try:
        trigger = make_trigger(recurrence)
        at = trigger.next_after(occurrence_at)
        missed_count = 0
        if at is not None and at < now:
            at, passed_until = _past_misses(trigger, recurrence, now, started_at)
            limit = MISSED_LIMIT if recurrence.count is None else recurrence.count
            missed_count = _count_between(trigger, occurrence_at, passed_until, limit)
    except RotaError as error:
        return SeriesEnd(f"its next occurrence cannot be computed: {error.message}")
    return _within_limits(recurrence, at, missed_count)


def count_missed(recurrence: Recurrence, after: datetime, upto: datetime) -> int:
    """How many occurrences lie in ``(after, upto]``, up to the counting limit.

    None when the series cannot be computed.
    """
    try:
        return _count_between(make_trigger(recurrence), after, upto, MISSED_LIMIT)
    except RotaError:
        return 0


def occurrence_key(kind: str, recurrence: Recurrence, at: datetime) -> str:
    """The unique name of one occurrence of a kind.

    It is ``kind:text:instant``; a text too long for an index is replaced by its digest.
    """
    text = recurrence.text
    if len(text) > _LONGEST_KEY_TEXT:
        text = sha256(text.encode()).hexdigest()
    return f"{kind}:{text}:{format_instant(at)}"


def _past_misses(
    trigger: Trigger, recurrence: Recurrence, now: datetime, started_at: datetime | None
) -> tuple[datetime | None, datetime]:
    """Where a series that missed occurrences continues, and up to when all are skipped."""
    if recurrence.overlap == "queue" and started_at is not None:
        queued = trigger.next_after(started_at)
        if queued is not None and queued <= now:
            return queued, started_at
    return trigger.next_after(now), now


def _within_limits(
    recurrence: Recurrence, at: datetime | None, missed_count: int
) -> NextOccurrence | SeriesEnd:
    left = None if recurrence.count is None else recurrence.count - 1 - missed_count
    if left is not None and left <= 0:
        return SeriesEnd("it has occurred as often as its count says")
    if at is None:
        return SeriesEnd("its rule has no further occurrence")
    if recurrence.until is not None and at > recurrence.until:
        return SeriesEnd("its next occurrence would be after its until")
    return NextOccurrence(at, missed_count, msgspec.structs.replace(recurrence, count=left))


def _count_between(trigger: Trigger, after: datetime, upto: datetime, limit: int) -> int:
    """How many occurrences lie in ``(after, upto]``; at most ``limit`` are counted."""
    if isinstance(trigger, Interval):
        steps = [(at - trigger.anchor) // trigger.every for at in (after, upto)]
        return min(steps[1] - steps[0], limit)
    count = 0
    at = trigger.next_after(after)
    while at is not None and at <= upto and count < limit:
        count += 1
        at = trigger.next_after(at)
    return count


def continue_series(job: Job, now: datetime) -> dict[str, Any]:
    """The fields of a ``Change`` that continue the job's series; none without a series.

    The successor starts without attempts and without dependencies: those belong to the first
    occurrence.
    """
    if job.recurrence is None:
        return {}
    occurrence_at = job.occurrence_at or job.due_at
    started_at = None if job.lease is None else max(job.lease.taken_at, occurrence_at)
    following = next_occurrence(job.recurrence, occurrence_at, now, started_at)
    if isinstance(following, SeriesEnd):
        return {"series_end": following.reason}
    successor = _follow(job, occurrence_at, following, now)
    if started_at is not None and following.missed_count and following.at > now:
        unreported_count = count_missed(job.recurrence, started_at, now)
        successor = replace(successor, missed_count=unreported_count)
    return {"successor": successor, "missed_count": following.missed_count}


def begin_beside(job: Job, now: datetime) -> Job | None:
    """The next job of a series with overlapping occurrences, created when the current one starts.

    None for other series. Its id is the one that the end of the job would give it, so it is created
    once.
    """
    if job.recurrence is None or job.recurrence.overlap != "allow":
        return None
    occurrence_at = job.occurrence_at or job.due_at
    following = next_occurrence(job.recurrence, occurrence_at, now)
    if isinstance(following, SeriesEnd):
        return None
    return _follow(job, occurrence_at, following, now)


def _follow(job: Job, occurrence_at: datetime, following: NextOccurrence, now: datetime) -> Job:
    return Job(
        id=derive_job_id(job.id, occurrence_at),
        tenant=job.tenant,
        queue=job.queue,
        name=job.name,
        kind=job.kind,
        payload=job.payload,
        priority=job.priority,
        due_at=PAUSED_UNTIL if job.is_paused else following.at,
        status=JobStatus.READY,
        retry_policy=job.retry_policy,
        idempotency_key=job.idempotency_key,
        occurrence=occurrence_key(job.kind, following.recurrence, following.at),
        occurrence_at=following.at,
        origin=job.origin or job.id,
        recurrence=following.recurrence,
        is_paused=job.is_paused,
        auto_remove=job.auto_remove,
        created_at=now,
        updated_at=now,
    )


_ON_TIME = timedelta(0)


class Punctuality(msgspec.Struct, frozen=True, gc=False):
    """When a run was due, how late it is, and what else it covers.

    ``missed_count`` is the number of occurrences without a run that this run is the first to
    report. Each is reported once, unless the run is repeated. ``is_catch_up``: the next occurrence
    is already due, and this run covers it too.
    """

    scheduled_for: datetime
    late_for: timedelta
    missed_count: int = 0
    is_catch_up: bool = False


def assess_punctuality(job: Job, now: datetime) -> Punctuality:
    """What a handler that starts at ``now`` should know about its job's timing.

    A job of a series is judged by its occurrence, even when it was moved. Any other job is judged
    by its due time, which a retry moves.
    """
    scheduled_for = job.occurrence_at or job.due_at
    late_for = max(now - scheduled_for, _ON_TIME)
    if job.recurrence is None or job.recurrence.overlap == "allow":
        return Punctuality(scheduled_for, late_for, job.missed_count)
    since_count = count_missed(job.recurrence, scheduled_for, now)
    return Punctuality(scheduled_for, late_for, job.missed_count + since_count, since_count > 0)
