"""Explains why a job ran, did not run, waits or will run."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from rota.clock.protocol import Clock
from rota.errors import InvalidJobError, JobNotFoundError
from rota.jobs import (
    PAUSED_UNTIL,
    Attempt,
    Ending,
    Job,
    JobId,
    JobStatus,
    complete_history,
    is_due,
    is_missed,
    is_stalled,
    planned_start,
)
from rota.jobs.recurrence import is_skipped, occurrence_of
from rota.jobs.retry import retry_after, retry_delay
from rota.ops.explanation import (
    Explanation,
    Finding,
    JobFacts,
    Reason,
    ReasonCode,
    Snapshot,
    end_sentence,
    format_attempt_duration,
    format_duration,
    format_error,
    format_job,
    read_facts,
)
from rota.ops.polled import explain_polled
from rota.ops.reasons import (
    describe_catch_up,
    describe_future,
    describe_line,
    describe_misses,
    describe_occurrence,
    describe_overlap,
    describe_start,
    list_holds,
    list_lasting_holds,
    suspect_quiet_hours,
)
from rota.policy.audit import AuditEntry
from rota.rail.jobs import RailStore

_CODES: dict[Ending | None, ReasonCode] = {
    Ending.EXHAUSTED: "exhausted",
    Ending.DISCARDED: "discarded",
    Ending.LOST: "lost",
    Ending.CANCELLED: "cancelled",
    None: "exhausted",
}
_OUTCOMES = {"lost": "was lost", "discarded": "gave up", "cancelled": "was cancelled"}

_ALMOST_ONE = 1 - 1e-9
_MOVES = frozenset({"reschedule", "run_now"})
_PAUSES = frozenset({"pause"})
_A_MOMENT = timedelta(seconds=1)
_HOLDS: dict[ReasonCode, str] = {
    "gate": "a gate is closed to it",
    "limit": "its concurrency limit is reached",
    "rate": "its rate limit is used up",
    "no_worker": "no worker takes it",
}
"""The headline for each reason that holds back a due job."""


def explain_completed(facts: JobFacts) -> Finding:
    """The job ran."""
    job = facts.job
    meant_for, done_at = occurrence_of(job), job.updated_at
    text = f"It was due at {facts.show(meant_for)}"
    text += (
        "" if done_at < meant_for else f", and done {format_duration(done_at - meant_for)} later"
    )
    done = Reason("succeeded", f"{text}.", at=done_at)
    failed = (
        "one failed attempt" if job.attempt_count == 1 else f"{job.attempt_count} failed attempts"
    )
    tries = f", after {failed}" if job.attempt_count else ""
    sentence = f"It ran, and was done at {facts.show(done_at)}{tries}."
    reasons = [done, *describe_success(facts), *_history(facts), *_links(facts)]
    return Finding("ran", sentence, reasons)


def describe_success(facts: JobFacts) -> Iterator[Reason]:
    """The attempt that completed the job."""
    for attempt in complete_history(facts.job, ()):
        yield describe_attempt(facts, attempt)


def explain_failed(facts: JobFacts) -> Finding:
    """The job used up its attempts, was discarded, or was cancelled."""
    job, at = facts.job, facts.job.updated_at
    if is_skipped(job):
        return _explain_skipped(facts)
    if job.ending is Ending.CANCELLED:
        return _explain_cancelled(facts)
    source = "Its handler said" if job.ending is Ending.DISCARDED else "The last error was"
    text = f"{source}: {format_error(job.last_error)}"
    given_up = Reason(_CODES[job.ending], text, at=at)
    sentence = f"It failed for good at {facts.show(at)}: {_describe_end(job)}."
    return Finding("failed", sentence, [given_up, *_history(facts), *_links(facts)])


def _describe_end(job: Job) -> str:
    if job.ending is Ending.DISCARDED:
        return "its handler discarded it"
    if job.ending is Ending.LOST:
        return f"{job.loss_count} workers in a row were lost while they ran it"
    count = job.retry_policy.max_attempts
    if count == 1:
        return "its only attempt has failed"
    return f"{'both' if count == 2 else f'all {count}'} attempts have failed"


def explain_blocked(facts: JobFacts) -> Finding:
    """A dependency failed, or an operator cancelled the job while it waited."""
    job = facts.job
    if job.ending is Ending.CANCELLED:
        return _explain_cancelled(facts)
    reasons = [
        Reason(
            "blocked",
            f"J{format_job(each)[1:]} "
            + ("was cancelled" if each.ending is Ending.CANCELLED else "failed")
            + f" at {facts.show(each.updated_at)}: {format_error(each.last_error)}",
            at=each.updated_at,
            job_id=each.id,
        )
        for each in facts.culprits
    ]
    if not reasons:
        text = "A job it depended on failed and no longer exists."
        reasons = [Reason("blocked", text, at=job.updated_at)]
    sentence = "It will never run: a job it depends on failed, directly or through others."
    return Finding("will not run", sentence, [*reasons, *_links(facts)])


def _explain_cancelled(facts: JobFacts) -> Finding:
    job = facts.job
    act = next((it for it in facts.audit if it.action in ("cancel", "bulk_cancel")), None)
    given = act.why if act is not None else job.last_error
    cancelled = Reason(
        "cancelled",
        f"The reason given was: {end_sentence(given)}" if given else "No reason was given.",
        at=job.updated_at,
        who=None if act is None else act.who,
    )
    by = "" if act is None else f" by {act.who}"
    sentence = f"It was cancelled{by} at {facts.show(job.updated_at)}."
    return Finding("cancelled", sentence, [cancelled, *_history(facts), *_links(facts)])


def _explain_skipped(facts: JobFacts) -> Finding:
    """The occurrence was missed, and its series skips missed occurrences."""
    job, due_at = facts.job, planned_start(facts.job)
    late_for = format_duration(job.updated_at - due_at)
    text = f"It was due at {facts.show(due_at)}; a worker came {late_for} later."
    missed = Reason("missed", text, at=due_at, until=job.updated_at)
    sentence = "It did not run: it could not start in time, and was skipped."
    reasons = [missed, *describe_catch_up(job), *_links(facts)]
    return Finding("did not run", sentence, reasons)


def _history(facts: JobFacts) -> Iterator[Reason]:
    """The failed attempts, last one first."""
    for attempt in reversed(facts.attempts):
        yield describe_attempt(facts, attempt)


def describe_attempt(facts: JobFacts, attempt: Attempt) -> Reason:
    """The attempt's number, its worker, how it ended and after which time."""
    error = "." if attempt.error is None else f": {format_error(attempt.error)}"
    outcome = _OUTCOMES.get(attempt.outcome, attempt.outcome)
    return Reason(
        "attempt",
        f"Attempt {attempt.number} of {facts.job.retry_policy.max_attempts}, on "
        f"{attempt.worker}, {outcome} at {facts.show(attempt.ended_at)}, after "
        f"{format_attempt_duration(attempt.lasted_for)}{error}",
        at=attempt.started_at,
        until=attempt.ended_at,
        who=attempt.worker,
    )


