"""The overview of a tenant: counts, queues, alarms, and what runs next."""

from asyncio import gather
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Literal

import msgspec

from rota.clock.protocol import Clock
from rota.fleet.presence import WorkerPresence, list_workers
from rota.jobs import Job, JobFilter, JobStatus
from rota.jobs.search import HIGHEST_LIMIT
from rota.ops.explanation import format_duration, show
from rota.ops.holds import Hold, find_holds
from rota.ops.queues import QueueStanding, stand, works_for
from rota.ops.reasons import judge_workers
from rota.ops.series import SeriesSummary, list_series
from rota.ops.tasks import TaskSummary, list_tasks
from rota.rail.jobs import RailStore
from rota.stores.protocol import QueueDepth
from rota.telemetry.health import LATE_AFTER, describe_dead, describe_stalled

FAILURES_SHOWN = 10
NEXT_SHOWN = 10
_SERIES_READ = 100

MOST_LOOKED_AT = 500
"""The newest READY jobs among which due ones are looked for."""

MOST_COUNTED = 1_000
"""The number of ended jobs counted per status; there may be more."""

ENDED = (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.BLOCKED)

Concern = Literal["dead_letters", "stalled", "late", "no_worker", "unserved", "series", "tasks"]


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that needs attention."""

    concern: Concern
    text: str
    count: int = 1
    queue: str | None = None


class NextRun(msgspec.Struct, frozen=True, kw_only=True):
    """A series or declarative task that will run."""

    source: Literal["series", "task"]
    name: str
    at: datetime
    local: datetime
    zone: str
    series_id: str | None = None
    note: str | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A job that failed for good."""

    job_id: str
    name: str
    kind: str
    queue: str
    ended_at: datetime
    ending: str | None
    error: str | None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The overview as of ``taken_at``. ``is_red`` when there are alarms or jobs are held back.

    Of the jobs that have ended, at most 1,000 are counted per status.
    """

    taken_at: datetime
    counts: dict[str, int]
    queues: tuple[QueueStanding, ...]
    alarms: tuple[Alarm, ...]
    next_runs: tuple[NextRun, ...]
    failures: tuple[Failure, ...]
    worker_count: int
    holds: tuple[Hold, ...] = ()

    @property
    def is_red(self) -> bool:
        return bool(self.alarms or any(it.count for it in self.holds))


async def take_overview(
    store: RailStore, clock: Clock, tenant: str, *, zone: tzinfo | None = None
) -> Overview:
    """Read the tenant's overview. Writes nothing.

    ``zone`` is the zone of the store's declarative tasks. Without it they are left out, because
    their due times are unknown.
    """
    now = clock.now()
    depths, present, page, tasks, failures, holds = await gather(
        store.survey(now, tenant),
        list_workers(store, now),
        list_series(store, tenant, now, limit=_SERIES_READ, has_runs=False),
        _list_tasks(store, clock, zone),
        _find_failures(store, tenant),
        find_holds(store, clock, tenant),
    )
    workers = [it for it in present if works_for(it, tenant)]
    queues = tuple(stand(depth, workers, now) for depth in depths)
    return Overview(
        taken_at=now,
        counts=await count_jobs(store, tenant, depths),
        queues=queues,
        alarms=(
            *_judge_queues(queues),
            *await _find_unserved(store, tenant, queues, workers, now),
            *_judge_series(page.items),
            *_judge_tasks(tasks),
        ),
        next_runs=_merge(page.items, tasks, zone),
        failures=failures,
        worker_count=len(workers),
        holds=holds,
    )


async def _list_tasks(
    store: RailStore, clock: Clock, zone: tzinfo | None
) -> tuple[TaskSummary, ...]:
    return () if zone is None else await list_tasks(store, clock, zone)


async def count_jobs(store: RailStore, tenant: str, depths: Sequence[QueueDepth]) -> dict[str, int]:
    """Count the jobs in each status; of those that have ended at most ``MOST_COUNTED``.

    So the cost does not grow with the jobs that are done.
    """
    pending, *ended = await gather(
        store.count(tenant, JobFilter(status=JobStatus.PENDING)),
        *(store.count(tenant, JobFilter(status=status), MOST_COUNTED) for status in ENDED),
    )
    counts = {
        JobStatus.PENDING: pending,
        JobStatus.READY: sum(it.due_count + it.later_count for it in depths),
        JobStatus.RUNNING: sum(it.running_count for it in depths),
        **dict(zip(ENDED, ended, strict=True)),
    }
    return {str(status): counts[status] for status in JobStatus}


def _judge_queues(queues: Sequence[QueueStanding]) -> list[Alarm]:
    return [
        Alarm(concern=concern, text=text, count=count, queue=it.queue)
        for it in queues
        for concern, count, text in _judge_queue(it)
    ]


def _judge_queue(it: QueueStanding) -> Iterator[tuple[Concern, int, str]]:
    if it.stalled_count:
        yield "stalled", it.stalled_count, describe_stalled(it.stalled_count)
    late_for = timedelta(seconds=it.late_seconds)
    if late_for > LATE_AFTER:
        yield "late", it.due_count, _describe_late(it.due_count, late_for)
    if it.due_count and not it.worker_count:
        jobs = "1 job is" if it.due_count == 1 else f"{it.due_count} jobs are"
        yield "no_worker", it.due_count, f"{jobs} due, and no worker takes from the queue"
    if it.dead_count:
        yield "dead_letters", it.dead_count, describe_dead(it.dead_count)


async def _find_unserved(
    store: RailStore,
    tenant: str,
    queues: Sequence[QueueStanding],
    workers: Sequence[WorkerPresence],
    now: datetime,
) -> list[Alarm]:
    """Due jobs that none of their queue's workers can run, in the words of ``explain_job``."""
    served = {it.queue for it in queues if it.worker_count and it.due_count}
    found: Counter[tuple[str, str]] = Counter()
    for job in await find_due(store, tenant, queues, now) if served else ():
        if job.queue in served:
            found.update((job.queue, it.text) for it in judge_workers(job, workers))
    return [
        Alarm(
            concern="unserved",
            text=f"{text[:1].lower()}{text[1:]}".removesuffix("."),
            count=count,
            queue=queue,
        )
        for (queue, text), count in sorted(found.items())
    ]


