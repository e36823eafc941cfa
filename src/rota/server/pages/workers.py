"""The workers page: workers and pollers, and what runs now."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from starlette.responses import Response

from rota.fleet.workers import WorkerPresence, list_workers
from rota.jobs import Job, JobFilter, JobStatus
from rota.ops.polled import list_pollers_of
from rota.server.pages.responses import render_page
from rota.server.pages.statuses import make_rows
from rota.server.pages.visit import Visit

MOST_SHOWN = 100


class BusyWorker(NamedTuple):
    """A worker and the number of the tenant's jobs it runs, and of those it leased ahead."""

    worker: WorkerPresence
    busy_count: int
    ahead_count: int


async def show_workers(visit: Visit) -> Response:
    store = visit.context.store
    page = await store.find(visit.tenant, JobFilter(status=JobStatus.RUNNING), limit=MOST_SHOWN)
    present = await list_workers(store, visit.now)
    ours = [each for each in present if each.tenants is None or visit.tenant in each.tenants]
    running, ahead = _divide(page.items, {each.id: each.concurrency for each in ours})
    busy = Counter(job.lease.worker for job in running if job.lease is not None)
    return render_page(
        visit,
        "workers.html",
        page="workers",
        workers=[BusyWorker(each, busy[each.id], ahead[each.id]) for each in ours],
        room=sum(each.concurrency for each in ours),
        running=make_rows(running, visit.now),
        ahead_count=ahead.total(),
        has_more=page.has_more,
        pollers=await list_pollers_of(store, visit.now, visit.tenant),
    )


def _divide(leased: Iterable[Job], rooms: dict[str, int]) -> tuple[list[Job], Counter[str]]:
    """The jobs that run, and how many each worker has leased ahead of their start.

    A worker starts jobs in the order in which it leased them, as many at once as it has room for.
    """
    running: list[Job] = []
    busy, ahead = Counter[str](), Counter[str]()
    for job in sorted(leased, key=lambda job: job.lease.taken_at if job.lease else job.due_at):
        worker = "" if job.lease is None else job.lease.worker
        if busy[worker] < rooms.get(worker, MOST_SHOWN):
            busy[worker] += 1
            running.append(job)
        else:
            ahead[worker] += 1
    return running, ahead
