"""Jobs are marked when they become due, and partitions are found without a scan."""

from collections.abc import Callable
from typing import Any

import pytest

from rota.jobs import Succeeded
from rota.stores.protocol import HeldLease
from rota.stores.sqlite import lease
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, MINUTE, NOW, SECOND, end, names, take


async def test_due_jobs_are_marked_in_bounded_steps_the_longest_due_first(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "MOST_MARKED_DUE", 2)
    later = [a_job(name=str(n), due_at=NOW + n * SECOND, priority=n) for n in (4, 1, 3, 2)]
    await store.insert(later, NOW)
    assert names(await take(store, NOW + DAY)) == ["2", "1"]
    assert names(await take(store, NOW + DAY)) == ["4", "3"]


async def test_a_clock_set_back_knows_what_is_due_when(store: SqliteStore) -> None:
    await store.insert([a_job(due_at=NOW + SECOND), a_job(due_at=NOW + MINUTE)], NOW)
    await take(store, NOW + DAY, limit=1)
    assert await take(store, NOW) == []
    assert await store.next_due_at(NOW) == NOW + MINUTE
    assert await store.next_due_at(NOW, queues=["default"], tenants=["default"]) == NOW + MINUTE


async def test_partitions_are_merged_in_order(store: SqliteStore) -> None:
    queues = ["a", "b", "c"]
    jobs = [a_job(queue=queue, priority=priority) for priority in (2, 9, 5) for queue in queues]
    await store.insert(jobs, NOW)
    for chosen in (None, queues):
        leased = await take(store, limit=4, queues=chosen)
        assert [job.priority for job in leased] == sorted([job.priority for job in leased])[::-1]
    assert len(await take(store)) == 1


async def test_turns_begin_after_the_tenant_that_was_last_and_go_round(store: SqliteStore) -> None:
    await store.insert([a_job(tenant=tenant) for tenant in "abcd" for _ in range(2)], NOW)
    leased = await take(store, limit=4, after_tenant="b")
    assert [job.tenant for job in leased] == ["c", "d", "a", "b"]
    leased = await take(store, limit=3, after_tenant="d")
    assert [job.tenant for job in leased] == ["a", "b", "c"]


async def test_an_ended_job_leaves_the_ready_set(
    store: SqliteStore, reach_in: Callable[..., list[Any]]
) -> None:
    await store.insert([a_job(), a_job(due_at=NOW + DAY)], NOW)
    (leased,) = await take(store)
    await end(store, leased, Succeeded())
    assert reach_in("SELECT is_due, ended_at IS NULL FROM jobs ORDER BY id") == [(None, 0), (0, 1)]


async def test_a_keeper_opens_its_connection_again_after_it_was_closed(store: SqliteStore) -> None:
    await store.insert([a_job()], NOW)
    (leased,) = await take(store)
    keeper = store.make_keeper()
    held = [HeldLease(leased.id, leased.last_token)]
    for minutes in (2, 3):
        assert keeper.extend(held, NOW + minutes * MINUTE, NOW) == [True]
        keeper.close()
    found = await store.get("default", [leased.id])
    extended = found[leased.id].lease
    assert extended is not None
    assert extended.until == NOW + 3 * MINUTE


async def test_the_host_has_the_only_clock(store: SqliteStore) -> None:
    assert await store.read_clock() is None
