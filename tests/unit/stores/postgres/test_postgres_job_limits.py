"""Leases under limits that meet other leases, and rows that cannot be read."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias

import asyncpg
import pytest

from rota.jobs import Job
from rota.stores.kernel import limits
from rota.stores.kernel.limits import Candidate
from rota.stores.postgres.lease import LeaseCall
from rota.stores.postgres.queries import placed
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import Cap
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW, names, take

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
AGEING = {"default": timedelta(minutes=1)}


async def reach_in(store: PostgresStore, inside: Connection, statement: str) -> None:
    await inside.execute(placed(statement, store._settings.schema))


async def test_a_lease_with_limits_skips_jobs_locked_by_another(
    store: PostgresStore, other: Connection
) -> None:
    await store.insert([a_job(name=str(number)) for number in range(4)], NOW)
    async with other.transaction():
        await reach_in(
            store, other, "SELECT FROM rota.jobs ORDER BY created_at, id LIMIT 2 FOR UPDATE"
        )
        leased = await take(store, limit=3, ageing=AGEING, caps=(Cap("default", running=3),))
        assert names(leased) == ["2", "3"]
    assert names(await take(store, ageing=AGEING)) == ["0", "1"]


async def test_a_lease_that_is_contended_again_and_again_gives_up(
    store: PostgresStore, other: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_CONTENDED", 2)
    await store.insert([a_job(name=str(number)) for number in range(6)], NOW)
    async with other.transaction():
        await reach_in(
            store, other, "SELECT FROM rota.jobs ORDER BY created_at, id LIMIT 5 FOR UPDATE"
        )
        assert await take(store, limit=2, ageing=AGEING) == []
        assert names(await take(store, limit=3, ageing=AGEING)) == ["5"]


async def test_a_job_that_moved_to_another_queue_meanwhile_is_not_taken(
    store: PostgresStore, other: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was found in one partition, and is in another by now."""
    await store.insert([a_job(name="moved"), a_job(name="stayed")], NOW)
    take_jobs = LeaseCall.take

    async def take_late(
        call: LeaseCall, offered: Mapping[str, Sequence[Candidate]], share: int
    ) -> list[Job]:
        moving = "UPDATE rota.jobs SET queue = 'full' WHERE body LIKE '%moved%'"
        await reach_in(store, other, moving)
        return await take_jobs(call, offered, share)

    monkeypatch.setattr(LeaseCall, "take", take_late)
    assert names(await take(store, caps=(Cap(queue="full", running=0),))) == ["stayed"]


async def test_a_damaged_job_is_set_aside_and_gives_up_its_place(
    store: PostgresStore, other: Connection
) -> None:
    await store.insert([a_job(name=name) for name in ("bad", "one", "two")], NOW)
    await reach_in(store, other, "UPDATE rota.jobs SET body = '{' WHERE body LIKE '%bad%'")
    assert names(await take(store, caps=(Cap("default", running=1),))) == ["one"]


async def test_programs_that_lease_at_once_never_exceed_a_cap_together(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    """With more scopes than there are locks, so that they share them."""
    tenants = [f"t{number:03}" for number in range(100)]
    caps = tuple(Cap(tenant, running=1) for tenant in tenants)
    await store.insert([a_job(tenant=tenant) for tenant in tenants for _ in range(3)], NOW)
    calls = [take(each, limit=40, caps=caps) for each in (store, elsewhere) * 4]
    leased = [job for batch in await asyncio.gather(*calls) for job in batch]
    assert Counter(job.tenant for job in leased) == Counter(tenants)


async def test_any_number_of_full_partitions_is_skipped(
    store: PostgresStore,
) -> None:
    tenants = [f"t{number:03}" for number in range(60)]
    await store.insert([a_job(tenant=tenant) for tenant in tenants], NOW)
    caps = (
        *(Cap(tenant, count=0) for tenant in tenants[:20]),
        *(Cap(tenant, "default", count=0) for tenant in tenants[20:55]),
    )
    for chosen in (None, tenants):
        leased = await take(store, limit=2, caps=caps, after_tenant="t010", tenants=chosen)
        assert len(leased) == 2
        assert {job.tenant for job in leased} < set(tenants[55:])
