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
    in_words,
    named,
    show,
    tell_error,
    zone_of,
)
from rota.ops.explain.facts import Circumstances, Climate
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
from rota.stores.jobs import Cap
from rota.stores.jobs.caps import Room
from rota.stores.jobs.requests import is_chosen
from rota.worker.presence import WorkerPresence

ANY_KIND = "*"
"""The kind of a worker that takes every job of its queues, as HTTP workers do."""


def list_holds(job: Job, climate: Climate, at: datetime) -> list[Reason]:
    """Everything that would hold the job back at that instant.

    Limits and workers are known for now only.
    """
    return [
        *_judge_gates(job, climate, at),
        *_judge_places(job, climate),
        *_judge_rates(job, climate, at),
        *_judge_workers(job, climate),
    ]


def suspect_quiet_hours(job: Job, climate: Climate, at: datetime) -> Reason | None:
    """Quiet hours hold back jobs that notify people. Only workers know whether this job does."""
    if is_known_to_notify(job):
        return None
    if isinstance(climate.board.judge(job, at, notifies=False), Closed):
        return None
    verdict = climate.board.judge(job, at, notifies=True)
    if not isinstance(verdict, Closed):
        return None
    return Reason(
        code="gate",
        text=f"If jobs of its kind notify people, quiet hours hold it back until "
        f"{show(verdict.reopens_at, zone_of(job))}.",
        at=at,
        until=verdict.reopens_at,
    )


def describe_line(job: Job, climate: Climate) -> Reason | None:
    """How many other jobs are due."""
    depth = climate.depth
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


def _judge_gates(job: Job, climate: Climate, at: datetime) -> Iterator[Reason]:
    verdict = climate.board.judge(job, at, notifies=is_known_to_notify(job))
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


def _judge_places(job: Job, climate: Climate) -> Iterator[Reason]:
    for limit in climate.limits:
        if limit.running is None:
            continue
        room = Room([Cap(limit.tenant, limit.queue, limit.running)], climate.running_counts)
        if not room.has_place(job.tenant, job.queue):
            taken = (
                "may not run at all" if not limit.running else f"may run {limit.running} at once"
            )
            tail = "." if not limit.running else ", and that many are running."
            yield Reason(code="limit", text=f"A limit is reached: {_scope(limit)} {taken}{tail}")


def _judge_rates(job: Job, climate: Climate, at: datetime) -> Iterator[Reason]:
    for limit in climate.limits:
        if limit.rate is None:
            continue
        bucket = climate.buckets.get(key_of(limit.tenant, limit.queue))
        if take_tokens(limit.rate, bucket, 1, at).token_count:
            continue
        free_at = next_token_at(limit.rate, bucket, at)
        per = in_words(limit.rate.per)
        yield Reason(
            code="rate",
            text=f"A rate is used up: {_scope(limit)} may start {limit.rate.count} in {per}; "
            f"the next at {show(free_at, zone_of(job))}.",
            until=free_at,
        )


def _judge_workers(job: Job, climate: Climate) -> Iterator[Reason]:
    workers = climate.workers
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


def explain_pending(around: Circumstances) -> Finding:
    """The job waits for other jobs, named in the reasons."""
    job = around.job
    waited_for = [
        _describe_dependency(around, each)
        for each in job.dependencies
        if around.dependencies.get(each) is None
        or around.dependencies[each].status is not JobStatus.COMPLETED
    ]
    count, of = len(waited_for), len(job.dependencies)
    what = "another job" if of == 1 else f"{count} {'jobs' if count == of else f'of {of} jobs'}"
    then = f"Even then it is not due before {around.show(job.due_at)}."
    later = [Reason(code="later", text=then, at=job.due_at)] if job.due_at > around.now else []
    reasons = [*waited_for, *later, *describe_occurrence(job)]
    return Finding("waits", f"It waits for {what} to be done.", reasons)


