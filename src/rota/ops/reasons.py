"""The reasons in an explanation: the series of a job, and what holds a due job back."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rota.errors import RotaError
from rota.fleet.presence import WorkerPresence
from rota.jobs import Job, Recurrence, make_trigger, next_occurrence, planned_start
from rota.jobs.recurrence import SeriesEnd, assess_punctuality, occurrence_of, series_of
from rota.ops.explanation import (
    JobFacts,
    Reason,
    Snapshot,
    end_sentence,
    format_duration,
    show,
    zone_of,
)
from rota.ops.kinds import ANY_KIND
from rota.policy.gates import Closed
from rota.policy.limits import Limit, Pause, key_of, next_token_at, take_tokens
from rota.policy.quiet_hours import REASON as QUIET
from rota.rail.jobs import preview_series
from rota.stores.kernel.limits import Room
from rota.stores.protocol import Cap, is_chosen

_INSTANT = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)
_OVERLAPS = {
    "skip": "An occurrence that comes due while it runs is skipped.",
    "queue": "The first occurrence that comes while it runs follows at once, others are passed "
    "over.",
    "allow": "An occurrence that comes due while it runs starts in parallel.",
}

_CATCH_UPS = {
    "once": "Occurrences that no worker could run in time are covered by one late run.",
    "skip": "An occurrence that cannot start within a minute of its time is skipped.",
    "all": "Occurrences that no worker could run in time run one by one, each as its own job.",
}


def describe_occurrence(job: Job) -> Iterator[Reason]:
    """The occurrence and the rule the job belongs to, and how DST affected it."""
    if job.recurrence is None:
        return
    at, zone = occurrence_of(job), zone_of(job)
    yield from _describe(
        job.recurrence, at, f"It is the occurrence of {show(at, zone)} in a series"
    )
    if job.recurrence.jitter is not None:
        start = planned_start(job)
        text = f"Its jitter of up to {job.recurrence.jitter} moves it to {show(start, zone)}."
        yield Reason("jitter", text, at=start)


def describe_rule(job: Job, at: datetime) -> Iterator[Reason]:
    """The rule of the series, and how DST affects it at an occurrence."""
    if job.recurrence is not None:
        yield from _describe(job.recurrence, at, "Its rule is")


def _describe(recurrence: Recurrence, at: datetime, beginning: str) -> Iterator[Reason]:
    try:
        preview = preview_series(recurrence, at, 1)
    except RotaError as error:
        text = f"Its rule cannot be computed: {end_sentence(error.message)}"
        yield Reason("occurrence", text, at=at)
        return
    rule = f"{preview.description or recurrence.text} ({text_of(recurrence)})"
    yield Reason("occurrence", f"{beginning}: {rule}, in zone {recurrence.zone}.", at=at)
    note = next((it.note for it in preview.occurrences if it.at == at), None)
    if note is not None:
        yield Reason("clock_change", f"The {note}.", at=at)


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
        yield Reason("next_occurrence", text, at=after)


def describe_misses(job: Job, now: datetime) -> Iterator[Reason]:
    """Missed occurrences that this job also covers."""
    if job.recurrence is None:
        return
    punctuality = assess_punctuality(job, now)
    count = punctuality.missed_count
    if count:
        many = "One occurrence" if count == 1 else f"{count} occurrences"
        yield Reason(
            "missed",
            f"{many} of the series passed without a run; its handler gets the number.",
            at=punctuality.scheduled_for,
        )
    if punctuality.is_catch_up:
        yield Reason(
            "catch_up",
            "The next occurrence is already due: this run covers it too.",
            at=punctuality.scheduled_for,
        )


def describe_overlap(job: Job) -> Iterator[Reason]:
    """What happens to occurrences that come due while the job runs."""
    if job.recurrence is not None:
        yield Reason("overlap", _OVERLAPS[job.recurrence.overlap])


def describe_catch_up(job: Job) -> Iterator[Reason]:
    """What happens to occurrences that no worker could run in time, unless it is the usual."""
    if job.recurrence is not None and job.recurrence.catch_up != "once":
        yield Reason("catch_up", _CATCH_UPS[job.recurrence.catch_up])


def describe_future(facts: JobFacts) -> Iterator[Reason]:
    """How the series continues after this job."""
    job, successor = facts.job, facts.successor
    if job.recurrence is None:
        return
    zone = zone_of(job)
    if successor is not None:
        at = occurrence_of(successor)
        yield Reason(
            "next_occurrence",
            f"The series continues with job {successor.id}, for {show(at, zone)}.",
            at=at,
            job_id=successor.id,
        )
        return
    if job.status.is_terminal:
        yield Reason("series_end", f"No job follows it: {why_it_ends(facts)}.")
        return
    at = occurrence_of(job)
    following = next_occurrence(job.recurrence, at, facts.now, series_id=series_of(job))
    if isinstance(following, SeriesEnd):
        yield Reason("series_end", f"It is the last of its series: {following.reason}.")
    else:
        yield Reason(
            "next_occurrence",
            f"The occurrence after it is {show(following.at, zone)}.",
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
    at = occurrence_of(job)
    following = next_occurrence(job.recurrence, at, job.updated_at, series_id=series_of(job))
    if isinstance(following, SeriesEnd):
        return following.reason
    return "the next job no longer exists"


def text_of(recurrence: Recurrence) -> str:
    """The rule as it was written."""
    if recurrence.rrule is not None:
        return recurrence.rrule.replace("\r\n", " ").replace("\n", " ")
    return f"every {recurrence.interval}" if recurrence.interval else recurrence.text


def list_holds(job: Job, snapshot: Snapshot, at: datetime) -> list[Reason]:
    """Everything that would hold the job back at that instant.

    Limits and workers are known for now only.
    """
    return [
        *_judge_gates(job, snapshot, at),
        *_judge_places(job, snapshot),
        *_judge_rates(job, snapshot, at),
        *judge_workers(job, snapshot.workers),
    ]


def list_lasting_holds(job: Job, snapshot: Snapshot | None, at: datetime) -> list[Reason]:
    """What would hold the job back at a later instant: limits of now say nothing about it."""
    holds = [] if snapshot is None else list_holds(job, snapshot, at)
    return [hold for hold in holds if hold.code in ("gate", "no_worker")]


def describe_start(when: str, holds: list[Reason], facts: JobFacts) -> tuple[str, datetime | None]:
    """The sentence about a start that is to come, and until when a gate holds it back."""
    held_until = next((it.until for it in holds if it.code == "gate"), None)
    if held_until is None:
        return f"It will run at {when}.", None
    opens = facts.show(held_until)
    return f"It is due at {when}, but a gate will be closed until {opens}.", held_until


def suspect_quiet_hours(job: Job, snapshot: Snapshot, at: datetime) -> Reason | None:
    """Quiet hours hold back jobs that notify people. Only workers know whether this job does."""
    if is_known_to_notify(job):
        return None
    if isinstance(snapshot.board.judge(job, at, notifies=False), Closed):
        return None
    verdict = snapshot.board.judge(job, at, notifies=True)
    if not isinstance(verdict, Closed):
        return None
    return Reason(
        "gate",
        f"If jobs of its kind notify people, quiet hours hold it back until "
        f"{show(verdict.reopens_at, zone_of(job))}.",
        at=at,
        until=verdict.reopens_at,
    )


def describe_line(job: Job, snapshot: Snapshot) -> Reason | None:
    """How many other jobs are due."""
    depth = snapshot.depth
    if depth is None or depth.due_count < 2:
        return None
    others = depth.due_count - 1
    one = "One other job of its queue is" if others == 1 else f"{others} others of its queue are"
    return Reason(
        "line",
        f"{one} due as well; the more urgent come first, then the older. "
        f"Its priority is {job.priority}.",
        at=depth.oldest_due_at,
    )


def serves(worker: WorkerPresence, job: Job) -> bool:
    """Whether the worker takes the job's queue, tenant and label, and has a handler."""
    has_handler = job.kind in worker.kinds or ANY_KIND in worker.kinds
    return takes(worker, job) and has_handler and _offers(worker, job)


