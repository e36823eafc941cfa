"""The queues and the workers of a tenant: depth, throughput, limits, pauses, and who is busy."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import asdict

from rota.clock.protocol import Clock
from rota.errors import NotFoundError
from rota.fleet.presence import WorkerPresence, list_workers
from rota.jobs import Job, JobFilter, JobStatus
from rota.jobs.fields import read_queue
from rota.policy.limits import Limit
from rota.rail.jobs import RailContext, RailStore
from rota.rail.settings import list_limits, pause_queue, resume_queue
from rota.stores.protocol import QueueDepth, is_chosen
from rota.telemetry.stats import MinuteStats, read_stats

MEASURED_FOR = timedelta(minutes=15)
"""The time over which the throughput of a queue is measured."""

Whose = Literal["own", "all"]
"""A queue of the caller's tenant only, or of all tenants together."""

_MINUTE = timedelta(minutes=1)


class QueueStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of the tenant and its jobs that have not ended.

    ``due_count`` jobs can run now; the oldest has been due since ``oldest_due_at``,
    ``late_seconds`` ago. ``worker_count`` is the number of known workers that serve the queue.
    """

    queue: str
    due_count: int
    later_count: int
    running_count: int
    stalled_count: int
    dead_count: int
    oldest_due_at: datetime | None
    late_seconds: float
    worker_count: int


class QueuePause(msgspec.Struct, frozen=True, kw_only=True):
    """Since when the queue is paused, by whom and why."""

    whose: Whose
    at: datetime
    who: str
    why: str


class QueueLimit(msgspec.Struct, frozen=True, kw_only=True):
    """At most ``running`` at once, and at most ``rate_count`` starts in ``rate_seconds``."""

    whose: Whose
    running: int | None
    rate_count: int | None
    rate_seconds: float | None
    rate_burst: int | None
    ageing_seconds: float | None


class QueueReport(QueueStanding, frozen=True, kw_only=True):
    """A queue with its throughput of the last 15 minutes, its limits and its pauses.

    ``slot_count`` is how many jobs its workers can run at once. ``empty_in_seconds`` is how long
    the due jobs take at the current throughput; null when nothing ends.
    """

    succeeded_count: int = 0
    failed_count: int = 0
    per_minute: float = 0.0
    empty_in_seconds: float | None = None
    slot_count: int = 0
    limits: tuple[QueueLimit, ...] = ()
    pauses: tuple[QueuePause, ...] = ()

    @property
    def is_paused(self) -> bool:
        return bool(self.pauses)


class QueueLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What an autoscaler needs to know of a queue.

    ``load`` is the number of jobs that need a worker now: running ones, and due ones unless the
    queue is paused.
    """

    queue: str
    load: int
    due_count: int
    running_count: int
    late_seconds: float
    is_paused: bool


async def measure_load(store: RailStore, clock: Clock, tenant: str, queue: str) -> QueueLoad:
    """The load of a queue; 0 if it has no jobs, so that workers can be scaled to and from zero."""
    read_queue(queue)
    now = clock.now()
    depths = [it for it in await store.survey(now, tenant) if it.queue == queue]
    standing = stand(depths[0] if depths else QueueDepth(queue=queue), (), now)
    is_paused = any(
        it.paused is not None
        for it in (await list_limits(store)).limits
        if it.queue == queue and it.tenant in (None, tenant)
    )
    waiting = 0 if is_paused else standing.due_count
    return QueueLoad(
        queue=queue,
        load=waiting + standing.running_count,
        due_count=standing.due_count,
        running_count=standing.running_count,
        late_seconds=standing.late_seconds,
        is_paused=is_paused,
    )


async def list_queues(store: RailStore, clock: Clock, tenant: str) -> tuple[QueueReport, ...]:
    """The tenant's queues by name: with jobs, recent throughput, a worker, a limit or a pause."""
    now = clock.now()
    depths = {it.queue: it for it in await store.survey(now, tenant)}
    workers = [it for it in await list_workers(store, now) if works_for(it, tenant)]
    limits = [
        it
        for it in (await list_limits(store)).limits
        if it.queue is not None and it.tenant in (None, tenant)
    ]
    ended = count_ended(await read_stats(store, tenant, now - MEASURED_FOR, now + _MINUTE))
    served = {queue for it in workers for queue in it.queues or ()}
    names = {*depths, *ended, *served, *(it.queue for it in limits if it.queue)}
    return tuple(
        _report(
            stand(depths.get(queue) or QueueDepth(queue=queue), workers, now),
            ended.get(queue, (0, 0)),
            sum(it.concurrency for it in workers if is_chosen(queue, it.queues)),
            [it for it in limits if it.queue == queue],
        )
        for queue in sorted(names)
    )


