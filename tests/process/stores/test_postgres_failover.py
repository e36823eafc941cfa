"""A worker on PostgreSQL goes on with the standby that took over, and nothing is lost or doubled.

bench/failover.py does the same with Patroni, etcd and HAProxy, as often as one likes.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import asyncpg
import psycopg
import pytest
from tests.process.stores.steady_work import SteadyWork
from tests.servers.groups.postgres_pair import PostgresPair, postgres_pair
from tests.servers.postgres import wait_for_server

from rota.errors import StoreUnavailableError
from rota.jobs import JobStatus
from rota.stores.postgres.address import PostgresSettings, read_address
from rota.stores.postgres.store import PostgresStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW

pytestmark = pytest.mark.process

FAILOVERS = 2


@pytest.fixture(scope="module")
def pair() -> Iterator[PostgresPair]:
    with postgres_pair() as pair:
        yield pair


def less_patient(url: str) -> PostgresSettings:
    """A store that gives up sooner, for the sake of the test's own duration."""
    seconds = timedelta(seconds=4)
    return replace(read_address(url), connect_for=seconds, answer_for=seconds)


async def test_nothing_acknowledged_is_lost_when_a_synchronous_standby_takes_over(
    pair: PostgresPair,
) -> None:
    async with (
        await PostgresStore.open(less_patient(pair.url)) as store,
        SteadyWork(store).going_on() as work,
    ):
        for _ in range(FAILOVERS):
            await work.progress()
            failing = asyncio.create_task(work.be_refused(1))
            await asyncio.to_thread(pair.fail_over)
            await failing
            await asyncio.to_thread(pair.restore)
        await work.progress()
    assert set(work.statuses) == {JobStatus.COMPLETED}
    assert (work.lost, work.repeated) == ([], [])


async def test_a_store_leaves_a_server_that_has_become_read_only(pair: PostgresPair) -> None:
    """With all its connections: each would fail once by itself otherwise."""
    async with await PostgresStore.open(less_patient(pair.primary.url)) as store:
        await asyncio.gather(*(store.insert([a_job()], NOW) for _ in range(8)))
        await _make_read_only(pair.primary.url, "on")
        with pytest.raises(StoreUnavailableError, match="only lets itself be read") as caught:
            await store.insert([a_job()], NOW)
        assert caught.value.details["outcome"] == "nothing was written"
        await asyncio.to_thread(wait_for_server, lambda: not _count_own(pair), lambda: "some stay")
        await _make_read_only(pair.primary.url, "off")
        await asyncio.gather(*(store.insert([a_job()], NOW) for _ in range(8)))


async def test_an_address_with_several_hosts_refuses_a_lone_standby(
    pair: PostgresPair,
) -> None:
    place = f"127.0.0.1:{pair.standby.port}"
    with pytest.raises(StoreUnavailableError, match="none of the servers accepts writes"):
        await PostgresStore.open(less_patient(f"postgresql://rota@{place},{place}/postgres"))


def _count_own(pair: PostgresPair) -> int:
    """The connections of stores to the primary."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rota'"
    with psycopg.connect(pair.primary.url) as connection:
        ((count,),) = connection.execute(asked).fetchall()
    return int(count)


async def _make_read_only(url: str, value: str) -> None:
    """For all connections, as a server does when it is demoted."""
    connection = await asyncpg.connect(url)
    await connection.execute("SET default_transaction_read_only = off")
    await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()