def takes(worker: WorkerPresence, job: Job) -> bool:
    """Whether the worker takes jobs of this queue and tenant, with or without a handler."""
    return is_chosen(job.queue, worker.queues) and is_chosen(job.tenant, worker.tenants)


def _offers(worker: WorkerPresence, job: Job) -> bool:
    return job.label is None or job.label in worker.labels


def is_known_to_notify(job: Job) -> bool:
    """Whether quiet hours held the job back before."""
    return job.deferral is not None and QUIET in job.deferral.reason


def _judge_gates(job: Job, snapshot: Snapshot, at: datetime) -> Iterator[Reason]:
    verdict = snapshot.board.judge(job, at, notifies=is_known_to_notify(job))
    if not isinstance(verdict, Closed):
        return
    opens = "It is checked again at" if verdict.is_recheck else "It opens at"
    when = show(verdict.reopens_at, zone_of(job))
    yield Reason(
        "gate",
        f"The gate is closed for {end_sentence(verdict.reason)} {opens} {when}.",
        at=at,
        until=verdict.reopens_at,
    )


def _judge_places(job: Job, snapshot: Snapshot) -> Iterator[Reason]:
    for limit in snapshot.limits:
        if limit.paused is not None:
            yield Reason("limit", _describe_pause(limit, limit.paused), at=limit.paused.at)
            continue
        if limit.running is None:
            continue
        room = Room([Cap(limit.tenant, limit.queue, limit.running)], snapshot.running_counts)
        if not room.has_place(job.tenant, job.queue):
            taken = (
                "may not run at all" if not limit.running else f"may run {limit.running} at once"
            )
            tail = "." if not limit.running else ", and that many are running."
            yield Reason("limit", f"A limit is reached: {_scope(limit)} {taken}{tail}")


