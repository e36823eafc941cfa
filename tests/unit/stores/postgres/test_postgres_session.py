"""Networks that fall silent, answers that get lost, and servers that become replicas."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

import asyncpg
import pytest
from tests.servers.proxy import Proxy

from rota.errors import StoreUnavailableError
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import DocumentWrite

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
New = Callable[..., DocumentWrite]


async def test_a_silent_network_is_an_error_within_the_deadline(
    proxied: PostgresStore, proxy: Proxy, new: New
) -> None:
    await proxied.write_each([new("a")])
    proxy.stall()
    with pytest.raises(StoreUnavailableError, match=r"in time \(no answer for 2 s\)") as caught:
        await proxied.write_each([new("b")])
    assert caught.value.details["outcome"] == "unknown"
    with pytest.raises(StoreUnavailableError, match="in time"):
        await proxied.write_all([new("c")])
    proxy.heal()
    assert list(await proxied.read("tasks", ["a"])) == ["a"]


async def test_a_server_that_cannot_be_connected_to_in_time_is_unavailable(
    proxied_settings: PostgresSettings, proxy: Proxy
) -> None:
    proxy.stall()
    impatient = replace(proxied_settings, connect_for=timedelta(milliseconds=300))
    with pytest.raises(StoreUnavailableError, match="did not answer in time") as caught:
        await PostgresStore.open(impatient)
    assert caught.value.details["outcome"] == "nothing was written"


async def test_a_store_on_a_silent_network_can_be_closed(
    proxied: PostgresStore, proxy: Proxy
) -> None:
    proxy.stall()
    await proxied.close()


async def test_a_write_whose_answer_was_lost_has_an_unknown_outcome(
    proxied: PostgresStore, proxy: Proxy, new: New, store: PostgresStore
) -> None:
    await proxied.write_each([new("before")])
    proxy.loses_answers = True
    with pytest.raises(StoreUnavailableError, match="connection to the server was lost") as caught:
        await proxied.write_each([new("a")])
    assert caught.value.details["outcome"] == "unknown"
    assert list(await store.read("tasks", ["a"])) == ["a"]  # this time it was carried out
    proxy.heal()
    assert await proxied.write_each([new("a")]) == [None]


async def test_a_stream_whose_connection_is_lost_is_written_wholly_or_not_at_all(
    proxied: PostgresStore, proxy: Proxy, new: New, store: PostgresStore
) -> None:
    def stream() -> Iterator[DocumentWrite]:
        yield from (new(f"{number:05}") for number in range(5_000))
        proxy.loses_answers = True
        yield new("last")

    with pytest.raises(StoreUnavailableError):
        await proxied.write_all(stream())
    assert [page async for page in store.scan("tasks")] == []
    proxy.heal()
    await proxied.write_all([new("a")])


async def test_a_lost_connection_is_made_anew(
    store: PostgresStore, new: New, other: Connection
) -> None:
    await store.write_each([new("a")])
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rota'"
        " AND datname = current_database()"
    )
    with suppress(StoreUnavailableError):  # whether it has heard of the loss is a matter of luck
        await store.read("tasks", ["a"])
    assert await store.write_each([new("b")]) == [1]


async def test_a_server_that_has_become_a_replica_is_left(
    proxied: PostgresStore, proxy: Proxy, new: New, other: Connection
) -> None:
    database = await other.fetchval("SELECT current_database()")
    await other.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    try:
        proxy.heal()  # the next connection finds it so
        with suppress(StoreUnavailableError):
            await proxied.read("tasks", ["a"])
        with pytest.raises(StoreUnavailableError, match="only lets itself be read") as caught:
            await proxied.write_each([new("a")])
        assert caught.value.details["outcome"] == "nothing was written"
        seen_count = proxy.connection_count
    finally:
        await other.execute("SET default_transaction_read_only = off")
        await other.execute(f'ALTER DATABASE "{database}" RESET default_transaction_read_only')
    assert await proxied.write_each([new("a")]) == [1]
    assert proxy.connection_count == seen_count + 1


async def test_the_server_ends_a_statement_that_never_finishes(
    postgres_settings: PostgresSettings, new: New, other: Connection
) -> None:
    impatient = replace(postgres_settings, answer_for=timedelta(seconds=2))
    async with await PostgresStore.open(impatient) as store:
        await store.write_each([new("a")])
        await other.execute("BEGIN; LOCK TABLE documents IN EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailableError, match="has taken too long") as caught:
            await store.write_each([DocumentWrite("tasks", "a", 1, b"")])
        assert caught.value.details["outcome"] == "nothing was written"
        await other.execute("ROLLBACK")
        assert (await store.read("tasks", ["a"]))["a"].version == 1
