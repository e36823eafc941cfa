"""Why a job that has not ended waits, runs, or will run then."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from rota.control.why.circumstances import Circumstances, Climate
from rota.control.why.explanation import Reason, in_words, named, show
from rota.control.why.finding import Finding
from rota.control.why.holding import describe_line, list_holds, suspect_quiet_hours
from rota.control.why.series import (
    describe_future,
    describe_misses,
    describe_occurrence,
    describe_overlap,
    zone_of,
)
from rota.jobs import PAUSED_UNTIL, Attempt, Job, JobStatus, is_due, is_stalled
from rota.jobs.retry import retry_after, retry_delay
from rota.rail.audit import AuditEntry

_ALMOST_ONE = 1 - 1e-9
_MOVES = frozenset({"reschedule", "run_now"})
_PAUSES = frozenset({"pause"})
_A_MOMENT = timedelta(seconds=1)


def explain_pending(around: Circumstances) -> Finding:
    """It waits for other jobs, which are named."""
    job = around.job
    waited_for = [
        _describe_dependency(each, around.dependencies.get(each))
        for each in job.dependencies
        if around.dependencies.get(each) is None
        or around.dependencies[each].status is not JobStatus.COMPLETED
    ]
    count, of = len(waited_for), len(job.dependencies)
    what = waited_for[0].text.removeprefix("It waits for ") if count == 1 else f"{count} jobs."
    rest = f" {of - count} of {of} are done." if of > 1 else ""
    later = [_describe_time(around)] if job.due_at > around.now else []
    return Finding(
        "waits",
        f"It waits for {what}{rest}",
        [*waited_for, *later, *describe_occurrence(job)],
    )


def explain_running(around: Circumstances) -> Finding:
    """Somebody has it."""
    job, now, lease = around.job, around.now, around.job.lease
    if lease is None:
        return Finding("running", "It is running, and nobody holds a lease on it.", [])
    until, worker = lease.until, lease.worker
    about = [
        *_describe_retry(around),
        *describe_occurrence(job),
        *describe_overlap(job),
        *describe_future(around),
    ]
    if is_stalled(job, now):
        text = (
            f"Worker {worker} has let its lease run out at {show(until)}; the attempt is called "
            "lost when a worker, or the service, looks for such jobs."
        )
        held = Reason(code="stalled", text=text, at=lease.taken_at, until=until, who=worker)
        sentence = f"It has stalled: {worker} has not been heard of since its lease ran out."
        return Finding("stalled", sentence, [held, *about])
    since = f"since {show(lease.taken_at)}, for {in_words(now - lease.taken_at)}"
    held = Reason(
        code="lease",
        text=f"Worker {worker} holds it under lease {lease.token} until {show(until)}, and lets "
        "it last longer while it works.",
        at=lease.taken_at,
        until=until,
        who=worker,
    )
    return Finding("running", f"It is running on {worker} {since}.", [held, *about], until)


def explain_ready(around: Circumstances) -> Finding:
    """It is due, or will be."""
    job, now = around.job, around.now
    if job.due_at == PAUSED_UNTIL:
        return _explain_paused(around)
    if not is_due(job, now):
        return _explain_later(around)
    climate = around.climate
    holds = [] if climate is None else list_holds(job, climate, now)
    due = Reason(
        code="due",
        text=f"It is due since {show(job.due_at)}, for {in_words(now - job.due_at)}.",
        at=job.due_at,
    )
    sentence = (
        f"It is due, but held back. {holds[0].text}"
        if holds
        else ("It is due, and runs as soon as a worker is free.")
    )
    reasons = [*holds, due, *_extra(job, climate, now), *_describe_moves(around)]
    reasons += [*_describe_retry(around), *describe_occurrence(job), *describe_misses(job, now)]
    next_at = next((it.until for it in holds if it.until is not None), None)
    return Finding("due", sentence, [*reasons, *describe_future(around)], next_at)


def _explain_paused(around: Circumstances) -> Finding:
    job = around.job
    at = job.occurrence_at or job.due_at
    act = _latest(around.acts, _PAUSES)
    who = None if act is None else act.who
    by = "" if act is None else f" by {act.who} at {show(act.at)}"
    why = f": {act.why}" if act is not None and act.why else ""
    paused = Reason(
        code="paused",
        text=f"Its series is paused{by}{why}. Nothing of it runs until it is resumed.",
        at=None if act is None else act.at,
        who=who,
    )
    sentence = f"Its series is paused; it stands for {show(at, zone_of(job))}."
    return Finding("waits", sentence, [paused, *describe_occurrence(job)])


def _explain_later(around: Circumstances) -> Finding:
    job, due_at = around.job, around.job.due_at
    climate = around.climate
    when = f"{show(due_at, zone_of(job))}, in {in_words(due_at - around.now)}"
    cause = [
        *_describe_deferral(job),
        *_describe_retry(around),
        *_describe_moves(around),
        *_describe_snooze(around),
    ]
    ahead = (
        []
        if climate is None
        else [
            hold for hold in list_holds(job, climate, due_at) if hold.code in ("gate", "no_worker")
        ]
    )
    reasons = [*cause, *describe_occurrence(job)] or [_describe_time(around)]
    held = next((it.until for it in ahead if it.code == "gate"), None)
    sentence = f"It will run at {when}."
    if held is not None:
        sentence = f"It is due at {when}, but a gate will be closed until {show(held)}."
    quiet = None if climate is None else suspect_quiet_hours(job, climate, due_at)
    extra = [] if quiet is None else [quiet]
    reasons += [*ahead, *extra, *describe_future(around)]
    return Finding("will run", sentence, reasons, held or due_at)


def _extra(job: Job, climate: Climate | None, now: datetime) -> list[Reason]:
    if climate is None:
        return []
    told = (suspect_quiet_hours(job, climate, now), describe_line(job, climate))
    return [reason for reason in told if reason is not None]


def _describe_dependency(job_id: str, job: Job | None) -> Reason:
    if job is None:
        return Reason(
            code="dependency", text=f"It waits for job {job_id}, which is gone.", job_id=job_id
        )
    due = f", due at {show(job.due_at)}" if job.status is JobStatus.READY else ""
    return Reason(
        code="dependency",
        text=f"It waits for {named(job)}, which is {job.status}{due}.",
        job_id=job.id,
        until=job.due_at if job.status is JobStatus.READY else None,
    )


def _describe_time(around: Circumstances) -> Reason:
    due_at = around.job.due_at
    return Reason(code="later", text=f"It was asked for at {show(due_at)}.", at=due_at)


def _describe_deferral(job: Job) -> Iterator[Reason]:
    deferral = job.deferral
    if deferral is None or deferral.until != job.due_at:
        return
    times = "" if deferral.count == 1 else f", for the {deferral.count}. time"
    yield Reason(
        code="deferred",
        text=f"A gate was closed to it ({deferral.reason}){times}; it comes back at "
        f"{show(deferral.until)}.",
        at=job.updated_at,
        until=deferral.until,
    )


def _describe_retry(around: Circumstances) -> Iterator[Reason]:
    """Attempt so many of so many, and why it is tried again just then."""
    job, attempts = around.job, around.attempts
    if not job.attempt_count or not attempts:
        return
    last, policy = attempts[-1], job.retry_policy
    number = f"Attempt {job.attempt_count} of {policy.max_attempts}"
    text = f"{number} {last.outcome} at {show(last.ended_at)}: {_first_line(last.error)}"
    if job.status is JobStatus.READY and is_backoff(job, last):
        delay = retry_delay(policy, job.attempt_count)
        text += f" It is tried again after {in_words(timedelta(seconds=delay))}"
        text += f" ({policy.backoff_strategy} backoff), at {show(job.due_at)}."
    yield Reason(code="retry", text=text, at=last.ended_at, until=job.due_at)


def is_backoff(job: Job, last: Attempt) -> bool:
    """Whether it is the retry policy that has put the job where it is, and nothing since."""
    shortest = last.ended_at + retry_after(job.retry_policy, job.attempt_count)
    longest = last.ended_at + retry_after(job.retry_policy, job.attempt_count, _ALMOST_ONE)
    return shortest <= job.due_at <= longest


def _describe_moves(around: Circumstances) -> Iterator[Reason]:
    act = _latest(around.acts, _MOVES)
    if act is None or not _is_where_it_was_put(around.job, act):
        return
    done = "asked to run at once" if act.action == "run_now" else "put to another time"
    why = f": {act.why}" if act.why else ""
    yield Reason(
        code="moved",
        text=f"It was {done} by {act.who} at {show(act.at)}{why}.",
        at=act.at,
        who=act.who,
    )


def _is_where_it_was_put(job: Job, act: AuditEntry) -> bool:
    """Nothing has moved it since."""
    if act.action == "run_now":
        return abs(job.due_at - act.at) <= _A_MOMENT
    return bool(act.details.get("runAt") == job.due_at.isoformat())


def _describe_snooze(around: Circumstances) -> Iterator[Reason]:
    """It was leased, and put off without an attempt being spent or a gate being closed."""
    job, attempts = around.job, around.attempts
    last_spent = attempts[-1].token if attempts else 0
    is_deferred = job.deferral is not None and job.deferral.until == job.due_at
    if job.last_token <= last_spent or is_deferred or _latest(around.acts, _MOVES):
        return
    yield Reason(
        code="snoozed",
        text=f"Its handler asked at {show(job.updated_at)} to be called again at "
        f"{show(job.due_at)}.",
        at=job.updated_at,
        until=job.due_at,
    )


def _latest(acts: tuple[AuditEntry, ...], actions: frozenset[str]) -> AuditEntry | None:
    return next((act for act in acts if act.action in actions), None)


def _first_line(error: str) -> str:
    lines = error.strip().splitlines() or ["no error was told"]
    return f"{lines[0][:200]}."
