"""Processes with pages keep the search index, or remove it."""

from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest
from tests.unit.search.conftest import NOW
from tests.unit.search.corpus import find_ids, make_indexer, some_jobs

from rota.clock.loop import turn
from rota.clock.system import SystemClock
from rota.runtime.process import in_background
from rota.runtime.search_index import keep_index
from rota.search import indexer
from rota.search.index import read_state
from rota.stores.memory import MemoryStore
from rota.stores.protocol import KeptJob
from rota.testing import VirtualClock


async def list_tenants() -> Sequence[str]:
    return ["default"]


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(indexer, "MOST_LOOKED_AT", 5)
    monkeypatch.setattr(indexer, "FEWEST_INDEXED", 5)
    made = MemoryStore()
    jobs = some_jobs(20, NOW - timedelta(hours=1), Random(1))
    await made.load([KeptJob(job) for job in jobs], NOW)
    return made


async def is_indexed(store: MemoryStore) -> bool:
    return bool((await read_state(store, "default")).state.segments)


async def test_a_process_keeps_the_index(store: MemoryStore) -> None:
    async with in_background(keep_index(store, SystemClock(), list_tenants), "index"):
        while not await is_indexed(store):
            await turn()
    assert await find_ids(store, "kind:report") == await find_ids(
        store, "kind:report", looks_at_all=True
    )


async def test_a_process_without_an_index_removes_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_indexer(store, VirtualClock(NOW)).run_once()
    assert await is_indexed(store)
    monkeypatch.setenv("ROTA_SEARCH_INDEX", "off")
    async with in_background(keep_index(store, SystemClock(), list_tenants), "index"):
        while await is_indexed(store):
            await turn()


async def test_under_a_virtual_clock_nothing_is_indexed(store: MemoryStore) -> None:
    clock = VirtualClock(NOW)
    async with in_background(keep_index(store, clock, list_tenants), "index"):
        await clock.advance(timedelta(minutes=5))
    assert not await is_indexed(store)
