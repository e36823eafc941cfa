"""What is peculiar to jobs in Redis: work in parts, keepers, other processes, damaged records."""

import asyncio

import pytest
import redis
from tests.servers.redis import RedisServer

from rota.errors import DamagedJobError, DuplicateJobError, StoreUnavailableError
from rota.jobs import (
    Discarded,
    JobFilter,
    JobStatus,
    decide_complete,
)
from rota.stores.protocol import HeldLease
from rota.stores.redis.address import RedisSettings, read_address
from rota.stores.redis.keys import name_keys
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, MINUTE, NOW, SECOND, end, take

MANY = 1_300
"""More than one script tells, moves or removes."""


async def test_a_refusal_is_for_what_is_kept_not_for_what_was_guessed(store: RedisStore) -> None:
    kept = a_job(idempotency_key="key", payload=1)
    await store.insert([kept], NOW)
    twins = [a_job(idempotency_key="key", payload=payload) for payload in (2, 3)]
    with pytest.raises(DuplicateJobError) as refusal:
        await store.insert(twins, NOW)
    assert refusal.value.job_id == kept.id


async def test_many_jobs_that_come_due_at_once_come_in_order(store: RedisStore) -> None:
    await store.insert([a_job(due_at=NOW + SECOND, priority=1) for _ in range(MANY * 2)], NOW)
    await store.insert([a_job(name="first", due_at=NOW + 2 * SECOND, priority=9)], NOW)
    (leased,) = await take(store, NOW + 3 * SECOND, limit=1)
    assert leased.name == "first"


async def test_a_clock_set_back_puts_many_jobs_off(store: RedisStore) -> None:
    await store.insert([a_job(due_at=NOW) for _ in range(MANY * 2)], NOW)
    assert await take(store, NOW - SECOND, limit=5) == []
    assert await store.next_due_at(NOW - SECOND) == NOW
    assert len(await take(store, NOW, limit=100)) == 100


async def test_pages_of_jobs_created_together_come_by_id_and_newer_ones_first(
    store: RedisStore,
) -> None:
    jobs = [
        a_job(created_at=NOW - age * SECOND, due_at=NOW + late * DAY, priority=priority)
        for age in range(3)
        for late in (0, 1)
        for priority in (1, 9)
        for _ in range(7)
    ]
    await store.insert(jobs, NOW)
    wanted = [job.id for job in sorted(jobs, key=lambda job: (NOW - job.created_at, job.id))]
    found: list[str] = []
    cursor = None
    while len(found) < len(jobs):
        page = await store.find("default", JobFilter(status=JobStatus.READY), cursor, limit=5)
        found += [job.id for job in page.items]
        cursor = page.next_cursor
    assert found == wanted
    assert cursor is None


async def test_since_when_jobs_are_due_is_known_wherever_they_stand(store: RedisStore) -> None:
    prompt = a_job(created_at=NOW, due_at=NOW)
    put_off = a_job(created_at=NOW - DAY, due_at=NOW + MINUTE)
    await store.insert([prompt, put_off], NOW)
    for now, due_count, oldest in (
        (NOW - SECOND, 0, None),
        (NOW, 1, NOW),
        (NOW + DAY, 2, NOW),
    ):
        (depth,) = await store.survey(now)
        assert (depth.due_count, depth.later_count) == (due_count, 2 - due_count)
        assert depth.oldest_due_at == oldest
    (leased,) = await take(store, NOW, limit=5)
    assert leased.id == prompt.id
    assert await store.next_due_at(NOW) == NOW + MINUTE
    (leased,) = await take(store, NOW + MINUTE, limit=5)
    assert leased.id == put_off.id
    assert await store.next_due_at(NOW) is None


async def test_a_job_that_was_to_wait_and_comes_too_late_is_due_since_then(
    store: RedisStore,
) -> None:
    await store.insert([a_job(created_at=NOW - DAY, due_at=NOW - MINUTE)], NOW)
    (depth,) = await store.survey(NOW)
    assert (depth.due_count, depth.oldest_due_at) == (1, NOW - MINUTE)


async def test_a_clock_set_back_and_forth_leaves_each_job_in_one_place(store: RedisStore) -> None:
    await store.insert([a_job(created_at=NOW, due_at=NOW) for _ in range(3)], NOW)
    for now in (NOW - SECOND, NOW, NOW - SECOND):
        leased = await take(store, now, limit=1)
        assert len(leased) == (now >= NOW)
    assert await store.count("default", JobFilter(status=JobStatus.READY)) == 2
    (depth,) = await store.survey(NOW)
    assert (depth.due_count, depth.later_count, depth.running_count) == (2, 0, 1)


