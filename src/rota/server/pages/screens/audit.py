"""Who did what to which jobs."""

from datetime import datetime
from typing import NamedTuple

from starlette.responses import Response

from rota.control.acts import list_acts
from rota.jobs import JobId
from rota.rail.audit import AuditEntry
from rota.server.pages.serving.answers import render_page
from rota.server.pages.serving.visit import Visit

MOST_SHOWN = 50
_LONGEST_DETAIL = 120


class Act(NamedTuple):
    """One entry, in words."""

    at: datetime
    who: str
    words: str
    why: str
    job_ids: tuple[JobId, ...]
    details: str


async def show_audit(visit: Visit) -> Response:
    cursor = visit.ask("cursor") or None
    page = await list_acts(visit.around.store, visit.tenant, cursor=cursor, limit=MOST_SHOWN)
    return render_page(
        visit,
        "audit.html",
        page="audit",
        acts=[tell_act(entry) for entry in page.items],
        older=visit.link("audit", cursor=page.next_cursor) if page.next_cursor else None,
        newest=visit.link("audit") if cursor else None,
    )


def tell_act(entry: AuditEntry) -> Act:
    told = [f"{name}: {value}"[:_LONGEST_DETAIL] for name, value in entry.details.items()]
    words = entry.action.replace("_", " ").replace(".", " ")
    return Act(entry.at, entry.who, words, entry.why, entry.job_ids, ", ".join(told))
