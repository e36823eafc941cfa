"""An idle worker that is parked is leased a new job by the script that inserts it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
import redis
from tests.contract.redis.filing import check_filing
from tests.servers.redis import RedisServer
from tests.servers.redis_proxy import RedisProxy

from rota.errors import StoreUnavailableError
from rota.jobs import Job, JobStatus, Recurrence
from rota.stores.protocol import Parked, ParkingStore
from rota.stores.redis.address import RedisSettings, read_address
from rota.stores.redis.parking import LONGEST_NAME, MOST_PARKED
from rota.stores.redis.rows import pack_head
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import (
    DAY,
    MINUTE,
    NOW,
    SECOND,
    TENANT,
    a_request,
    end,
    find,
    statuses,
    take,
)

PATIENCE = 60.0
INSTANT = timedelta(microseconds=1)
DAILY = Recurrence(interval="1d", start=NOW)


class Lot:
    """Parked workers, and the jobs that each was given; None where some may be lost."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.given: dict[str, list[Job | None]] = {}
        self._news = asyncio.Event()

    async def park(self, now: datetime = NOW, **fields: Any) -> Parked:
        request = a_request(**fields)
        got = self.given.setdefault(request.worker, [])

        def receive(job: Job | None) -> None:
            got.append(job)
            self._news.set()

        parked = await self.store.park(request, now, receive)
        assert parked is not None
        database, all_parked = self.store._database, self.store._notices.parking._parked
        while not parked.is_over:  # until the server knows of it
            if all(await database.call("PUBSUB", "NUMSUB", *all_parked)):
                break
        return parked

    async def wait_for(self, count: int) -> list[Job | None]:
        """All that was given, once it is that much."""
        async with asyncio.timeout(PATIENCE):
            while len(self.all) < count:
                self._news.clear()
                await self._news.wait()
        return self.all

    @property
    def all(self) -> list[Job | None]:
        return [job for jobs in self.given.values() for job in jobs]


@asynccontextmanager
async def listening(store: RedisStore) -> AsyncIterator[Lot]:
    """Workers park on the connection of a listener, so there must be one."""
    async with store.listen():
        yield Lot(store)


@pytest.fixture
async def lot(store: RedisStore) -> AsyncIterator[Lot]:
    async with listening(store) as made:
        yield made


async def given(lot: Lot, *jobs: Job) -> list[Job | None]:
    """What a parked worker got of these, once it has withdrawn."""
    for job in jobs:
        await lot.store.insert([job], NOW)
    for parked in lot.store._notices.parking._parked.copy().values():
        await parked.left(PATIENCE)
    return lot.all


async def test_a_parked_worker_is_given_the_job_as_a_lease_would_give_it(
    lot: Lot, redis_settings: RedisSettings
) -> None:
    store = lot.store
    assert isinstance(store, ParkingStore)
    ready, handed = a_job(payload={"of": "a lease"}), a_job(payload={"of": "a lease"})
    await store.insert([ready], NOW)
    (leased,) = await take(store, kinds=["a job"])
    await lot.park(kinds=["a job"])
    await store.insert([handed], NOW)
    (got,) = await lot.wait_for(1)
    assert got == await find(store, handed.id)
    check_filing(_address(redis_settings))
    assert got is not None
    assert _fields_of(got) == _fields_of(leased)
    assert (await end(store, got)).job is not None


def _fields_of(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__struct_fields__ if name != "id"}


def _address(settings: RedisSettings) -> str:
    return f"{settings.url}{'&' if '?' in settings.url else '?'}name={settings.name}"


@pytest.mark.parametrize(
    ("request_fields", "job_fields"),
    [
        ({"queues": ["mail"]}, {"queue": "default"}),
        ({"tenants": ["acme"]}, {}),
        ({"kinds": ["other", "a job too"]}, {}),
        ({"kinds": []}, {}),
        ({"labels": ["v1"]}, {"label": "v2"}),
        ({"labels": ()}, {"label": "v2"}),
    ],
)
async def test_a_job_that_the_worker_cannot_run_waits_for_another(
    lot: Lot, request_fields: dict[str, Any], job_fields: dict[str, Any]
) -> None:
    await lot.park(**request_fields)
    job = a_job(**job_fields)
    assert await given(lot, job) == []
    assert await statuses(lot.store, job) == [JobStatus.READY]
    assert len(await take(lot.store)) == 1


