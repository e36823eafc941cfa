"""The workers of a tenant, and how busy they are."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from rota.fleet.presence import WorkerPresence, list_workers
from rota.jobs import Job, JobFilter, JobStatus
from rota.ops.queues import works_for
from rota.rail.jobs import RailStore

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