def _links(facts: JobFacts) -> Iterator[Reason]:
    """The jobs it replaced and the job that replaced it."""
    job, stand_in = facts.job, facts.replacement
    if stand_in is not None:
        yield Reason(
            "replaced_by",
            f"It was tried again as job {stand_in.id}, now {stand_in.status.lower()}.",
            at=stand_in.created_at,
            job_id=stand_in.id,
        )
    yield from describe_occurrence(job)
    yield from describe_future(facts)


def explain_pending(facts: JobFacts) -> Finding:
    """The job waits for other jobs, named in the reasons."""
    job = facts.job
    waited_for = [
        _describe_dependency(facts, each)
        for each in job.dependencies
        if facts.dependencies.get(each) is None
        or facts.dependencies[each].status is not JobStatus.COMPLETED
    ]
    count, of = len(waited_for), len(job.dependencies)
    what = "another job" if of == 1 else f"{count} {'jobs' if count == of else f'of {of} jobs'}"
    then = f"Even then it is not due before {facts.show(job.due_at)}."
    later = [Reason("later", then, at=job.due_at)] if job.due_at > facts.now else []
    reasons = [*waited_for, *later, *describe_occurrence(job)]
    return Finding("waits", f"It waits for {what} to be done.", reasons)


def explain_running(facts: JobFacts) -> Finding:
    """A worker holds the lease."""
    job, now, lease = facts.job, facts.now, facts.job.lease
    if lease is None:
        return Finding("running", "It is running, but no worker holds a lease on it.", [])
    until, worker = lease.until, lease.worker
    about = [
        *_describe_retry(facts),
        *describe_occurrence(job),
        *describe_overlap(job),
        *describe_catch_up(job),
        *describe_future(facts),
    ]
    if is_stalled(job, now):
        text = (
            f"The lease of {worker} expired at {facts.show(until)}. The next rescue marks its "
            "attempt as lost and retries the job."
        )
        held = Reason("stalled", text, at=lease.taken_at, until=until, who=worker)
        silent_for = format_duration(now - until)
        sentence = f"It has stalled: {worker} should have extended its lease {silent_for} ago."
        return Finding("stalled", sentence, [held, *about])
    since = f"since {facts.show(lease.taken_at)}, for {format_duration(now - lease.taken_at)}"
    held = Reason(
        "lease",
        f"Its lease, token {lease.token}, lasts until {facts.show(until)}; the "
        "worker extends it while it is alive.",
        at=lease.taken_at,
        until=until,
        who=worker,
    )
    return Finding("running", f"It is running on {worker} {since}.", [held, *about], until)


