"""The workers page: workers and pollers, and what runs now."""

from collections import Counter
from typing import NamedTuple

from starlette.responses import Response

from rota.fleet.workers import WorkerPresence, list_workers
from rota.jobs import JobFilter, JobStatus
from rota.ops.polled import list_pollers_of
from rota.server.pages.responses import render_page
from rota.server.pages.statuses import make_rows
from rota.server.pages.visit import Visit

MOST_SHOWN = 100


class BusyWorker(NamedTuple):
    """A worker and the number of the tenant's jobs it runs."""

    worker: WorkerPresence
    busy_count: int


async def show_workers(visit: Visit) -> Response:
    store = visit.context.store
    page = await store.find(visit.tenant, JobFilter(status=JobStatus.RUNNING), limit=MOST_SHOWN)
    present = await list_workers(store, visit.now)
    ours = [each for each in present if each.tenants is None or visit.tenant in each.tenants]
    busy = Counter(job.lease.worker for job in page.items if job.lease is not None)
    running = sorted(page.items, key=lambda job: job.lease.taken_at if job.lease else job.due_at)
    return render_page(
        visit,
        "workers.html",
        page="workers",
        workers=[BusyWorker(each, busy[each.id]) for each in ours],
        room=sum(each.concurrency for each in ours),
        running=make_rows(running, visit.now),
        has_more=page.has_more,
        pollers=await list_pollers_of(store, visit.now, visit.tenant),
    )
