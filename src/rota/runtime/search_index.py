"""Keeps the index for searches while a process has pages."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from datetime import datetime, timedelta

from rota.clock.protocol import Clock, keeps_real_time
from rota.errors import RotaError
from rota.fleet.identity import make_process_name
from rota.runtime.configuration import read_configuration
from rota.search.indexer import SearchIndexer, forget_index
from rota.stores.opened import OpenStore
from rota.telemetry.tenant_stats import TENANTS_KEPT, read_tenant_stats

ListTenants = Callable[[], Awaitable[Collection[str]]]

_HOUR = timedelta(hours=1)


class KnownTenants:
    """The tenants that the process knows of: by their tokens, and by what ran in the last days."""

    def __init__(self, store: OpenStore, clock: Clock, list_tenants: ListTenants) -> None:
        self._store = store
        self._clock = clock
        self._list_tenants = list_tenants
        self._seen: set[str] = set()
        self._seen_at: datetime | None = None

    async def list(self) -> set[str]:
        now = self._clock.now()
        since = now - TENANTS_KEPT if self._seen_at is None else self._seen_at - _HOUR
        found = await read_tenant_stats(self._store, since, now)
        self._seen |= {it.tenant for it in found}
        self._seen_at = now
        return self._seen | set(await self._list_tenants())


async def keep_index(store: OpenStore, clock: Clock, list_tenants: ListTenants) -> None:
    """Index the jobs of these tenants, and of all that have run jobs lately, until cancelled.

    When the environment says so, remove the index instead. Under a virtual clock do nothing: it
    would wake four times in every minute of a simulated year.
    """
    if keeps_real_time(clock):
        if read_configuration().has_search_index:
            tenants = KnownTenants(store, clock, list_tenants)
            await SearchIndexer(store, clock, make_process_name(), tenants.list).run()
        with suppress(RotaError):
            await forget_index(store)
    await asyncio.Event().wait()