def explain_ready(facts: JobFacts) -> Finding:
    """The job is due, or will be."""
    job, now = facts.job, facts.now
    if job.due_at == PAUSED_UNTIL:
        return _explain_paused(facts)
    if not is_due(job, now):
        return _explain_later(facts)
    snapshot = facts.snapshot
    holds = [] if snapshot is None else list_holds(job, snapshot, now)
    due_for = format_duration(now - job.due_at)
    text = f"It has been due since {facts.show(job.due_at)}, for {due_for}."
    due = Reason("due", text, at=job.due_at)
    sentence = "It is due, and runs as soon as a worker is free."
    if is_missed(job, now):
        sentence = "It is due, but too late to start: the next worker skips it."
    elif holds:
        sentence = f"It is due, but {_HOLDS[holds[0].code]}."
    reasons = [*holds, due, *_extra(job, snapshot, now), *_describe_moves(facts)]
    reasons += [*_describe_retry(facts), *describe_occurrence(job), *describe_misses(job, now)]
    reasons += describe_catch_up(job)
    next_at = next((it.until for it in holds if it.until is not None), None)
    return Finding("due", sentence, [*reasons, *describe_future(facts)], next_at)


def _explain_paused(facts: JobFacts) -> Finding:
    job = facts.job
    act = _latest(facts.audit, _PAUSES)
    if act is None:
        paused = Reason("paused", "It is not recorded who paused it.")
    else:
        why = end_sentence(f": {act.why}" if act.why else "")
        text = f"{act.who} paused it at {facts.show(act.at)}{why}"
        paused = Reason("paused", text, at=act.at, who=act.who)
    sentence = "Its series is paused and does not run until it is resumed."
    return Finding("waits", sentence, [paused, *describe_occurrence(job)])


def _explain_later(facts: JobFacts) -> Finding:
    job, due_at = facts.job, facts.job.due_at
    snapshot = facts.snapshot
    when = f"{facts.show(due_at)}, in {format_duration(due_at - facts.now)}"
    cause = [
        *_describe_deferral(facts),
        *_describe_retry(facts),
        *_describe_moves(facts),
        *_describe_snooze(facts),
    ]
    ahead = list_lasting_holds(job, snapshot, due_at)
    reasons = [*cause, *describe_occurrence(job)] or [_describe_time(facts)]
    sentence, held_until = describe_start(when, ahead, facts)
    quiet = None if snapshot is None else suspect_quiet_hours(job, snapshot, due_at)
    extra = [] if quiet is None else [quiet]
    reasons += [*ahead, *extra, *describe_future(facts)]
    return Finding("will run", sentence, reasons, held_until or due_at)


def _extra(job: Job, snapshot: Snapshot | None, now: datetime) -> list[Reason]:
    if snapshot is None:
        return []
    found = (suspect_quiet_hours(job, snapshot, now), describe_line(job, snapshot))
    return [reason for reason in found if reason is not None]


def _describe_dependency(facts: JobFacts, job_id: JobId) -> Reason:
    job = facts.dependencies.get(job_id)
    if job is None:
        text = f"It depends on job {job_id}, which no longer exists."
        return Reason("dependency", text, job_id=job_id)
    due = f", due at {facts.show(job.due_at)}" if job.status is JobStatus.READY else ""
    return Reason(
        "dependency",
        f"It waits for {format_job(job)}, which is {job.status.lower()}{due}.",
        job_id=job.id,
        until=job.due_at if job.status is JobStatus.READY else None,
    )


def _describe_time(facts: JobFacts) -> Reason:
    text = "That is the requested time."
    return Reason("later", text, at=facts.job.due_at)


def _describe_deferral(facts: JobFacts) -> Iterator[Reason]:
    job, deferral = facts.job, facts.job.deferral
    if deferral is None or deferral.until != job.due_at:
        return
    times = "" if deferral.count == 1 else f" That has happened {deferral.count} times."
    yield Reason(
        "deferred",
        f"A gate held it back at {facts.show(job.updated_at)} for "
        f"{end_sentence(deferral.reason)}{times}",
        at=job.updated_at,
        until=deferral.until,
    )


