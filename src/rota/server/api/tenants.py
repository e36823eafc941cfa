"""Tenants, side by side."""

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.ops.tenants import TenantReport, compare_tenants
from rota.server.api.fields import Whole
from rota.server.http.route import Call, Nothing, Route, route


class TenantChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time that is compared."""

    hours: Annotated[int, Meta(ge=1, le=168, description="The last hours.")] = 1


class TenantList(Whole[TenantReport], frozen=True):
    """The tenants with attempts that ended in this time, the busiest first."""


async def get_tenants(call: Call[Nothing, TenantChoice]) -> TenantList:
    """Compare the tenants of the installation; for an admin of the default tenant."""
    call.caller.check_installation()
    lasting = timedelta(hours=call.query.hours)
    return TenantList(await compare_tenants(call.store, call.clock, lasting))


ROUTES: tuple[Route, ...] = (route("GET", "/api/v1/tenants", get_tenants, Scope.ADMIN, "tenants"),)
