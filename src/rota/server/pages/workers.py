"""The workers page: workers and pollers, and what runs now."""

from typing import Any

from rota.ops.polled import list_pollers_of
from rota.ops.workers import find_crew
from rota.server.pages.visit import Visit


async def read_workers(visit: Visit) -> dict[str, Any]:
    store = visit.store
    crew = await find_crew(store, visit.tenant, visit.now)
    return {
        "workers": crew.workers,
        "room": sum(each.worker.concurrency for each in crew.workers),
        "running": crew.running,
        "ahead_count": crew.ahead_count,
        "has_more": crew.has_more,
        "pollers": await list_pollers_of(store, visit.now, visit.tenant),
    }