def explain_running(around: Circumstances) -> Finding:
    """A worker holds the lease."""
    job, now, lease = around.job, around.now, around.job.lease
    if lease is None:
        return Finding("running", "It is running, but no worker holds a lease on it.", [])
    until, worker = lease.until, lease.worker
    about = [
        *_describe_retry(around),
        *describe_occurrence(job),
        *describe_overlap(job),
        *describe_future(around),
    ]
    if is_stalled(job, now):
        text = (
            f"The lease of {worker} expired at {around.show(until)}. The next rescue marks its "
            "attempt as lost and retries the job."
        )
        held = Reason(code="stalled", text=text, at=lease.taken_at, until=until, who=worker)
        silent_for = in_words(now - until)
        sentence = f"It has stalled: {worker} should have extended its lease {silent_for} ago."
        return Finding("stalled", sentence, [held, *about])
    since = f"since {around.show(lease.taken_at)}, for {in_words(now - lease.taken_at)}"
    held = Reason(
        code="lease",
        text=f"Its lease, token {lease.token}, lasts until {around.show(until)}; the "
        "worker extends it while it is alive.",
        at=lease.taken_at,
        until=until,
        who=worker,
    )
    return Finding("running", f"It is running on {worker} {since}.", [held, *about], until)


def explain_ready(around: Circumstances) -> Finding:
    """The job is due, or will be."""
    job, now = around.job, around.now
    if job.due_at == PAUSED_UNTIL:
        return _explain_paused(around)
    if not is_due(job, now):
        return _explain_later(around)
    climate = around.climate
    holds = [] if climate is None else list_holds(job, climate, now)
    due_for = in_words(now - job.due_at)
    text = f"It has been due since {around.show(job.due_at)}, for {due_for}."
    due = Reason(code="due", text=text, at=job.due_at)
    sentence = "It is due, and runs as soon as a worker is free."
    if holds:
        sentence = f"It is due, but {_HOLDS[holds[0].code]}."
    reasons = [*holds, due, *_extra(job, climate, now), *_describe_moves(around)]
    reasons += [*_describe_retry(around), *describe_occurrence(job), *describe_misses(job, now)]
    next_at = next((it.until for it in holds if it.until is not None), None)
    return Finding("due", sentence, [*reasons, *describe_future(around)], next_at)


def _explain_paused(around: Circumstances) -> Finding:
    job = around.job
    act = _latest(around.acts, _PAUSES)
    if act is None:
        paused = Reason(code="paused", text="It is not recorded who paused it.")
    else:
        why = end_sentence(f": {act.why}" if act.why else "")
        text = f"{act.who} paused it at {around.show(act.at)}{why}"
        paused = Reason(code="paused", text=text, at=act.at, who=act.who)
    sentence = "Its series is paused: nothing of it runs until it is resumed."
    return Finding("waits", sentence, [paused, *describe_occurrence(job)])


