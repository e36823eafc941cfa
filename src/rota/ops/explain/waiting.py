"""Explains why a job that has not ended waits or runs, and what holds it back."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from rota.jobs import PAUSED_UNTIL, Attempt, Job, JobId, JobStatus, is_due, is_stalled
from rota.jobs.retry import retry_after, retry_delay
from rota.ops.explain.explanation import (
    Finding,
    Reason,
    ReasonCode,
    end_sentence,
    format_duration,
    format_error,
    format_job,
    show,
    zone_of,
)
from rota.ops.explain.facts import JobFacts, Snapshot
from rota.ops.explain.series import (
    describe_future,
    describe_misses,
    describe_occurrence,
    describe_overlap,
)
from rota.policy.gates import Closed
from rota.policy.limits import Limit, key_of, next_token_at, take_tokens
from rota.policy.quiet_hours import REASON as QUIET
from rota.rail.audit import AuditEntry
from rota.stores.kernel.limits import Room
from rota.stores.protocol import Cap, is_chosen
from rota.worker.presence import WorkerPresence

ANY_KIND = "*"
"""The kind of a worker that takes every job of its queues, as HTTP workers do."""


def list_holds(job: Job, snapshot: Snapshot, at: datetime) -> list[Reason]:
    """Everything that would hold the job back at that instant.

    Limits and workers are known for now only.
    """
    return [
        *_judge_gates(job, snapshot, at),
        *_judge_places(job, snapshot),
        *_judge_rates(job, snapshot, at),
        *_judge_workers(job, snapshot),
    ]


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
        code="gate",
        text=f"If jobs of its kind notify people, quiet hours hold it back until "
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
        code="line",
        text=f"{one} due as well; the more urgent come first, then the older. "
        f"Its priority is {job.priority}.",
        at=depth.oldest_due_at,
    )


def serves(worker: WorkerPresence, job: Job) -> bool:
    """Whether the worker takes jobs of this queue and tenant and has a handler for the kind."""
    return takes(worker, job) and (job.kind in worker.kinds or ANY_KIND in worker.kinds)


def takes(worker: WorkerPresence, job: Job) -> bool:
    """Whether the worker takes jobs of this queue and tenant, with or without a handler."""
    return is_chosen(job.queue, worker.queues) and is_chosen(job.tenant, worker.tenants)


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
        code="gate",
        text=f"The gate is closed for {end_sentence(verdict.reason)} {opens} {when}.",
        at=at,
        until=verdict.reopens_at,
    )


def _judge_places(job: Job, snapshot: Snapshot) -> Iterator[Reason]:
    for limit in snapshot.limits:
        if limit.running is None:
            continue
        room = Room([Cap(limit.tenant, limit.queue, limit.running)], snapshot.running_counts)
        if not room.has_place(job.tenant, job.queue):
            taken = (
                "may not run at all" if not limit.running else f"may run {limit.running} at once"
            )
            tail = "." if not limit.running else ", and that many are running."
            yield Reason(code="limit", text=f"A limit is reached: {_scope(limit)} {taken}{tail}")


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
            code="rate",
            text=f"A rate is used up: {_scope(limit)} may start {limit.rate.count} in {per}; "
            f"the next at {show(free_at, zone_of(job))}.",
            until=free_at,
        )


def _judge_workers(job: Job, snapshot: Snapshot) -> Iterator[Reason]:
    workers = snapshot.workers
    if not workers:
        yield Reason(code="no_worker", text="No worker is known to run on this store.")
    elif not any(takes(worker, job) for worker in workers):
        yield Reason(
            code="no_worker",
            text=f"No worker takes jobs of queue {job.queue} for its tenant; "
            f"{len(workers)} run on this store.",
        )
    elif not any(serves(worker, job) for worker in workers):
        yield Reason(
            code="no_worker",
            text=f"No worker that takes its queue has a handler for the kind {job.kind}: "
            "the worker that takes it will fail it.",
        )


def _scope(limit: Limit) -> str:
    if limit.tenant is None:
        return "all jobs together" if limit.queue is None else f"queue {limit.queue}"
    if limit.queue is None:
        return "this tenant"
    return f"queue {limit.queue} of this tenant"


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
    later = [Reason(code="later", text=then, at=job.due_at)] if job.due_at > facts.now else []
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
        *describe_future(facts),
    ]
    if is_stalled(job, now):
        text = (
            f"The lease of {worker} expired at {facts.show(until)}. The next rescue marks its "
            "attempt as lost and retries the job."
        )
        held = Reason(code="stalled", text=text, at=lease.taken_at, until=until, who=worker)
        silent_for = format_duration(now - until)
        sentence = f"It has stalled: {worker} should have extended its lease {silent_for} ago."
        return Finding("stalled", sentence, [held, *about])
    since = f"since {facts.show(lease.taken_at)}, for {format_duration(now - lease.taken_at)}"
    held = Reason(
        code="lease",
        text=f"Its lease, token {lease.token}, lasts until {facts.show(until)}; the "
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
    due = Reason(code="due", text=text, at=job.due_at)
    sentence = "It is due, and runs as soon as a worker is free."
    if holds:
        sentence = f"It is due, but {_HOLDS[holds[0].code]}."
    reasons = [*holds, due, *_extra(job, snapshot, now), *_describe_moves(facts)]
    reasons += [*_describe_retry(facts), *describe_occurrence(job), *describe_misses(job, now)]
    next_at = next((it.until for it in holds if it.until is not None), None)
    return Finding("due", sentence, [*reasons, *describe_future(facts)], next_at)


def _explain_paused(facts: JobFacts) -> Finding:
    job = facts.job
    act = _latest(facts.acts, _PAUSES)
    if act is None:
        paused = Reason(code="paused", text="It is not recorded who paused it.")
    else:
        why = end_sentence(f": {act.why}" if act.why else "")
        text = f"{act.who} paused it at {facts.show(act.at)}{why}"
        paused = Reason(code="paused", text=text, at=act.at, who=act.who)
    sentence = "Its series is paused: nothing of it runs until it is resumed."
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
    ahead = (
        []
        if snapshot is None
        else [
            hold for hold in list_holds(job, snapshot, due_at) if hold.code in ("gate", "no_worker")
        ]
    )
    reasons = [*cause, *describe_occurrence(job)] or [_describe_time(facts)]
    held = next((it.until for it in ahead if it.code == "gate"), None)
    sentence = f"It will run at {when}."
    if held is not None:
        sentence = f"It is due at {when}, but a gate will be closed until {facts.show(held)}."
    quiet = None if snapshot is None else suspect_quiet_hours(job, snapshot, due_at)
    extra = [] if quiet is None else [quiet]
    reasons += [*ahead, *extra, *describe_future(facts)]
    return Finding("will run", sentence, reasons, held or due_at)


def _extra(job: Job, snapshot: Snapshot | None, now: datetime) -> list[Reason]:
    if snapshot is None:
        return []
    told = (suspect_quiet_hours(job, snapshot, now), describe_line(job, snapshot))
    return [reason for reason in told if reason is not None]


def _describe_dependency(facts: JobFacts, job_id: JobId) -> Reason:
    job = facts.dependencies.get(job_id)
    if job is None:
        text = f"It depends on job {job_id}, which no longer exists."
        return Reason(code="dependency", text=text, job_id=job_id)
    due = f", due at {facts.show(job.due_at)}" if job.status is JobStatus.READY else ""
    return Reason(
        code="dependency",
        text=f"It waits for {format_job(job)}, which is {job.status.lower()}{due}.",
        job_id=job.id,
        until=job.due_at if job.status is JobStatus.READY else None,
    )


def _describe_time(facts: JobFacts) -> Reason:
    text = "That is the requested time."
    return Reason(code="later", text=text, at=facts.job.due_at)


def _describe_deferral(facts: JobFacts) -> Iterator[Reason]:
    job, deferral = facts.job, facts.job.deferral
    if deferral is None or deferral.until != job.due_at:
        return
    times = "" if deferral.count == 1 else f" That has happened {deferral.count} times."
    yield Reason(
        code="deferred",
        text=f"A gate held it back at {facts.show(job.updated_at)} for "
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
    yield Reason(code="retry", text=text, at=last.ended_at, until=job.due_at)


def is_backoff(job: Job, last: Attempt) -> bool:
    """Whether the retry policy set the due time, and nothing has moved the job since."""
    shortest = last.ended_at + retry_after(job.retry_policy, job.attempt_count)
    longest = last.ended_at + retry_after(job.retry_policy, job.attempt_count, _ALMOST_ONE)
    return shortest <= job.due_at <= longest


def _describe_moves(facts: JobFacts) -> Iterator[Reason]:
    act = _latest(facts.acts, _MOVES)
    if act is None or not _is_where_it_was_put(facts.job, act):
        return
    done = "requested an immediate run" if act.action == "run_now" else "moved it to this time"
    why = f": {act.why}" if act.why else ""
    yield Reason(
        code="moved",
        text=end_sentence(f"{act.who} {done} at {facts.show(act.at)}{why}"),
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
    if job.last_token <= last_spent or is_deferred or _latest(facts.acts, _MOVES):
        return
    yield Reason(
        code="snoozed",
        text=f"Its handler asked at {facts.show(job.updated_at)} to be called again then.",
        at=job.updated_at,
        until=job.due_at,
    )


def _latest(acts: tuple[AuditEntry, ...], actions: frozenset[str]) -> AuditEntry | None:
    return next((act for act in acts if act.action in actions), None)