async def find_due(
    store: RailStore, tenant: str, queues: Iterable[QueueStanding | QueueDepth], now: datetime
) -> list[Job]:
    """The due jobs among the newest READY ones; nothing is read if the queues have none."""
    count, due = sum(it.due_count for it in queues), list[Job]()
    wanted, cursor = JobFilter(status=JobStatus.READY), None
    for _ in range(MOST_LOOKED_AT // HIGHEST_LIMIT if count else 0):
        page = await store.find(tenant, wanted, cursor, HIGHEST_LIMIT)
        due += [job for job in page.items if job.due_at <= now]
        cursor = page.next_cursor
        if cursor is None or len(due) >= count:
            break
    return due


def _describe_late(due_count: int, late_for: timedelta) -> str:
    if due_count == 1:
        return f"1 job is late: it has been due for {format_duration(late_for)}"
    return f"jobs are late: the oldest has been due for {format_duration(late_for)}"


def _judge_series(series: Sequence[SeriesSummary]) -> list[Alarm]:
    return [
        Alarm(
            concern="series",
            text=f"series {it.name} cannot continue: {it.problem}",
            queue=it.queue,
        )
        for it in series
        if it.problem is not None
    ]


def _judge_tasks(tasks: Sequence[TaskSummary]) -> list[Alarm]:
    return [
        Alarm(
            concern="tasks",
            text=f"task {it.name} has failed {_times(it.retry_count)}; it is tried again at "
            f"{show(it.retry_at)}",
        )
        for it in tasks
        if it.retry_at is not None
    ]


def _merge(
    series: Sequence[SeriesSummary], tasks: Sequence[TaskSummary], zone: tzinfo | None
) -> tuple[NextRun, ...]:
    runs = [
        NextRun(
            source="series",
            name=it.name,
            at=it.next_at,
            local=it.occurrences[0].local if it.occurrences else it.next_at,
            zone=it.recurrence.zone,
            series_id=it.id,
            note=it.occurrences[0].note if it.occurrences else None,
        )
        for it in series
        if it.next_at is not None
    ]
    runs += [
        NextRun(
            source="task",
            name=it.name,
            at=it.occurrences[0],
            local=it.occurrences[0].astimezone(zone),
            zone=str(zone),
        )
        for it in tasks
        if it.occurrences
    ]
    runs.sort(key=lambda run: (run.at, run.name))
    return tuple(runs[:NEXT_SHOWN])


async def _find_failures(store: RailStore, tenant: str) -> tuple[Failure, ...]:
    page = await store.find(tenant, JobFilter(status=JobStatus.FAILED), limit=FAILURES_SHOWN)
    latest = sorted(page.items, key=lambda job: (job.updated_at, job.id), reverse=True)
    return tuple(_view_failure(job) for job in latest)


def _view_failure(job: Job) -> Failure:
    return Failure(
        job_id=job.id,
        name=job.name,
        kind=job.kind,
        queue=job.queue,
        ended_at=job.updated_at,
        ending=job.ending,
        error=job.last_error,
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
