"""The workers page: workers and pollers, and what runs now."""

from typing import Any

from rota.ops.polled import list_pollers_of
from rota.ops.queues import survey_workers
from rota.server.pages.visit import Visit


async def read_workers(visit: Visit) -> dict[str, Any]:
    store = visit.store
    found = await survey_workers(store, visit.tenant, visit.now)
    return {
        "workers": found.workers,
        "room": sum(each.worker.concurrency for each in found.workers),
        "running": found.running,
        "ahead_count": found.ahead_count,
        "has_more": found.has_more,
        "pollers": await list_pollers_of(store, visit.now, visit.tenant),
    }