@pytest.mark.parametrize(
    ("request_fields", "job_fields"),
    [
        ({"queues": ["mail", "default"]}, {}),
        ({"tenants": [TENANT]}, {}),
        ({"kinds": ["other", "a job"]}, {}),
        ({"kinds": None}, {}),
        ({"labels": ["v1", "v2"]}, {"label": "v2"}),
        ({"labels": ()}, {}),
    ],
)
async def test_a_job_that_the_worker_can_run_is_given(
    lot: Lot, request_fields: dict[str, Any], job_fields: dict[str, Any]
) -> None:
    await lot.park(**request_fields)
    job = a_job(**job_fields)
    (got,) = await given(lot, job)
    assert got is not None
    assert (got.id, got.status, got.label) == (job.id, JobStatus.RUNNING, job.label)


@pytest.mark.parametrize(
    "make",
    [
        lambda: [a_job(due_at=NOW + SECOND)],
        lambda: [a_job(created_at=NOW - DAY, due_at=NOW - SECOND)],
        lambda: [a_job(idempotency_key="once")],
        lambda: [a_job(recurrence=DAILY)],
        lambda: [a_job(), a_job()],
    ],
    ids=["due later", "put off", "with a key", "of a series", "two jobs"],
)
async def test_other_jobs_are_leased_as_ever(lot: Lot, make: Callable[[], list[Job]]) -> None:
    jobs = make()
    await lot.park()
    await lot.store.insert(jobs, NOW)
    assert await given(lot) == []
    assert len(await take(lot.store, NOW + MINUTE)) == len(jobs)


async def test_a_job_that_exists_is_not_given_again(lot: Lot) -> None:
    await lot.park()
    job = a_job()
    (answer,) = await lot.store.insert([job], NOW)
    (again,) = await lot.store.insert([job], NOW)
    assert (answer.is_existing, again.is_existing) == (False, True)
    assert len(await given(lot)) == 1


async def test_no_more_jobs_are_given_than_there_is_room_for(lot: Lot) -> None:
    await lot.park(limit=2)
    jobs = [a_job() for _ in range(3)]
    got = await given(lot, *jobs)
    assert [job and job.id for job in got] == [job.id for job in jobs[:2]]
    assert len(await take(lot.store)) == 1


async def test_there_is_room_again_when_a_job_has_ended(lot: Lot) -> None:
    await lot.park(limit=1)
    await lot.store.insert([a_job()], NOW)
    (got,) = await lot.wait_for(1)
    assert got is not None
    await end(lot.store, got)
    assert len(await given(lot, a_job())) == 2


async def test_a_worker_that_was_parked_long_ago_is_given_nothing(lot: Lot) -> None:
    await lot.park(NOW - MINUTE / 2)
    assert await given(lot, a_job()) == []
    await take(lot.store)
    await lot.park(NOW - MINUTE / 2 + INSTANT)
    (got,) = await given(lot, a_job())
    assert got is not None
    assert got.lease is not None
    assert (got.lease.taken_at, got.lease.until) == (NOW, NOW + MINUTE / 2 + INSTANT)


async def test_jobs_are_spread_over_the_parked_workers(lot: Lot) -> None:
    for number in range(4):
        await lot.park(NOW + number * INSTANT, worker=f"worker {number}")
    random = Random(1)
    jobs = [a_job(id=str(UUID(int=random.getrandbits(128)))) for _ in range(60)]
    got = await given(lot, *jobs)
    assert Counter(job.id for job in got if job) == Counter(job.id for job in jobs)
    assert min(map(len, lot.given.values())) > 3
    for worker, taken in lot.given.items():
        assert {job.lease.worker for job in taken if job and job.lease} == {worker}


async def test_whoever_has_left_is_given_nothing_more(lot: Lot) -> None:
    await (await lot.park()).left(PATIENCE)
    job = a_job()
    assert await given(lot, job) == []
    assert await statuses(lot.store, job) == [JobStatus.READY]


