"""The tenants page: compare them, and look at the pages of one."""

from datetime import timedelta
from typing import Any

from starlette.responses import Response

from rota.jobs.fields import read_word
from rota.jobs.record import DEFAULT_TENANT
from rota.ops.tenants import compare_tenants
from rota.policy.audit import AuditedAction, record_action
from rota.server.http.guards import HOME
from rota.server.pages.responses import TENANT_COOKIE, go_to, stream_page
from rota.server.pages.visit import Visit, keep_cookie, read_form, read_target, root_of
from rota.stores.opened import Sharded

HOURS_OFFERED = {1: "hour", 6: "6 hours", 24: "24 hours", 168: "7 days"}


async def show_tenants(visit: Visit) -> Response:
    visit.check_installation()
    known = {"is_sharded": isinstance(visit.store, Sharded)}
    return await stream_page(visit, "tenants.html", lambda: _read(visit), **known)


async def _read(visit: Visit) -> dict[str, Any]:
    asked = visit.ask("hours", "1")
    hours = int(asked) if asked in {str(it) for it in HOURS_OFFERED} else 1
    found = await visit.cached(
        f"tenants {hours}",
        lambda: compare_tenants(visit.store, visit.clock, timedelta(hours=hours)),
    )
    return {
        "tenants": found,
        "hours": str(hours),
        "label": HOURS_OFFERED[hours],
        "ranges": [
            (str(it), "1 hour" if it == 1 else label) for it, label in HOURS_OFFERED.items()
        ],
    }


async def switch_tenant(visit: Visit) -> Response:
    """Look at the pages of another tenant from now on; its audit log records who does."""
    visit.check_installation()
    form = await read_form(visit.request)
    tenant = read_word(form.one("tenant"), "tenant")
    response = go_to(read_target(visit.request, form.one("next", HOME)))
    if tenant == DEFAULT_TENANT:
        response.delete_cookie(TENANT_COOKIE, path=root_of(visit.request) + HOME)
        return response
    act = AuditedAction(action="look_at_tenant", who=visit.who)
    await record_action(visit.around_of(tenant), act)
    keep_cookie(visit, response, TENANT_COOKIE, tenant)
    return response