async def test_many_jobs_are_leased_and_completed_by_few_commands(own_redis: RedisServer) -> None:
    async with await RedisStore.open(read_address(own_redis.url)) as store:
        await store.insert([a_job() for _ in range(500)], NOW)
        with redis.Redis.from_url(own_redis.url) as client:
            client.config_resetstat()
            leased = await take(store, limit=500)
            await store.apply([decide_complete(job, NOW) for job in leased], NOW)
            stats = client.info("commandstats").values()
    assert len(leased) == 500
    assert sum(each["calls"] for each in stats) < 50


async def test_many_jobs_are_pruned_in_parts(store: RedisStore) -> None:
    await store.insert([a_job() for _ in range(MANY)], NOW)
    while leased := await take(store, limit=500):
        await store.apply([decide_complete(job, NOW) for job in leased], NOW)
    assert (await store.prune(NOW + SECOND, MANY - 1)).removed == MANY - 1
    assert (await store.prune(NOW + SECOND, MANY)).removed == 1
    assert await store.count("default") == 0


async def test_when_all_jobs_are_gone_no_key_is_left_but_counters(
    store: RedisStore, redis_settings: RedisSettings
) -> None:
    parent = a_job(idempotency_key="key")
    child = a_job(dependencies=[parent.id])
    await store.insert([parent, child], NOW)
    (leased,) = await take(store)
    await end(store, leased, Discarded("no"))
    await store.prune(NOW + DAY, 10)
    keys = name_keys(redis_settings.name)
    with redis.Redis.from_url(redis_settings.url) as client:
        left = [key for key in keys.jobs if client.exists(key)]
    assert [key.partition(":")[2] for key in left] == ["counters"], (
        "what was kept of a job stays behind"
    )


async def test_a_record_that_cannot_be_read_is_left_out_and_kept(
    store: RedisStore, redis_settings: RedisSettings, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = a_job(), a_job()
    await store.insert([good, bad], NOW)
    bodies = name_keys(redis_settings.name).jobs[1]
    with redis.Redis.from_url(redis_settings.url) as client:
        client.hset(bodies, bad.id, b'{"name": 7}')
        assert [job.id for job in await take(store)] == [good.id]
        assert bad.id in caplog.text
        with pytest.raises(DamagedJobError):
            await store.amend("default", bad.id, {"priority": 1}, NOW)
        assert client.hget(bodies, bad.id) == b'{"name": 7}'


async def test_another_process_is_woken_and_hears_everything_after_a_loss(
    own_redis: RedisServer,
) -> None:
    settings = read_address(own_redis.url)
    async with (
        await RedisStore.open(settings) as one,
        await RedisStore.open(settings) as other,
        other.listen(queues=["mail"]) as listener,
    ):
        await one.insert([a_job(queue="mail")], NOW)
        await asyncio.wait_for(listener.wait(), 10)
        await one.insert([a_job(queue="elsewhere")], NOW)
        waiting = asyncio.ensure_future(listener.wait())
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        await asyncio.to_thread(own_redis.kill)
        await asyncio.to_thread(own_redis.start)
        await asyncio.wait_for(waiting, 10)


async def test_a_keeper_finds_the_server_again(own_redis: RedisServer) -> None:
    async with await RedisStore.open(read_address(own_redis.url)) as store:
        await store.insert([a_job()], NOW)
        (leased,) = await take(store)
        keeper, held = store.make_keeper(), [HeldLease(leased.id, 1)]
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
        await asyncio.to_thread(own_redis.kill)
        with pytest.raises(StoreUnavailableError, match="no server listens"):
            await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW)
        await asyncio.to_thread(own_redis.start)
        assert await asyncio.to_thread(keeper.extend, held, NOW + 2 * DAY, NOW) == [True]
        keeper.close()
        found = await store.get("default", [leased.id])
        lease = found[leased.id].lease
        assert lease is not None
        assert lease.until == NOW + 2 * DAY


async def test_of_two_equal_completions_in_one_call_the_second_is_stale(store: RedisStore) -> None:
    await store.insert([a_job()], NOW)
    (leased,) = await take(store)
    change = decide_complete(leased, NOW)
    first, second = await store.apply([change, change], NOW)
    assert first.job == change.job
    assert second.job is None
    assert await store.count("default", JobFilter(status=JobStatus.COMPLETED)) == 1


async def test_one_that_others_depend_on_stays_although_none_of_them_waits(
    store: RedisStore,
) -> None:
    parents = [a_job(), a_job()]
    child = a_job(dependencies=[job.id for job in parents])
    await store.insert([*parents, child], NOW)
    failing, succeeding = await take(store, limit=2)
    applied = await end(store, failing, Discarded("no"))
    assert applied.blocked == (child.id,)
    await end(store, succeeding)
    assert (await store.prune(NOW + DAY, 1)).removed == 1
    left = await store.get("default", [*child.dependencies, child.id])
    assert sorted(left) == sorted(child.dependencies)