async def test_a_withdrawal_races_with_jobs_and_none_is_lost(
    lot: Lot, redis_settings: RedisSettings
) -> None:
    """Whatever the server says last: a job was given or waits, never both, never neither."""
    random, jobs = Random(7), list[Job]()
    async with await RedisStore.open(redis_settings) as other:
        for number in range(60):
            parked = await lot.park(NOW + number * INSTANT)
            some = [a_job() for _ in range(random.randrange(1, 6))]
            jobs += some
            inserting = [asyncio.ensure_future(other.insert([job], NOW)) for job in some]
            await asyncio.wait(inserting, timeout=random.choice([0, 0.0003, 0.001]))
            await parked.left(PATIENCE)
            await asyncio.gather(*inserting)
        waiting = await take(other, limit=1000)
    got = [job.id for job in lot.all if job is not None]
    assert None not in lot.all
    assert sorted([*got, *(job.id for job in waiting)]) == sorted(job.id for job in jobs)
    assert got
    assert waiting
    check_filing(_address(redis_settings))


async def test_a_listener_is_not_woken_for_a_job_that_was_given(
    lot: Lot, redis_settings: RedisSettings
) -> None:
    async with (
        await RedisStore.open(redis_settings) as other,
        other.listen() as there,
        lot.store.listen() as here,
    ):
        await lot.park(limit=1)
        await lot.store.insert([a_job()], NOW)
        for listener in (here, there):
            waiting = asyncio.ensure_future(listener.wait())
            await asyncio.wait([waiting], timeout=0.1)
            assert not waiting.done()
            waiting.cancel()
        await lot.store.insert([a_job()], NOW)  # for which there is no room
        for listener in (here, there):
            await asyncio.wait_for(listener.wait(), PATIENCE)


async def test_a_parked_worker_hears_that_its_connection_was_cut(lot: Lot) -> None:
    parked = await lot.park()
    with redis.Redis.from_url(lot.store._database.settings.url) as client:
        channel = lot.store._database.keys.job_key("parked")
        mine = [each for each in client.client_list(_type="pubsub") if int(each["sub"]) == 3]
        assert client.pubsub_numsub(channel)[0][1] == 1
        for each in mine:
            client.client_kill_filter(_id=each["id"])
    assert await lot.wait_for(1) == [None]
    assert parked.is_over
    await parked.left(PATIENCE)
    assert lot.all == [None]


async def test_after_a_restart_workers_are_parked_again(own_redis: RedisServer) -> None:
    async with (
        await RedisStore.open(read_address(own_redis.url)) as store,
        listening(store) as lot,
        store.listen() as listener,
    ):
        await lot.park()
        await asyncio.to_thread(own_redis.kill)
        assert await lot.wait_for(1) == [None]
        assert await store.park(a_request(), NOW, lot.given["worker"].append) is None
        await asyncio.to_thread(own_redis.start)
        await asyncio.wait_for(listener.wait(), PATIENCE)
        await lot.park()
        await store.insert([a_job()], NOW)
        assert len(await lot.wait_for(2)) == 2


async def test_a_job_given_over_a_dead_connection_is_found_by_the_end_of_its_lease(
    own_redis: RedisServer, proxy: RedisProxy
) -> None:
    async with (
        await RedisStore.open(read_address(proxy.url)) as store,
        await RedisStore.open(read_address(own_redis.url)) as other,
        listening(store) as lot,
    ):
        parked = await lot.park()
        proxy.swallow()
        job = a_job()
        await other.insert([job], NOW)
        assert await statuses(other, job) == [JobStatus.RUNNING]
        await parked.left(0.05)
        assert lot.all == [None]
        (found,) = await other.find_expired(NOW + MINUTE + INSTANT, 10)
        assert (found.id, found.lease and found.lease.until) == (job.id, NOW + MINUTE)


@contextmanager
def parked_elsewhere(server: RedisServer, count: int) -> Iterator[None]:
    """Workers of another process, for jobs of another queue."""
    names = [f'{{rota}}:parked["{each}","3","3",1,"[]","","",""]' for each in range(count)]
    with redis.Redis.from_url(server.url) as client, client.pubsub() as subscription:
        subscription.subscribe("{rota}:parked", *names)
        for _ in range(count + 1):
            assert subscription.get_message(timeout=PATIENCE)
        yield
        subscription.unsubscribe()
        for _ in range(count + 1):
            assert subscription.get_message(timeout=PATIENCE)


