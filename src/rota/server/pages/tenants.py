"""The tenants page: compare them, and look at the pages of one. The shards they lie on."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from rota.errors import ForbiddenTenantError
from rota.jobs.fields import read_word
from rota.jobs.record import DEFAULT_TENANT
from rota.ops.tenants import TenantReport, compare_tenants
from rota.policy.audit import AuditedAction, record_action
from rota.server.http.guards import HOME
from rota.server.pages.responses import TENANT_COOKIE, go_to, render_page, stream_page
from rota.server.pages.visit import Form, Visit, keep_cookie, read_target, root_of
from rota.stores.opened import Sharded

HOURS_SHOWN = 24
"""The shards page lists the tenants that have been busy in this time."""

HOURS_OFFERED = {1: "hour", 6: "6 hours", 24: "24 hours", 168: "7 days"}


async def show_tenants(visit: Visit) -> Response:
    _check(visit)
    known = {"is_sharded": isinstance(visit.store, Sharded)}
    return await stream_page(visit, "tenants.html", lambda: _read(visit), **known)


async def _read(visit: Visit) -> dict[str, Any]:
    asked = visit.ask("hours", "1")
    hours = int(asked) if asked in {str(it) for it in HOURS_OFFERED} else 1
    return {
        "tenants": await _compare(visit, hours),
        "hours": str(hours),
        "label": HOURS_OFFERED[hours],
        "ranges": [
            (str(it), "1 hour" if it == 1 else label) for it, label in HOURS_OFFERED.items()
        ],
    }


async def _compare(visit: Visit, hours: int) -> Sequence[TenantReport]:
    lasting = timedelta(hours=hours)
    return await visit.cached(
        f"tenants {hours}", lambda: compare_tenants(visit.store, visit.clock, lasting)
    )


async def switch_tenant(visit: Visit, form: Form) -> Response:
    """Look at the pages of another tenant from now on; its audit log records who does."""
    _check(visit)
    tenant = read_word(form.one("tenant"), "tenant")
    response = go_to(read_target(visit.request, form.one("next", HOME)))
    if tenant == DEFAULT_TENANT:
        response.delete_cookie(TENANT_COOKIE, path=root_of(visit.request) + HOME)
        return response
    act = AuditedAction(action="look_at_tenant", who=visit.who)
    await record_action(visit.around_of(tenant), act)
    keep_cookie(visit, response, TENANT_COOKIE, tenant)
    return response


def _check(visit: Visit) -> None:
    """Refuse a person who may not see other tenants."""
    if not visit.runs_installation:
        raise ForbiddenTenantError(DEFAULT_TENANT)


async def show_shards(visit: Visit) -> Response:
    """What waits and runs on each shard, and which tenants lie where."""
    _check(visit)
    store = visit.store
    if not isinstance(store, Sharded):
        return await render_page(visit, "shards.html", shards=(), moves=(), tenants={})
    shards, moves = await store.describe_shards(visit.now)
    tenants: dict[str, list[str]] = {}
    for each in await _compare(visit, HOURS_SHOWN):
        tenants.setdefault(store.shard_of(each.tenant), []).append(each.tenant)
    return await render_page(visit, "shards.html", shards=shards, moves=moves, tenants=tenants)
