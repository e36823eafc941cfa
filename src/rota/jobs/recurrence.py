"""Series: when they occur next, the job of the next occurrence, and how punctual a run is."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rota.errors import RotaError
from rota.jobs.codec import format_instant
from rota.jobs.fields import derive_job_id
from rota.jobs.record import PAUSED_UNTIL, Change, Job, JobId, Recurrence
from rota.jobs.states import Ending, JobStatus
from rota.triggers import Trigger
from rota.triggers.cron import CronTrigger, Every, parse_cron
from rota.triggers.cron_dialects import EVERY
from rota.triggers.interval import Interval
from rota.triggers.rrule import parse_rrule
from rota.triggers.zone import load_zone

MISSED_LIMIT = 1_000
"""The maximum number of missed occurrences counted when no ``count`` depends on them."""

CATCH_UP_LIMIT = 1_000
"""The maximum number of missed occurrences that run one by one; older ones are skipped."""

SKIPPED_AFTER = timedelta(minutes=1)
"""With ``catch_up="skip"``, an occurrence that is later than this is missed and does not run."""

MISSED = "skipped: it could not start in time, and its series skips missed occurrences"
"""The reason that a skipped occurrence keeps."""

CALENDAR_END = datetime(9999, 12, 30, tzinfo=UTC)
"""No series occurs later: wall times in every zone and a pause still fit the calendar."""

_ON_TIME = timedelta(0)
_SECOND = timedelta(seconds=1)
_INSTANT_BEFORE = timedelta(microseconds=1)
_FRACTIONS = 1 << 32
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

    Raises the parsers' errors. Ignores everything that does not say when.
    """
    return _make_trigger(
        replace(
            recurrence,
            until=None,
            count=None,
            overlap="skip",
            catch_up="once",
            jitter=None,
            alert_after=None,
            unmet_since=None,
            is_continued=False,
        )
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


def alert_at(job: Job) -> datetime | None:
    """When there is an alert if the series of this live job has not succeeded; None: never."""
    recurrence = job.recurrence
    if recurrence is None or recurrence.alert_after is None:
        return None
    since = recurrence.unmet_since or job.occurrence_at or job.due_at
    try:
        return since + parse_jitter(recurrence.alert_after)
    except OverflowError:
        return None


def parse_jitter(text: str) -> timedelta:
    """The longest delay that a jitter such as ``5m`` gives. Raises the parser's error."""
    parsed = parse_cron(f"{EVERY} {text}", dialect="extended")
    return parsed.period if isinstance(parsed, Every) else _ON_TIME


def start_at(recurrence: Recurrence, series_id: JobId, occurrence_at: datetime) -> datetime:
    """When the job of an occurrence is due: then, or later by its share of the jitter.

    The share follows from the series and the occurrence alone. So retries and all hosts agree, and
    series with the same rule spread.
    """
    if recurrence.jitter is None:
        return occurrence_at
    digest = sha256(f"{series_id}|{format_instant(occurrence_at)}".encode()).digest()
    longest = parse_jitter(recurrence.jitter) // timedelta(milliseconds=1)
    share = int.from_bytes(digest[:4]) * (longest + 1) // _FRACTIONS
    try:
        return occurrence_at + timedelta(milliseconds=share)
    except OverflowError:
        return occurrence_at


class _Timetable(NamedTuple):
    """The occurrences of one series, and when their jobs are due."""

    trigger: Trigger
    recurrence: Recurrence
    series_id: JobId

    def start_at(self, occurrence_at: datetime) -> datetime:
        return start_at(self.recurrence, self.series_id, occurrence_at)

    def next_due(self, after: datetime, now: datetime) -> datetime | None:
        """The first occurrence after ``after`` whose job is due later than ``now``."""
        longest = _ON_TIME
        if self.recurrence.jitter is not None:
            longest = parse_jitter(self.recurrence.jitter)
        at = self.trigger.next_after(max(after, now - longest))
        while at is not None and self.start_at(at) <= now:
            at = self.trigger.next_after(at)
        return at

    def count_due(self, after: datetime, upto: datetime, limit: int) -> int:
        """How many occurrences after ``after`` are due up to ``upto``; at most ``limit``."""
        if isinstance(self.trigger, Interval) and self.recurrence.jitter is None:
            anchor, every = self.trigger.anchor, self.trigger.every
            steps = [(at - anchor) // every for at in (after, upto)]
            return min(steps[1] - steps[0], limit)
        count = 0
        at = self.trigger.next_after(after)
        while at is not None and self.start_at(at) <= upto and count < limit:
            count += 1
            at = self.trigger.next_after(at)
        return count

    def continue_after(
        self, occurrence_at: datetime, now: datetime, started_at: datetime | None
    ) -> tuple[datetime | None, datetime]:
        """Where a series that missed occurrences continues, and up to when all are skipped."""
        if self.recurrence.catch_up == "all":
            skipped_until = self._first_to_catch_up(occurrence_at, now)
            return self.trigger.next_after(skipped_until), skipped_until
        if self.recurrence.overlap == "queue" and started_at is not None:
            queued = self.next_due(occurrence_at, started_at)
            if queued is not None and self.start_at(queued) <= now:
                return queued, started_at
        return self.next_due(occurrence_at, now), now

    def _first_to_catch_up(self, occurrence_at: datetime, now: datetime) -> datetime:
        """An instant after which at most the limit of occurrences are due by now."""
        if self._can_catch_up(occurrence_at, now):
            return occurrence_at
        too_early, found = occurrence_at, now
        while found - too_early > _SECOND:
            middle = too_early + (found - too_early) / 2
            if self._can_catch_up(middle, now):
                found = middle
            else:
                too_early = middle
        return found

    def _can_catch_up(self, after: datetime, now: datetime) -> bool:
        return self.count_due(after, now, CATCH_UP_LIMIT + 1) <= CATCH_UP_LIMIT


def first_occurrence(recurrence: Recurrence, now: datetime | None = None) -> datetime | None:
    """The first occurrence at or after the start; None when there is none up to ``until``.

    A series that skips missed occurrences begins at or after ``now``, if that is given.
    """
    start = recurrence.start
    if recurrence.catch_up == "skip" and now is not None:
        start = max(start, now)
    return _first_from(recurrence, start)


def _first_from(recurrence: Recurrence, start: datetime) -> datetime | None:
    at = make_trigger(recurrence).next_after(start - _INSTANT_BEFORE)
    if at is None or at > min(recurrence.until or CALENDAR_END, CALENDAR_END):
        return None
    return at


def next_occurrence(
    recurrence: Recurrence,
    occurrence_at: datetime,
    now: datetime,
    started_at: datetime | None = None,
    series_id: JobId = "",
) -> NextOccurrence | SeriesEnd:
    """The occurrence after ``occurrence_at`` when its job ends at ``now``.

    It is the first one strictly after that occurrence or, when that is in the past, the first after
    now: missed occurrences are counted, not run. With catch-up ``all`` each of them follows. With
    overlap ``queue``, the first one that came due since the job's last attempt, at ``started_at``,
    follows at once. ``series_id`` decides the jitter. A series that cannot be computed, for example
    because of an unknown zone, ends with the reason.
    """
    try:
        timetable = _Timetable(make_trigger(recurrence), recurrence, series_id)
        at = timetable.trigger.next_after(occurrence_at)
        missed_count = 0
        if at is not None and timetable.start_at(at) < now:
            at, passed_until = timetable.continue_after(occurrence_at, now, started_at)
            limit = MISSED_LIMIT if recurrence.count is None else recurrence.count
            missed_count = _count_passed(timetable, occurrence_at, passed_until, limit)
    except RotaError as error:
        return SeriesEnd(f"its next occurrence cannot be computed: {error.message}")
    return _within_limits(recurrence, at, missed_count)


def _count_passed(timetable: _Timetable, after: datetime, until: datetime, limit: int) -> int:
    if timetable.recurrence.catch_up == "all":
        timetable = timetable._replace(recurrence=replace(timetable.recurrence, jitter=None))
    return timetable.count_due(after, until, limit)


def count_missed(
    recurrence: Recurrence, after: datetime, upto: datetime, series_id: JobId = ""
) -> int:
    """How many occurrences after ``after`` are due up to ``upto``, up to the counting limit.

    None when the series cannot be computed.
    """
    try:
        return _Timetable(make_trigger(recurrence), recurrence, series_id).count_due(
            after, upto, MISSED_LIMIT
        )
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


def _within_limits(
    recurrence: Recurrence, at: datetime | None, missed_count: int
) -> NextOccurrence | SeriesEnd:
    left = None if recurrence.count is None else recurrence.count - 1 - missed_count
    if left is not None and left <= 0:
        return SeriesEnd("it has occurred as often as its count says")
    if at is None or at > CALENDAR_END:
        return SeriesEnd("its rule has no further occurrence")
    if recurrence.until is not None and at > recurrence.until:
        return SeriesEnd("its next occurrence would be after its until")
    return NextOccurrence(at, missed_count, replace(recurrence, count=left, is_continued=False))


def continue_series(
    job: Job, now: datetime, *, skips_missed: bool = False, has_succeeded: bool = False
) -> dict[str, Any]:
    """The fields of a ``Change`` that continue the job's series; none if it has gone on already.

    The successor starts without attempts and without dependencies: those belong to the first
    occurrence. ``skips_missed``: the series goes on after now, whatever its catch-up says.
    """
    recurrence = job.recurrence
    if recurrence is None or recurrence.is_continued:
        return {}
    rule = replace(recurrence, catch_up="once") if skips_missed else recurrence
    occurrence_at = job.occurrence_at or job.due_at
    started_at = None if job.lease is None else max(job.lease.taken_at, occurrence_at)
    following = next_occurrence(rule, occurrence_at, now, started_at, series_of(job))
    if isinstance(following, SeriesEnd):
        return {"series_end": following.reason}
    unmet_since = None
    if recurrence.alert_after is not None and not has_succeeded:
        unmet_since = recurrence.unmet_since or occurrence_at
    kept = replace(following.recurrence, catch_up=recurrence.catch_up, unmet_since=unmet_since)
    successor = _follow(job, occurrence_at, replace(following, recurrence=kept), now)
    if rule.catch_up == "all":
        successor = replace(successor, missed_count=following.missed_count)
    elif started_at is not None and following.missed_count and successor.due_at > now:
        unreported_count = count_missed(rule, started_at, now, series_of(job))
        successor = replace(successor, missed_count=unreported_count)
    return {"successor": successor, "missed_count": following.missed_count}


def skip_occurrence(job: Job, now: datetime) -> dict[str, Any]:
    """As ``continue_series``, for a job that never ran: its successor reports what it missed."""
    fields = continue_series(job, now)
    if "successor" not in fields:
        return fields
    missed_count = fields["missed_count"] + 1
    successor = replace(fields["successor"], missed_count=job.missed_count + missed_count)
    return {"successor": successor, "missed_count": missed_count}


def is_missed(job: Job, now: datetime) -> bool:
    """Whether the job's series skips it, because it would start too late.

    Lateness is measured from when the job could start: a gate, a snooze or an operator moves that.
    A job that has been attempted is not missed.
    """
    if job.recurrence is None or job.recurrence.catch_up != "skip" or job.attempt_count:
        return False
    return now - max(job.due_at, job.created_at) > SKIPPED_AFTER


def is_skipped(job: Job) -> bool:
    """Whether the job ended because its series skips missed occurrences."""
    return job.last_error == MISSED and job.ending is Ending.CANCELLED


def begin_beside(job: Job, now: datetime) -> Change | None:
    """Create the next job of a series with overlapping occurrences when the current one starts.

    None for other series, and for a job that has done so in an earlier attempt. The store notes
    with the job that its series goes on, so that neither its end nor a retry creates another.
    """
    rule = job.recurrence
    if rule is None or rule.overlap != "allow" or rule.is_continued:
        return None
    occurrence_at = job.occurrence_at or job.due_at
    following = next_occurrence(rule, occurrence_at, now, series_id=series_of(job))
    if isinstance(following, SeriesEnd):
        return None
    successor = _follow(job, occurrence_at, following, now)
    return Change(job=job, path=(job.status,), expected_token=job.last_token, successor=successor)


def reschedule(job: Job, recurrence: Recurrence, now: datetime) -> dict[str, Any]:
    """The fields of a job whose series has a new rule.

    A job that has begun, or is due already, keeps its occurrence; its successor follows the new
    rule. Any other job moves to the rule's next occurrence. If there is none, the job keeps its
    occurrence and is the last.
    """
    if job.recurrence is not None:
        recurrence = replace(recurrence, is_continued=job.recurrence.is_continued)
        if recurrence.alert_after is not None:
            recurrence = replace(recurrence, unmet_since=job.recurrence.unmet_since)
    has_begun = job.status is JobStatus.RUNNING or job.attempt_count > 0
    if has_begun or job.due_at <= now or is_same_timing(job.recurrence, recurrence):
        return {"recurrence": recurrence}
    at = _first_from(recurrence, max(recurrence.start, now))
    if at is None:
        return {"recurrence": recurrence}
    due_at = PAUSED_UNTIL if job.is_paused else start_at(recurrence, series_of(job), at)
    return {"recurrence": recurrence, "occurrence_at": at, "due_at": due_at}


def is_same_timing(before: Recurrence | None, after: Recurrence) -> bool:
    """Whether both occur at the same instants, and start their jobs at the same instants."""
    if before is None:
        return False
    return (make_trigger(before), before.until, before.jitter) == (
        make_trigger(after),
        after.until,
        after.jitter,
    )


def series_of(job: Job) -> JobId:
    """The id of the job's series: that of its first job."""
    return job.origin or job.id


def occurrence_of(job: Job) -> datetime:
    """The occurrence that the job is for; of a job without a series, when it is due."""
    return job.occurrence_at or job.due_at


def planned_start(job: Job) -> datetime:
    """When the job is due by its schedule, whatever has moved it since."""
    if job.recurrence is None or job.occurrence_at is None:
        return occurrence_of(job)
    return start_at(job.recurrence, series_of(job), job.occurrence_at)


def _follow(job: Job, occurrence_at: datetime, following: NextOccurrence, now: datetime) -> Job:
    return Job(
        id=derive_job_id(job.id, occurrence_at),
        tenant=job.tenant,
        queue=job.queue,
        name=job.name,
        kind=job.kind,
        payload=job.payload,
        priority=job.priority,
        due_at=(
            PAUSED_UNTIL
            if job.is_paused
            else start_at(following.recurrence, series_of(job), following.at)
        ),
        status=JobStatus.READY,
        retry_policy=job.retry_policy,
        idempotency_key=job.idempotency_key,
        occurrence=occurrence_key(job.kind, following.recurrence, following.at),
        occurrence_at=following.at,
        origin=job.origin or job.id,
        recurrence=following.recurrence,
        is_paused=job.is_paused,
        auto_remove=job.auto_remove,
        notifies=job.notifies,
        label=job.label,
        created_at=now,
        updated_at=now,
    )


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
    late_for = max(now - planned_start(job), _ON_TIME)
    rule = job.recurrence
    if rule is None or rule.overlap == "allow" or rule.catch_up == "all":
        return Punctuality(scheduled_for, late_for, job.missed_count)
    since_count = count_missed(rule, scheduled_for, now, series_of(job))
    return Punctuality(scheduled_for, late_for, job.missed_count + since_count, since_count > 0)
