"""Who is there to run jobs, and what runs now."""

from collections import Counter
from typing import NamedTuple

from starlette.responses import Response

from rota.jobs import JobFilter, JobStatus
from rota.server.pages.serving.answers import render_page
from rota.server.pages.serving.visit import Visit
from rota.server.pages.wording.rows import make_rows
from rota.worker.presence import WorkerPresence, list_workers

MOST_SHOWN = 100


class BusyWorker(NamedTuple):
    """A worker, and how many jobs of the tenant it runs."""

    worker: WorkerPresence
    busy_count: int


async def show_workers(visit: Visit) -> Response:
    store = visit.around.store
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
    )
