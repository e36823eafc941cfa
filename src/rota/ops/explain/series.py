"""Explains a job by its series: rule, zone, DST changes, missed occurrences."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from rota.errors import RotaError
from rota.jobs import Job, Recurrence, make_trigger, next_occurrence
from rota.jobs.recurrence import SeriesEnd, assess_punctuality
from rota.ops.explain.explanation import Reason, end_sentence, show, zone_of
from rota.ops.explain.facts import JobFacts
from rota.rail.jobs import preview_series

_INSTANT = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)
_OVERLAPS = {
    "skip": "An occurrence that comes due while it runs is skipped.",
    "queue": "The first occurrence that comes while it runs follows at once, others are passed "
    "over.",
    "allow": "An occurrence that comes due while it runs starts in parallel.",
}


def describe_occurrence(job: Job) -> Iterator[Reason]:
    """The occurrence and the rule the job belongs to, and how DST affected it."""
    if job.recurrence is None:
        return
    at = job.occurrence_at or job.due_at
    try:
        preview = preview_series(job.recurrence, at, 1)
    except RotaError as error:
        yield Reason(
            code="occurrence",
            text=f"Its rule cannot be computed: {end_sentence(error.message)}",
            at=at,
        )
        return
    rule = preview.description or job.recurrence.text
    yield Reason(
        code="occurrence",
        text=f"It is the occurrence of {show(at, zone_of(job))} in a series: {rule} "
        f"({text_of(job.recurrence)}), in zone {job.recurrence.zone}.",
        at=at,
    )
    note = preview.occurrences[0].note if preview.occurrences else None
    if note is not None:
        yield Reason(code="clock_change", text=f"The {note}.", at=at)


def find_occurrence(job: Job, at: datetime) -> datetime | None:
    """The occurrence at this instant, else the first one in its minute, else None."""
    if job.recurrence is None:
        return None
    minute = at.replace(second=0, microsecond=0)
    try:
        trigger = make_trigger(job.recurrence)
        if trigger.next_after(at - _INSTANT) == at:
            return at
        first = trigger.next_after(minute - _INSTANT)
    except (RotaError, OverflowError):
        return None
    return first if first is not None and first < minute + _MINUTE else None


def describe_rule(job: Job, at: datetime) -> Iterator[Reason]:
    """The rule of the series, and how DST affects it at an occurrence."""
    recurrence = job.recurrence
    if recurrence is None:
        return
    try:
        preview = preview_series(recurrence, at, 1)
    except RotaError as error:
        text = f"Its rule cannot be computed: {end_sentence(error.message)}"
        yield Reason(code="occurrence", text=text, at=at)
        return
    rule = preview.description or recurrence.text
    text = f"Its rule is: {rule} ({text_of(recurrence)}), in zone {recurrence.zone}."
    yield Reason(code="occurrence", text=text)
    note = next((it.note for it in preview.occurrences if it.at == at), None)
    if note is not None:
        yield Reason(code="clock_change", text=f"The {note}.", at=at)


def describe_next(job: Job, at: datetime) -> Iterator[Reason]:
    """The next occurrence after an instant."""
    if job.recurrence is None:
        return
    try:
        after = make_trigger(job.recurrence).next_after(at)
    except (RotaError, OverflowError):
        return
    if after is not None:
        text = f"The next occurrence after that is {show(after, zone_of(job))}."
        yield Reason(code="next_occurrence", text=text, at=after)


def describe_misses(job: Job, now: datetime) -> Iterator[Reason]:
    """Missed occurrences that this job also covers."""
    if job.recurrence is None:
        return
    told = assess_punctuality(job, now)
    if told.missed_count:
        many = _occurrences(told.missed_count)
        yield Reason(
            code="missed",
            text=f"{many} of the series passed without a run; its handler gets the number.",
            at=told.scheduled_for,
        )
    if told.is_catch_up:
        yield Reason(
            code="catch_up",
            text="The next occurrence is already due: this run covers it too.",
            at=told.scheduled_for,
        )


def describe_overlap(job: Job) -> Iterator[Reason]:
    """What happens to occurrences that come due while the job runs."""
    if job.recurrence is not None:
        yield Reason(code="overlap", text=_OVERLAPS[job.recurrence.overlap])


def describe_future(facts: JobFacts) -> Iterator[Reason]:
    """How the series continues after this job."""
    job, successor = facts.job, facts.successor
    if job.recurrence is None:
        return
    zone = zone_of(job)
    if successor is not None:
        at = successor.occurrence_at or successor.due_at
        yield Reason(
            code="next_occurrence",
            text=f"The series goes on with job {successor.id}, for {show(at, zone)}.",
            at=at,
            job_id=successor.id,
        )
        return
    if job.status.is_terminal:
        yield Reason(code="series_end", text=f"No job follows it: {why_it_ends(facts)}.")
        return
    following = next_occurrence(job.recurrence, job.occurrence_at or job.due_at, facts.now)
    if isinstance(following, SeriesEnd):
        yield Reason(code="series_end", text=f"It is the last of its series: {following.reason}.")
    else:
        yield Reason(
            code="next_occurrence",
            text=f"The occurrence after it is {show(following.at, zone)}.",
            at=following.at,
        )


def why_it_ends(facts: JobFacts) -> str:
    """The next job was never created, or was removed."""
    job = facts.job
    if job.recurrence is None:
        return "it does not recur"
    if job.ending == "cancelled":
        return "the series ended when it was cancelled"
    if job.status == "BLOCKED":
        return "a dependency of its job failed"
    following = next_occurrence(job.recurrence, job.occurrence_at or job.due_at, job.updated_at)
    if isinstance(following, SeriesEnd):
        return following.reason
    return "the next job no longer exists"


def text_of(recurrence: Recurrence) -> str:
    """The rule as it was written."""
    if recurrence.rrule is not None:
        return recurrence.rrule.replace("\r\n", " ").replace("\n", " ")
    return f"every {recurrence.interval}" if recurrence.interval else recurrence.text


def _occurrences(count: int) -> str:
    return "One occurrence" if count == 1 else f"{count} occurrences"
