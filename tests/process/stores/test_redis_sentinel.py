"""A store whose server is named by Sentinels goes on with the one they name next."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
import redis
from tests.process.stores.steady_work import CLOCK, SteadyWork, less_patient
from tests.servers.groups.redis_sentinel import PASSWORD, WatchedServers, new_watched_servers
from tests.servers.redis import RedisServer
from tests.servers.shared import with_option

from rota.errors import StoreUnavailableError
from rota.jobs import JobStatus
from rota.runtime.wiring import inspect_store, migrate_store
from rota.stores.protocol import DocumentWrite, HeldLease
from rota.stores.redis import sentinel as lookout
from rota.stores.redis.address import read_address
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, take

pytestmark = pytest.mark.process

HALF_A_SECOND = timedelta(milliseconds=500)
WORD = "w0rk-w0rd"  # the password of a user of the servers


@contextmanager
def held_up(*servers: RedisServer) -> Iterator[None]:
    """The servers stay connected, and do nothing."""
    process_ids = [each.process_id for each in servers if each.process_id is not None]
    for process_id in process_ids:
        os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        for process_id in process_ids:
            os.kill(process_id, signal.SIGCONT)


def hang_up_on_replicas(server: RedisServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "replica")


async def fail_over(group: WatchedServers, primary: RedisServer) -> RedisServer:
    return await asyncio.to_thread(group.wait_for_another, primary)


def configure(server: RedisServer, **settings: str) -> None:
    with redis.Redis.from_url(server.url) as client:
        for name, value in settings.items():
            client.config_set(name.replace("_", "-"), value)


def new(key: str) -> DocumentWrite:
    return DocumentWrite("tasks", key, None, b"new")


async def write_until_refused(store: RedisStore, reason: str) -> None:
    """A write is refused for this reason; before that, the server may not answer in time."""
    refusals: list[str] = []
    while len(refusals) < 10:
        with pytest.raises(StoreUnavailableError) as refused:
            await store.write_each([new("b")])
        refusals.append(refused.value.message)
        if reason in refused.value.message:
            return
    pytest.fail("\n".join(refusals))


async def test_a_worker_goes_on_with_whom_sentinels_name_and_loses_nothing_replicas_had() -> None:
    user = ("--user", "ada", "on", f">{WORD}", "~*", "&*", "+@all")
    with new_watched_servers(replica_count=2, options=user) as group:
        url = group.url.replace("://", f"://ada:{WORD}@")
        settings = less_patient(with_option(url, "replicas", "1"))
        primary = group.find_primary()
        async with await RedisStore.open(settings) as store, SteadyWork(store).going_on() as work:
            await work.progress()
            failing = asyncio.create_task(work.fail())
            with held_up(*group.servers[1:]):  # what is written now, no other will ever have
                hang_up_on_replicas(primary)
                await CLOCK.sleep(HALF_A_SECOND)
                await asyncio.to_thread(primary.kill)
            await failing
            await work.progress()
    assert set(work.statuses) == {JobStatus.COMPLETED}
    assert work.repeated == [], "only those run again whose end was under way"
    told = "".join(error.message + repr(error.details) for error in work.refusals)
    assert WORD not in told
    assert PASSWORD not in told


async def test_a_former_primary_that_takes_itself_for_one_is_not_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookout, "FRESH_FOR", 0.2)
    with new_watched_servers() as group:
        former = group.find_primary()
        async with await RedisStore.open(less_patient(group.url)) as store:
            await store.insert([a_job()], NOW)
            (leased,) = await take(store)
            keeper = store.make_keeper()
            held = [HeldLease(leased.id, 1)]
            assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
            with held_up(former):
                primary = await fail_over(group, former)
            await store.write_each([new("a")])
            assert await asyncio.to_thread(keeper.extend, held, NOW + 2 * DAY, NOW) == [True]
            keeper.close()
            with redis.Redis.from_url(former.url) as client:
                assert client.info("replication")["role"] == "master", "it has come to know it"
                assert not client.exists("{rota}:document-bodies")
            with redis.Redis.from_url(primary.url) as client:
                assert client.exists("{rota}:document-bodies")
            (job,) = (await store.get("default", [leased.id])).values()
            assert job.lease is not None
            assert job.lease.until == NOW + 2 * DAY


async def test_a_primary_is_examined_like_the_one_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with new_watched_servers() as group:
        former, other = group.servers
        async with await RedisStore.open(less_patient(group.url)) as store:
            await store.write_each([new("a")])
            assert "may lose" not in caplog.text
            configure(other, maxmemory_policy="allkeys-lru", appendfsync="everysec")
            await asyncio.to_thread(former.kill)
            await fail_over(group, former)
            await write_until_refused(store, "maxmemory-policy is allkeys-lru")
            configure(other, maxmemory_policy="noeviction")
            await asyncio.gather(*(store.write_each([new(f"b-{n}")]) for n in range(8)))
            assert await store.write_each([new("a"), new("b")]) == [None, 1]
    assert caplog.text.count("appendfsync is everysec: a crash loses up to about two seconds") == 1


async def test_sentinels_must_know_the_service_and_when_they_are_away_the_work_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookout, "FRESH_FOR", 0.0)
    with new_watched_servers(replica_count=0) as group:
        assert (await migrate_store(group.url)).applied
        assert (await inspect_store(group.url)).exists
        for part, wrong, told in (
            ("/work", "/play", "No such master with that name"),
            (PASSWORD, "wr0ng", "invalid username-password pair"),
        ):
            with pytest.raises(StoreUnavailableError, match=told) as refused:
                await RedisStore.open(read_address(group.url.replace(part, wrong)))
            assert "wr0ng" not in refused.value.message
        settings = less_patient(group.url)
        async with await RedisStore.open(settings) as store:
            for sentinel in group.sentinels:
                await asyncio.to_thread(sentinel.kill)
            assert await store.write_each([new("a")]) == [1]
        with pytest.raises(StoreUnavailableError, match="no Sentinel could be asked") as caught:
            await RedisStore.open(settings)
        assert caught.value.details["outcome"] == "nothing was written"