def _explain_later(around: Circumstances) -> Finding:
    job, due_at = around.job, around.job.due_at
    climate = around.climate
    when = f"{around.show(due_at)}, in {in_words(due_at - around.now)}"
    cause = [
        *_describe_deferral(around),
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
        sentence = f"It is due at {when}, but a gate will be closed until {around.show(held)}."
    quiet = None if climate is None else suspect_quiet_hours(job, climate, due_at)
    extra = [] if quiet is None else [quiet]
    reasons += [*ahead, *extra, *describe_future(around)]
    return Finding("will run", sentence, reasons, held or due_at)


def _extra(job: Job, climate: Climate | None, now: datetime) -> list[Reason]:
    if climate is None:
        return []
    told = (suspect_quiet_hours(job, climate, now), describe_line(job, climate))
    return [reason for reason in told if reason is not None]


def _describe_dependency(around: Circumstances, job_id: JobId) -> Reason:
    job = around.dependencies.get(job_id)
    if job is None:
        text = f"It depends on job {job_id}, which no longer exists."
        return Reason(code="dependency", text=text, job_id=job_id)
    due = f", due at {around.show(job.due_at)}" if job.status is JobStatus.READY else ""
    return Reason(
        code="dependency",
        text=f"It waits for {named(job)}, which is {job.status.lower()}{due}.",
        job_id=job.id,
        until=job.due_at if job.status is JobStatus.READY else None,
    )


def _describe_time(around: Circumstances) -> Reason:
    text = "That is the requested time."
    return Reason(code="later", text=text, at=around.job.due_at)


def _describe_deferral(around: Circumstances) -> Iterator[Reason]:
    job, deferral = around.job, around.job.deferral
    if deferral is None or deferral.until != job.due_at:
        return
    times = "" if deferral.count == 1 else f" That has happened {deferral.count} times."
    yield Reason(
        code="deferred",
        text=f"A gate held it back at {around.show(job.updated_at)} for "
        f"{end_sentence(deferral.reason)}{times}",
        at=job.updated_at,
        until=deferral.until,
    )


def _describe_retry(around: Circumstances) -> Iterator[Reason]:
    """The attempt number, and why the retry happens then."""
    job, attempts = around.job, around.attempts
    if not job.attempt_count or not attempts:
        return
    last, policy = attempts[-1], job.retry_policy
    number = f"Attempt {job.attempt_count} of {policy.max_attempts}"
    outcome = "was lost" if last.outcome == "lost" else last.outcome
    text = f"{number} {outcome} at {around.show(last.ended_at)}: {tell_error(last.error)}"
    if job.status is JobStatus.READY and is_backoff(job, last):
        delay = retry_delay(policy, job.attempt_count)
        text += f" It is tried again after {in_words(timedelta(seconds=delay))}"
        text += f" ({policy.backoff_strategy.lower()} backoff)."
    yield Reason(code="retry", text=text, at=last.ended_at, until=job.due_at)


def is_backoff(job: Job, last: Attempt) -> bool:
    """Whether the retry policy set the due time, and nothing has moved the job since."""
    shortest = last.ended_at + retry_after(job.retry_policy, job.attempt_count)
    longest = last.ended_at + retry_after(job.retry_policy, job.attempt_count, _ALMOST_ONE)
    return shortest <= job.due_at <= longest


def _describe_moves(around: Circumstances) -> Iterator[Reason]:
    act = _latest(around.acts, _MOVES)
    if act is None or not _is_where_it_was_put(around.job, act):
        return
    done = "requested an immediate run" if act.action == "run_now" else "moved it to this time"
    why = f": {act.why}" if act.why else ""
    yield Reason(
        code="moved",
        text=end_sentence(f"{act.who} {done} at {around.show(act.at)}{why}"),
        at=act.at,
        who=act.who,
    )


def _is_where_it_was_put(job: Job, act: AuditEntry) -> bool:
    """Whether nothing has moved the job since."""
    if act.action == "run_now":
        return abs(job.due_at - act.at) <= _A_MOMENT
    return bool(act.details.get("runAt") == job.due_at.isoformat())


def _describe_snooze(around: Circumstances) -> Iterator[Reason]:
    """The handler snoozed the job. No attempt was spent, and no gate was closed."""
    job, attempts = around.job, around.attempts
    last_spent = attempts[-1].token if attempts else 0
    is_deferred = job.deferral is not None and job.deferral.until == job.due_at
    if job.last_token <= last_spent or is_deferred or _latest(around.acts, _MOVES):
        return
    yield Reason(
        code="snoozed",
        text=f"Its handler asked at {around.show(job.updated_at)} to be called again then.",
        at=job.updated_at,
        until=job.due_at,
    )


def _latest(acts: tuple[AuditEntry, ...], actions: frozenset[str]) -> AuditEntry | None:
    return next((act for act in acts if act.action in actions), None)
