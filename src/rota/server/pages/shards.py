"""The shards page: what waits and runs on each shard, and which tenants lie where."""

from datetime import timedelta

from starlette.responses import Response

from rota.ops.tenants import compare_tenants
from rota.server.pages.responses import render_page
from rota.server.pages.visit import Visit
from rota.stores.opened import Sharded

_COMPARED = timedelta(hours=24)


async def show_shards(visit: Visit) -> Response:
    visit.check_installation()
    store, clock = visit.store, visit.clock
    if not isinstance(store, Sharded):
        return await render_page(visit, "shards.html", shards=(), moves=(), tenants={})
    shards, moves = await store.describe_shards(visit.now)
    busy = await visit.cached("tenants 24", lambda: compare_tenants(store, clock, _COMPARED))
    tenants: dict[str, list[str]] = {}
    for each in busy:
        tenants.setdefault(store.shard_of(each.tenant), []).append(each.tenant)
    return await render_page(visit, "shards.html", shards=shards, moves=moves, tenants=tenants)