async def test_only_so_many_workers_are_parked(own_redis: RedisServer) -> None:
    async with (
        await RedisStore.open(read_address(own_redis.url)) as store,
        listening(store) as lot,
    ):
        with parked_elsewhere(own_redis, MOST_PARKED):
            assert await store.park(a_request(), NOW, lambda _: None) is None
        with parked_elsewhere(own_redis, MOST_PARKED - 1):
            await lot.park()
            await store.insert([a_job()], NOW)
            await lot.wait_for(1)
        with parked_elsewhere(own_redis, 2 * MOST_PARKED):  # all at the same moment
            await store.insert([a_job()], NOW)
        assert len(await take(store)) == 1
        await store.insert([a_job()], NOW)
        assert len(await given(lot)) == 2


@pytest.mark.parametrize("name", ["nonsense", "[]", '["w",7]', '["w","9","9",1,"{","","",""]'])
async def test_a_request_that_cannot_be_read_stops_no_insert(
    own_redis: RedisServer, name: str
) -> None:
    with redis.Redis.from_url(own_redis.url) as client, client.pubsub() as subscription:
        subscription.subscribe("{rota}:parked", f"{{rota}}:parked{name}")
        assert subscription.get_message(timeout=PATIENCE)
        async with await RedisStore.open(read_address(own_redis.url)) as store:
            await store.insert([a_job()], NOW)
            assert len(await take(store)) == 1