def _describe_pause(limit: Limit, pause: Pause) -> str:
    by = f" by {pause.who}" if pause.who else ""
    why = f" ({pause.why})" if pause.why else ""
    return f"It waits because {_scope(limit)} was paused at {show(pause.at)}{by}{why}."


def _judge_rates(job: Job, snapshot: Snapshot, at: datetime) -> Iterator[Reason]:
    for limit in snapshot.limits:
        if limit.rate is None:
            continue
        bucket = snapshot.buckets.get(key_of(limit.tenant, limit.queue))
        if take_tokens(limit.rate, bucket, 1, at).token_count:
            continue
        free_at = next_token_at(limit.rate, bucket, at)
        per = format_duration(limit.rate.per)
        yield Reason(
            "rate",
            f"A rate is used up: {_scope(limit)} may start {limit.rate.count} in {per}; "
            f"the next at {show(free_at, zone_of(job))}.",
            until=free_at,
        )


def judge_workers(job: Job, workers: Sequence[WorkerPresence]) -> Iterator[Reason]:
    """Why none of these workers can run the job; nothing if one can."""
    if not workers:
        yield Reason("no_worker", "No worker is known to run on this store.")
    elif not any(takes(worker, job) for worker in workers):
        yield Reason(
            "no_worker",
            f"No worker takes jobs of queue {job.queue} for its tenant; "
            f"{len(workers)} run on this store.",
        )
    elif not any(takes(worker, job) and _offers(worker, job) for worker in workers):
        yield Reason(
            "no_worker",
            f"No worker that takes its queue offers the version label {job.label}: the job "
            "waits until one does.",
        )
    elif not any(serves(worker, job) for worker in workers):
        yield Reason(
            "no_worker",
            f"No worker that takes its queue has a handler for the kind {job.kind}: "
            "the job waits until one has.",
        )


def _scope(limit: Limit) -> str:
    if limit.tenant is None:
        return "all jobs together" if limit.queue is None else f"queue {limit.queue}"
    if limit.queue is None:
        return "this tenant"
    return f"queue {limit.queue} of this tenant"
