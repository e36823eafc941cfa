"""What keeps a job that is due from running: judged by the functions that hold it back."""

from collections.abc import Iterator
from datetime import datetime

from rota.control.why.circumstances import Climate
from rota.control.why.explanation import Reason
from rota.control.why.wording import end_sentence, in_words, show, zone_of
from rota.gates import Closed
from rota.gates.quiet_hours import REASON as QUIET
from rota.jobs import Job
from rota.limits import Limit, next_token_at, take_tokens
from rota.limits.document import key_of
from rota.stores.jobs import Cap
from rota.stores.jobs.caps import Room
from rota.stores.jobs.requests import is_chosen
from rota.worker.presence import WorkerPresence

ANY_KIND = "*"
"""What a worker says to serve that takes whatever its queues hold, as workers over HTTP do."""


def list_holds(job: Job, climate: Climate, at: datetime) -> list[Reason]:
    """Whatever would hold the job back at that instant; of limits and workers only now is known."""
    return [
        *_judge_gates(job, climate, at),
        *_judge_places(job, climate),
        *_judge_rates(job, climate, at),
        *_judge_workers(job, climate),
    ]


def suspect_quiet_hours(job: Job, climate: Climate, at: datetime) -> Reason | None:
    """Quiet hours hold back what notifies people; only its workers know whether this job does."""
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
    """How many others are due beside it."""
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
    """Whether the worker takes jobs of this queue and tenant, and can do them."""
    return takes(worker, job) and (job.kind in worker.kinds or ANY_KIND in worker.kinds)


def takes(worker: WorkerPresence, job: Job) -> bool:
    """Whether the worker takes jobs of this queue and tenant, be it able to do them or not."""
    return is_chosen(job.queue, worker.queues) and is_chosen(job.tenant, worker.tenants)


def is_known_to_notify(job: Job) -> bool:
    """Quiet hours have held it back before."""
    return job.deferral is not None and QUIET in job.deferral.reason


def _judge_gates(job: Job, climate: Climate, at: datetime) -> Iterator[Reason]:
    verdict = climate.board.judge(job, at, notifies=is_known_to_notify(job))
    if not isinstance(verdict, Closed):
        return
    opens = "It is asked again at" if verdict.is_recheck else "It opens at"
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
            tail = "." if not limit.running else ", and so many do."
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
            "whichever takes it will fail it.",
        )


def _scope(limit: Limit) -> str:
    if limit.tenant is None:
        return "all jobs together" if limit.queue is None else f"queue {limit.queue}"
    if limit.queue is None:
        return "this tenant"
    return f"queue {limit.queue} of this tenant"