def _describe_retry(facts: JobFacts) -> Iterator[Reason]:
    """The attempt number, and why the retry happens then."""
    job, attempts = facts.job, facts.attempts
    if not job.attempt_count or not attempts:
        return
    last, policy = attempts[-1], job.retry_policy
    number = f"Attempt {job.attempt_count} of {policy.max_attempts}"
    outcome = "was lost" if last.outcome == "lost" else last.outcome
    text = f"{number} {outcome} at {facts.show(last.ended_at)}: {format_error(last.error)}"
    if job.status is JobStatus.READY and is_backoff(job, last):
        delay = retry_delay(policy, job.attempt_count)
        text += f" It is tried again after {format_duration(timedelta(seconds=delay))}"
        text += f" ({policy.backoff_strategy.lower()} backoff)."
    yield Reason("retry", text, at=last.ended_at, until=job.due_at)


def is_backoff(job: Job, last: Attempt) -> bool:
    """Whether the retry policy set the due time, and nothing has moved the job since."""
    shortest = last.ended_at + retry_after(job.retry_policy, job.attempt_count)
    longest = last.ended_at + retry_after(job.retry_policy, job.attempt_count, _ALMOST_ONE)
    return shortest <= job.due_at <= longest


def _describe_moves(facts: JobFacts) -> Iterator[Reason]:
    act = _latest(facts.audit, _MOVES)
    if act is None or not _is_where_it_was_put(facts.job, act):
        return
    done = "requested an immediate run" if act.action == "run_now" else "moved it to this time"
    why = f": {act.why}" if act.why else ""
    yield Reason(
        "moved",
        end_sentence(f"{act.who} {done} at {facts.show(act.at)}{why}"),
        at=act.at,
        who=act.who,
    )


def _is_where_it_was_put(job: Job, act: AuditEntry) -> bool:
    """Whether nothing has moved the job since."""
    if act.action == "run_now":
        return abs(job.due_at - act.at) <= _A_MOMENT
    return bool(act.details.get("runAt") == job.due_at.isoformat())


def _describe_snooze(facts: JobFacts) -> Iterator[Reason]:
    """The handler snoozed the job. No attempt was spent, and no gate was closed."""
    job, attempts = facts.job, facts.attempts
    last_spent = attempts[-1].token if attempts else 0
    is_deferred = job.deferral is not None and job.deferral.until == job.due_at
    if job.last_token <= last_spent or is_deferred or _latest(facts.audit, _MOVES):
        return
    yield Reason(
        "snoozed",
        f"Its handler asked at {facts.show(job.updated_at)} to be called again then.",
        at=job.updated_at,
        until=job.due_at,
    )


def _latest(audit: tuple[AuditEntry, ...], actions: frozenset[str]) -> AuditEntry | None:
    return next((act for act in audit if act.action in actions), None)


_BY_STATUS: dict[JobStatus, Callable[[JobFacts], Finding]] = {
    JobStatus.PENDING: explain_pending,
    JobStatus.READY: explain_ready,
    JobStatus.RUNNING: explain_running,
    JobStatus.COMPLETED: explain_completed,
    JobStatus.FAILED: explain_failed,
    JobStatus.BLOCKED: explain_blocked,
}


async def explain_job(store: RailStore, clock: Clock, tenant: str, job_id: JobId) -> Explanation:
    """Explain why the job ran, did not run, waits or will run; also a job for pollers.

    Raises JobNotFoundError when the tenant has no job with that id. Writes nothing.
    """
    now = clock.now()
    try:
        facts = await read_facts(store, now, tenant, job_id)
    except (JobNotFoundError, InvalidJobError):
        polled = await explain_polled(store, now, tenant, str(job_id))
        if polled is None:
            raise
        return polled
    return explain(facts)


def explain(facts: JobFacts) -> Explanation:
    """Explain a job from facts already read."""
    job = facts.job
    found = _BY_STATUS[job.status](facts)
    found = found._replace(reasons=[*found.reasons, *_origin(facts)])
    return found.conclude(job.id, job.status, facts.now)


def _origin(facts: JobFacts) -> list[Reason]:
    """The job it replaces."""
    replaced = facts.job.replaces
    if replaced is None:
        return []
    text = f"It replaces job {replaced}, which failed."
    return [Reason("replaces", text, at=facts.job.created_at, job_id=replaced)]