async def find_queue(store: RailStore, clock: Clock, tenant: str, queue: str) -> QueueReport:
    """One queue; NotFoundError when it has no jobs, no limits and no workers, nor had any."""
    read_queue(queue)
    for report in await list_queues(store, clock, tenant):
        if report.queue == queue:
            return report
    raise NotFoundError(f"Queue {queue} has no jobs, limits or workers", {"field": "queue"})


async def set_queue_paused(
    context: RailContext, queue: str, whose: Whose, *, paused: bool, who: str, why: str
) -> None:
    """Pause or resume a queue of the tenant, or of all tenants."""
    tenant = context.tenant if whose == "own" else None
    change = pause_queue if paused else resume_queue
    await change(context.store, queue, tenant=tenant, who=who, why=why or None, clock=context.clock)


def count_ended(minutes: Iterable[MinuteStats]) -> dict[str, tuple[int, int]]:
    """How many attempts of each queue succeeded and failed."""
    counts: dict[str, tuple[int, int]] = {}
    for part in (part for minute in minutes for part in minute.parts):
        succeeded, failed = counts.get(part.queue, (0, 0))
        counts[part.queue] = succeeded + part.succeeded, failed + part.failed
    return counts


def stand(depth: QueueDepth, workers: Sequence[WorkerPresence], now: datetime) -> QueueStanding:
    """The standing of a queue, with the workers that serve it."""
    late_for = timedelta(0) if depth.oldest_due_at is None else now - depth.oldest_due_at
    return QueueStanding(
        **asdict(depth),
        late_seconds=late_for.total_seconds(),
        worker_count=sum(is_chosen(depth.queue, it.queues) for it in workers),
    )


def works_for(worker: WorkerPresence, tenant: str) -> bool:
    return is_chosen(tenant, worker.tenants)


def _report(
    standing: QueueStanding, ended: tuple[int, int], slot_count: int, limits: Sequence[Limit]
) -> QueueReport:
    rate = sum(ended) / (MEASURED_FOR / _MINUTE)
    return QueueReport(
        **asdict(standing),
        succeeded_count=ended[0],
        failed_count=ended[1],
        per_minute=round(rate, 2),
        empty_in_seconds=round(standing.due_count / rate * 60, 1) if rate else None,
        slot_count=slot_count,
        limits=tuple(_view_limit(it) for it in limits if it.is_limited),
        pauses=tuple(
            QueuePause(whose=_whose(it), at=it.paused.at, who=it.paused.who, why=it.paused.why)
            for it in limits
            if it.paused is not None
        ),
    )


def _view_limit(limit: Limit) -> QueueLimit:
    rate = limit.rate
    return QueueLimit(
        whose=_whose(limit),
        running=limit.running,
        rate_count=None if rate is None else rate.count,
        rate_seconds=None if rate is None else rate.per.total_seconds(),
        rate_burst=None if rate is None else rate.most,
        ageing_seconds=None if limit.ageing is None else limit.ageing.total_seconds(),
    )


def _whose(limit: Limit) -> Whose:
    return "all" if limit.tenant is None else "own"


MOST_READ = 100
"""How many running jobs are looked at."""


class BusyWorker(NamedTuple):
    """A worker and the number of the tenant's jobs it runs, and of those it leased ahead."""

    worker: WorkerPresence
    busy_count: int
    ahead_count: int


class WorkerSurvey(NamedTuple):
    """The workers of a tenant and the jobs that they run; ``has_more`` if not all were read."""

    workers: Sequence[BusyWorker]
    running: Sequence[Job]
    ahead_count: int
    has_more: bool


async def survey_workers(store: RailStore, tenant: str, now: datetime) -> WorkerSurvey:
    """The workers that take jobs of the tenant, longest running first, and what they run."""
    page = await store.find(tenant, JobFilter(status=JobStatus.RUNNING), limit=MOST_READ)
    present = [it for it in await list_workers(store, now) if works_for(it, tenant)]
    running, ahead = _divide(page.items, {each.id: each.concurrency for each in present})
    busy = Counter(job.lease.worker for job in running if job.lease is not None)
    workers = [BusyWorker(each, busy[each.id], ahead[each.id]) for each in present]
    return WorkerSurvey(workers, running, ahead.total(), page.has_more)


def _divide(leased: Iterable[Job], rooms: dict[str, int]) -> tuple[list[Job], Counter[str]]:
    """The jobs that run, and how many each worker has leased ahead of their start.

    A worker starts jobs in the order in which it leased them, as many at once as it has room for.
    """
    running: list[Job] = []
    busy, ahead = Counter[str](), Counter[str]()
    for job in sorted(leased, key=lambda job: job.lease.taken_at if job.lease else job.due_at):
        worker = "" if job.lease is None else job.lease.worker
        if busy[worker] < rooms.get(worker, MOST_READ):
            busy[worker] += 1
            running.append(job)
        else:
            ahead[worker] += 1
    return running, ahead
