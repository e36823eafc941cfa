"""The audit log of a tenant."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.jobs.fields import read_id
from rota.jobs.search import DEFAULT_LIMIT
from rota.ops.audit import list_audit_entries
from rota.policy.audit import AuditEntry
from rota.server.api.fields import PageCursor, PageLimit, PageOf, Uuid
from rota.server.http.route import Call, Nothing, Route, route


class AuditSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters. An entry must match all of them."""

    action: Annotated[str | None, Meta(description="Entries with this action.")] = None
    job_id: Annotated[Uuid | None, Meta(description="Entries about this job.")] = None
    cursor: PageCursor = None
    limit: PageLimit = DEFAULT_LIMIT


class AuditList(PageOf[AuditEntry], frozen=True):
    """A page of the audit log, newest entry first."""


async def read_audit_log(call: Call[Nothing, AuditSearch]) -> AuditList:
    """Read the audit log of your tenant, newest entry first."""
    asked = call.query
    page = await list_audit_entries(
        call.store,
        call.tenant,
        action=asked.action,
        job_id=None if asked.job_id is None else read_id(asked.job_id, "job_id"),
        cursor=asked.cursor,
        limit=asked.limit,
    )
    return AuditList(page.items, page.next_cursor, page.has_more)


ROUTES: tuple[Route, ...] = (route("GET", "/api/v1/audit", read_audit_log, Scope.READ, "audit"),)
