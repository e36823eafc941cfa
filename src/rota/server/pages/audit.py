"""The audit log page."""

from typing import Any

from rota.ops.audit import list_audit_entries
from rota.server.pages.visit import Visit

MOST_SHOWN = 50
JOBS_NAMED = 3


async def read_audit(visit: Visit) -> dict[str, Any]:
    cursor = visit.ask("cursor") or None
    page = await list_audit_entries(visit.store, visit.tenant, cursor=cursor, limit=MOST_SHOWN)
    wanted = {each for entry in page.items for each in entry.job_ids[:JOBS_NAMED]}
    known = await visit.store.get(visit.tenant, sorted(wanted)) if wanted else {}
    return {
        "entries": page.items,
        "names": {job_id: job.name for job_id, job in known.items()},
        "jobs_named": JOBS_NAMED,
        "older": visit.link("audit", cursor=page.next_cursor) if page.next_cursor else None,
        "newest": visit.link("audit") if cursor else None,
    }
