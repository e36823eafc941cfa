"""What was done to a tenant's jobs, when, by whom and why."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.jobs.fields import read_id
from rota.jobs.search import DEFAULT_LIMIT
from rota.ops.audit import list_audit_entries
from rota.rail.audit import AuditEntry
from rota.server.api.shapes.limited import PageCursor, PageLimit
from rota.server.api.shapes.words import Uuid
from rota.server.api.views import Cursor
from rota.server.routing.route import Call, Nothing, Route


class AuditSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries are wanted: those that fit everything that is said."""

    action: Annotated[str | None, Meta(description="Only what was done of this sort.")] = None
    job_id: Annotated[Uuid | None, Meta(description="Only what was done to this job.")] = None
    cursor: PageCursor = None
    limit: PageLimit = DEFAULT_LIMIT


class AuditList(msgspec.Struct, frozen=True):
    """A page of the audit log, the newest entry first."""

    items: tuple[AuditEntry, ...]
    next_cursor: Cursor
    has_more: bool


async def read_audit_log(call: Call[Nothing, AuditSearch]) -> AuditList:
    """Read the audit log of your tenant, the newest entry first."""
    asked = call.query
    page = await list_audit_entries(
        call.around.store,
        call.caller.tenant,
        action=asked.action,
        job_id=None if asked.job_id is None else read_id(asked.job_id, "job_id"),
        cursor=asked.cursor,
        limit=asked.limit,
    )
    return AuditList(page.items, page.next_cursor, page.has_more)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/v1/audit",
        handler=read_audit_log,
        scope=Scope.READ,
        tag="audit",
        query=AuditSearch,
        answers={200: AuditList},
    ),
)