async def test_a_worker_with_very_many_kinds_is_not_parked(lot: Lot) -> None:
    kinds = [f"kind {number}" for number in range(LONGEST_NAME // 8)]
    assert await lot.store.park(a_request(kinds=kinds), NOW, lambda _: None) is None


async def test_without_a_listener_no_worker_is_parked(store: RedisStore) -> None:
    assert await store.park(a_request(), NOW, lambda _: None) is None


async def test_where_replicas_must_have_a_job_first_no_worker_is_parked(
    own_redis: RedisServer,
) -> None:
    """The message would overtake the replicas."""
    async with await RedisStore.open(read_address(own_redis.url)) as store, store.listen():
        store._database.settings = read_address(f"{own_redis.url}?replicas=1")
        assert await store.park(a_request(), NOW, lambda _: None) is None


async def test_a_user_who_may_not_park_still_hears_of_jobs(own_redis: RedisServer) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        rights = ["on", ">secret", "~*", "+@all", "resetchannels", "&{rota}:wake", "&{rota}:ends"]
        client.execute_command("ACL", "SETUSER", "limited", *rights)
    address = f"redis://limited:secret@127.0.0.1:{own_redis.port}/0"
    async with (
        await RedisStore.open(read_address(own_redis.url)) as other,
        await RedisStore.open(read_address(address)) as store,
        listening(store) as lot,
        store.listen() as listener,
    ):
        await lot.park()
        assert await lot.wait_for(1) == [None]
        assert await store.park(a_request(), NOW, lambda _: None) is None
        await other.insert([a_job()], NOW)
        await asyncio.wait_for(listener.wait(), PATIENCE)
        async with listening(other) as there:
            await there.park()
            await store.insert([a_job()], NOW)  # by a user who may not publish to it
            assert len(await take(store)) == 2
            assert await given(there) == []


async def test_a_full_server_refuses_the_insert_and_gives_nothing(own_redis: RedisServer) -> None:
    async with (
        await RedisStore.open(read_address(own_redis.url)) as store,
        listening(store) as lot,
    ):
        await lot.park()
        with redis.Redis.from_url(own_redis.url) as client:
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreUnavailableError, match="no memory left"):
                await store.insert([a_job()], NOW)
            client.config_set("maxmemory", 0)
        assert await given(lot) == []
        assert await store.count(TENANT) == 0


async def test_a_program_that_listens_to_all_channels_changes_nothing(
    own_redis: RedisServer,
) -> None:
    """The job that it overhears is given once, and does not wait for another worker as well."""
    with redis.Redis.from_url(own_redis.url) as client, client.pubsub() as overhearing:
        overhearing.psubscribe("*")
        assert overhearing.get_message(timeout=PATIENCE)
        async with (
            await RedisStore.open(read_address(own_redis.url)) as store,
            listening(store) as lot,
        ):
            await lot.park()
            assert len(await given(lot, a_job())) == 1
            assert await take(store) == []


async def test_a_worker_is_given_no_job_of_another_database(own_redis: RedisServer) -> None:
    """All databases of a server share its channels."""
    addresses = [read_address(f"{own_redis.url}?db={number}") for number in (0, 1)]
    async with (
        await RedisStore.open(addresses[0]) as first,
        await RedisStore.open(addresses[1]) as second,
    ):
        for store, other in ((first, second), (second, first)):
            async with listening(store) as lot:
                await lot.park()
                await other.insert([a_job()], NOW)
                assert len(await take(other)) == 1
                assert len(await given(lot, a_job())) == 1


async def test_workers_of_two_databases_are_parked_at_once(own_redis: RedisServer) -> None:
    addresses = [read_address(f"{own_redis.url}?db={number}") for number in (0, 1)]
    async with (
        await RedisStore.open(addresses[0]) as first,
        await RedisStore.open(addresses[1]) as second,
        listening(first) as lot,
        listening(second) as other_lot,
    ):
        await lot.park()
        await other_lot.park()
        assert len(await given(lot, a_job())) == 1
        assert len(await given(other_lot, a_job())) == 1


async def test_a_user_who_may_not_ask_who_is_parked_inserts_all_the_same(
    own_redis: RedisServer,
) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.acl_setuser("limited", enabled=True, passwords=["+secret"], keys=["*"])
        client.execute_command("ACL", "SETUSER", "limited", "&*", "+@all", "-pubsub")
    address = f"redis://limited:secret@127.0.0.1:{own_redis.port}/0"
    async with await RedisStore.open(read_address(address)) as store:
        await store.insert([a_job()], NOW)
        assert len(await take(store)) == 1


@pytest.mark.parametrize(
    "earlier",
    [
        {"idempotency_key": "once"},
        {"idempotency_key": "once", "queue": "mail", "priority": 9},
        {"created_at": NOW - DAY, "due_at": NOW - SECOND},
        {"recurrence": DAILY},
    ],
)
async def test_a_job_overtakes_none_that_waits(lot: Lot, earlier: dict[str, Any]) -> None:
    """The worker has not heard of it yet."""
    await lot.park(limit=1)
    first, second = a_job(**earlier), a_job(priority=1)
    await lot.store.insert([first], NOW)
    assert await given(lot, second) == []
    assert [job.id for job in await take(lot.store, limit=1)] == [first.id]


async def test_a_job_overtakes_none_that_has_just_come_due(lot: Lot) -> None:
    await lot.park(limit=1)
    first = a_job(due_at=NOW + SECOND)
    await lot.store.insert([first], NOW)
    await lot.store.insert([a_job(created_at=NOW + SECOND, priority=1)], NOW + SECOND)
    assert await given(lot) == []
    assert [job.id for job in await take(lot.store, NOW + SECOND, limit=1)] == [first.id]


@pytest.mark.parametrize(
    ("request_fields", "waiting"),
    [({"queues": ["default"]}, {"queue": "mail"}), ({"tenants": [TENANT]}, {"tenant": "acme"})],
)
async def test_jobs_that_wait_for_others_delay_none(
    lot: Lot, request_fields: dict[str, Any], waiting: dict[str, Any]
) -> None:
    await lot.park(**request_fields)
    await lot.store.insert([a_job(idempotency_key="once", **waiting)], NOW)
    assert len(await given(lot, a_job())) == 1


async def test_after_a_job_that_cannot_be_read_all_that_comes_counts_as_lost(lot: Lot) -> None:
    """Else a job on its way would be handed back as one that was lost, and arrive all the same."""
    parked = await lot.park(worker="first")
    (channel,) = lot.store._notices.parking._parked
    head = pack_head(["?"])
    message = f"{a_job().id}{len(head):08d}".encode() + head + b"{}"
    await lot.store._database.call("PUBLISH", channel, message)
    assert await lot.wait_for(1) == [None]
    assert parked.is_over
    assert await given(lot, a_job()) == [None]
    await lot.park(NOW + INSTANT, worker="second")
    await take(lot.store)
    assert len(await given(lot, a_job())) == 2
