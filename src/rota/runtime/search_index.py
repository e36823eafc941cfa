"""Keeps the index for searches while a process has pages."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from rota.clock.protocol import Clock, keeps_real_time
from rota.errors import RotaError
from rota.fleet.identity import make_process_name
from rota.runtime.configuration import read_configuration
from rota.search.indexer import SearchIndexer, forget_index
from rota.stores.opened import OpenStore

ListTenants = Callable[[], Awaitable[Collection[str]]]


def make_index_loop(
    store: OpenStore, clock: Clock, list_tenants: ListTenants
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Index the jobs of these tenants until cancelled.

    When the environment says so, remove the index instead. Under a virtual clock do nothing: it
    would wake four times in every minute of a simulated year.
    """

    async def run() -> None:
        if keeps_real_time(clock):
            if read_configuration().has_search_index:
                await SearchIndexer(store, clock, make_process_name(), list_tenants).run()
            with suppress(RotaError):
                await forget_index(store)
        await asyncio.Event().wait()

    return run


@asynccontextmanager
async def indexing(
    store: OpenStore, clock: Clock, list_tenants: ListTenants
) -> AsyncIterator[None]:
    """Index while the context lasts."""
    run = asyncio.create_task(
        make_index_loop(store, clock, list_tenants)(), name="rota search index"
    )
    try:
        yield
    finally:
        run.cancel()
        await asyncio.wait({run})
