"""PgBouncer in transaction mode: it is found out, no session is relied on, wake-ups come anyway."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote

import psycopg
import pytest
from tests.servers.pgbouncer import PgBouncer
from tests.servers.shared import new_pgbouncer, with_option
from tests.unit.stores.postgres.test_postgres_wakeups import NOW, heard, is_silent

from rota.errors import InvalidStoreUrlError, StoreUnavailableError
from rota.jobs import decide_complete
from rota.runtime.wiring import inspect_store
from rota.stores.postgres.address import Pooling, PostgresSettings, read_address
from rota.stores.postgres.dialling import PLANNING
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import MINUTE

IGNORED = "ignore_startup_parameters = " + ",".join(
    (
        *PLANNING,
        *("default_transaction_isolation", "statement_timeout"),
        *("idle_in_transaction_session_timeout", "tcp_keepalives_idle"),
        *("tcp_keepalives_interval", "tcp_keepalives_count"),
    )
)


@pytest.fixture
async def pooled(pooled_url: str) -> AsyncIterator[PostgresStore]:
    async with await PostgresStore.open(read_address(pooled_url)) as store:
        yield store


@pytest.fixture
def listening_url(pooled_url: str, postgres_database: str) -> str:
    return with_option(pooled_url, "listen", quote(postgres_database, safe=""))


@pytest.fixture
def silent_pooler(postgres_database: str) -> Iterator[PgBouncer]:
    """One that accepts all settings, and drops them."""
    pooler = new_pgbouncer(postgres_database, [IGNORED])
    yield pooler
    pooler.remove()


def pooling_of(store: PostgresStore) -> Pooling:
    return store._settings.pooling


async def test_a_pooler_that_refuses_settings_is_found_out(pooled: PostgresStore) -> None:
    assert pooling_of(pooled).is_pooled


async def test_a_pooler_that_drops_settings_is_found_out(
    silent_pooler: PgBouncer, new_postgres_url: str
) -> None:
    schema = new_postgres_url.rpartition("schema=")[2]
    url = with_option(silent_pooler.url, "schema", schema)
    async with await PostgresStore.open(read_address(url)) as store:
        assert pooling_of(store).is_pooled


async def test_a_server_is_not_taken_for_a_pooler(
    store: PostgresStore, postgres_settings: PostgresSettings
) -> None:
    assert pooling_of(store) is Pooling.NONE
    assert (await inspect_store(f"{postgres_settings.url}&schema=nowhere")).notes == ()


async def test_statements_run_on_any_connection_of_the_server(
    pooled: PostgresStore, pooled_url: str
) -> None:
    async with await PostgresStore.open(read_address(pooled_url)) as beside:
        for number in range(12):
            for store in (pooled, beside):
                await store.insert([a_job(name=f"job {number}")], NOW)
                await store.count("default")
        counts = await asyncio.gather(*(store.count("default") for store in (pooled, beside) * 10))
    assert set(counts) == {24}


async def test_no_prepared_statement_is_left_on_the_server(
    pooled: PostgresStore, pgbouncer: PgBouncer
) -> None:
    await pooled.insert([a_job()], NOW)
    with psycopg.connect(pgbouncer.url, autocommit=True, prepare_threshold=None) as connection:
        for _ in range(8):  # more often than there are connections
            left = connection.execute("SELECT name FROM pg_prepared_statements").fetchall()
            assert [name for (name,) in left if name.startswith(("rota", "__asyncpg"))] == []


async def test_the_end_of_a_job_is_found_by_asking(pooled: PostgresStore, pooled_url: str) -> None:
    job = a_job(due_at=NOW)
    await pooled.insert([job], NOW)
    async with (
        await PostgresStore.open(read_address(pooled_url)) as beside,
        beside.listen_for_end("default", [job.id]) as listener,
    ):
        assert await is_silent(listener)
        (leased,) = await pooled.lease(LeaseRequest(worker="w", limit=1, lease_for=MINUTE), NOW)
        await pooled.apply([decide_complete(leased, NOW)], NOW)
        assert await heard(listener)


async def test_with_an_address_past_the_pooler_other_processes_are_heard(
    pooled: PostgresStore, listening_url: str
) -> None:
    async with (
        await PostgresStore.open(read_address(listening_url)) as beside,
        beside.listen(queues=["mail"]) as listener,
    ):
        assert await is_silent(listener)
        await pooled.insert([a_job(queue="mail")], NOW)
        assert await heard(listener)


async def test_a_store_is_inspected_through_the_pooler(
    pooled: PostgresStore, pooled_url: str, listening_url: str
) -> None:
    await pooled.insert([a_job()], NOW)
    inspection = await inspect_store(pooled_url)
    assert inspection.job_counts == {"READY": 1}
    polling, settings = inspection.notes
    assert "workers find them when they poll" in polling
    assert "enable_seqscan" in settings
    listening, _ = (await inspect_store(listening_url)).notes
    assert "Wake-ups come from postgresql://" in listening


async def test_an_address_to_listen_at_that_leads_nowhere_is_named(pooled_url: str) -> None:
    nowhere = quote("postgresql://rota:secret@127.0.0.1:1/rota", safe="")
    note, _ = (await inspect_store(with_option(pooled_url, "listen", nowhere))).notes
    assert "postgresql://rota@127.0.0.1:1/rota, but no server listens at that address" in note


async def test_a_pooler_without_its_server_is_not_available() -> None:
    pooler = new_pgbouncer("postgresql://rota@127.0.0.1:1/nowhere", ["query_wait_timeout = 1"])
    try:
        with pytest.raises(StoreUnavailableError):
            await PostgresStore.open(read_address(pooler.url))
    finally:
        pooler.remove()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("pooler=session", "pooler must be one of detect, none, transaction, got 'session'"),
        ("listen=mysql://host/db", "listen must be an address of PostgreSQL"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: str, reason: str) -> None:
    with pytest.raises(InvalidStoreUrlError, match=reason):
        read_address(f"postgresql://host/rota?{options}")


def test_several_hosts_are_tried_for_one_that_accepts_writes() -> None:
    settings = read_address("postgresql://me:p%40ss@one:6001,two,[::1]:6003/rota?schema=mine")
    assert settings.places == (("one", 6001), ("two", 5432), ("::1", 6003))
    assert "target_session_attrs=read-write" in settings.url
    chosen = read_address("postgresql://one,two/rota?target_session_attrs=any")
    assert "read-write" not in chosen.url
    assert read_address("postgresql://one/rota").places == ()
