"""The limits that a worker goes by."""

from collections import Counter
from datetime import timedelta

import pytest

from rota.errors import StoreUnavailableError
from rota.policy.limits import BUCKETS, LIMITS, Limit, Rate
from rota.policy.watch import REFRESH_FOR, LimitWatch
from rota.rail.settings import clear_limit, set_limit
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import MINUTE, NOW, SECOND, a_request, end

TICK = timedelta(milliseconds=1)


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    await store.insert([a_job(tenant=tenant) for tenant in "ab" for _ in range(10)], NOW)
    return store


async def test_without_limits_a_lease_is_as_ever(store: MemoryStore) -> None:
    got = await LimitWatch(store).lease(a_request(), NOW)
    assert (len(got.jobs), got.is_limited, got.again_at) == (20, False, None)


async def test_a_limit_holds_for_those_it_concerns(store: MemoryStore) -> None:
    await set_limit(store, Limit(tenant="a", running=3))
    watch = LimitWatch(store)
    other = await watch.lease(a_request(tenants=["b"], limit=2), NOW)
    assert (len(other.jobs), other.is_limited) == (2, False)
    got = await watch.lease(a_request(), NOW)
    assert Counter(job.tenant for job in got.jobs) == Counter(a=3, b=8)
    assert got.is_limited


async def test_a_limit_on_a_queue_concerns_only_workers_of_that_queue(store: MemoryStore) -> None:
    await set_limit(store, Limit(queue="default", running=3))
    await store.insert([a_job(queue="other") for _ in range(4)], NOW)
    watch = LimitWatch(store)
    other = await watch.lease(a_request(queues=["other"]), NOW)
    assert (len(other.jobs), other.is_limited) == (4, False)
    got = await watch.lease(a_request(queues=["default"]), NOW)
    assert (len(got.jobs), got.is_limited) == (3, True)


async def test_a_change_is_noticed_within_seconds(store: MemoryStore) -> None:
    watch = LimitWatch(store)
    assert await watch.read_changes(NOW, REFRESH_FOR)
    await set_limit(store, Limit(running=1))
    assert not await watch.read_changes(NOW + SECOND, REFRESH_FOR)
    assert not watch.limits
    assert await watch.read_changes(NOW + 2 * SECOND, REFRESH_FOR)
    assert watch.limits == (Limit(running=1),)
    assert not await watch.read_changes(NOW + 4 * SECOND, REFRESH_FOR)
    await clear_limit(store)
    assert await watch.read_changes(NOW + 6 * SECOND, REFRESH_FOR)
    assert not watch.limits


async def test_a_lease_that_marks_due_jobs_saves_others_the_work(store: MemoryStore) -> None:
    watch = LimitWatch(store)
    await watch.read_changes(NOW, REFRESH_FOR)
    await set_limit(store, Limit(running=1))
    await watch.refresh_ahead(NOW + SECOND - TICK)
    assert not watch.limits
    await watch.refresh_ahead(NOW + SECOND)
    assert watch.limits == (Limit(running=1),)
    await clear_limit(store)
    assert not await watch.read_changes(NOW + 3 * SECOND - TICK, REFRESH_FOR)


async def test_a_change_without_a_notification_is_noticed_eventually(store: MemoryStore) -> None:
    watch = LimitWatch(store)
    await watch.read_changes(NOW, REFRESH_FOR)
    await store.write_all([DocumentWrite(LIMITS, "all", None, b'{"running":1}')])
    assert not await watch.read_changes(NOW + 30 * SECOND, REFRESH_FOR)
    assert await watch.read_changes(NOW + MINUTE, REFRESH_FOR)
    assert watch.limits == (Limit(running=1),)


async def test_a_limit_that_is_damaged_later_still_holds(store: MemoryStore) -> None:
    await set_limit(store, Limit(running=1))
    watch = LimitWatch(store)
    await watch.read_changes(NOW, REFRESH_FOR)
    writes = [
        DocumentWrite(LIMITS, "all", 1, b"?"),
        DocumentWrite(LIMITS, "what", None, b"?"),
    ]
    await store.write_all(writes)
    await watch.read_changes(NOW + MINUTE, REFRESH_FOR)
    assert watch.limits == (Limit(running=1),)
    assert [damage.key for damage in watch.damages] == ["all", "what"]


async def test_no_more_start_than_the_rate_allows(store: MemoryStore) -> None:
    await set_limit(store, Limit(tenant="a", rate=Rate(count=3, per=MINUTE)))
    watch = LimitWatch(store)
    got = await watch.lease(a_request(limit=12), NOW)
    assert Counter(job.tenant for job in got.jobs) == Counter(a=3, b=9)
    assert got.again_at == NOW + 20 * SECOND
    got = await watch.lease(a_request(), NOW + 20 * SECOND - TICK)
    assert Counter(job.tenant for job in got.jobs) == Counter(b=1)
    got = await watch.lease(a_request(), NOW + 20 * SECOND)
    assert Counter(job.tenant for job in got.jobs) == Counter(a=1)
    assert got.again_at == NOW + 40 * SECOND


async def test_tokens_that_were_not_used_go_back(store: MemoryStore) -> None:
    """The place that is free decides; the other tokens are there for the next one."""
    await set_limit(store, Limit(tenant="a", running=1, rate=Rate(count=3, per=MINUTE)))
    watch = LimitWatch(store)
    for expected in (1, 1, 1, 0):
        got = await watch.lease(a_request(tenants=["a"]), NOW)
        assert len(got.jobs) == expected
        for job in got.jobs:
            await end(store, job)


async def test_only_a_limit_with_a_rate_has_a_bucket(store: MemoryStore) -> None:
    await set_limit(store, Limit(tenant="a", rate=Rate(count=2, per=MINUTE)))
    await set_limit(store, Limit(tenant="b", running=3))
    await LimitWatch(store).lease(a_request(), NOW)
    assert [it.key async for page in store.scan(BUCKETS) for it in page] == ["tenant/a"]


async def test_where_nothing_is_due_no_token_is_moved(store: MemoryStore) -> None:
    await set_limit(store, Limit(queue="quiet", rate=Rate(count=3, per=MINUTE)))
    watch = LimitWatch(store)
    got = await watch.lease(a_request(queues=["quiet"]), NOW)
    assert (got.jobs, got.again_at) == ((), None)
    assert await store.read(BUCKETS, ["queue/quiet"]) == {}


async def test_leased_jobs_survive_a_failed_return_of_rate_tokens(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_limit(store, Limit(queue="default", rate=Rate(count=50, per=MINUTE)))
    watch = LimitWatch(store)
    write_each, calls = store.write_each, 0

    async def fail_after_the_first(writes: list[DocumentWrite]) -> list[int | None]:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise StoreUnavailableError("gone")
        return await write_each(writes)

    monkeypatch.setattr(store, "write_each", fail_after_the_first)
    assert len((await watch.lease(a_request(), NOW)).jobs) == 20
    assert calls == 2


async def test_a_queue_ages_by_its_setting(store: MemoryStore) -> None:
    await set_limit(store, Limit(queue="aged", ageing=MINUTE))
    old = a_job(queue="aged", priority=1, created_at=NOW - 6 * MINUTE)
    young = a_job(queue="aged", priority=6, created_at=NOW)
    await store.insert([young, old], NOW)
    got = await LimitWatch(store).lease(a_request(queues=["aged"]), NOW)
    assert [job.id for job in got.jobs] == [old.id, young.id]
