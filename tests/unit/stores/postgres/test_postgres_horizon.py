"""Whether the horizon is pinned, and by whom."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from tests.unit.stores.postgres.watched import Connection, Watched

from rota.stores.postgres import cursor as horizon_module
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.cursor import (
    FEWEST_BEHIND,
    LONG_FOR,
    MANY_BEHIND,
    Hold,
    Horizon,
    describe_hold,
    read_hold,
)
from rota.stores.postgres.schema import inspect_database
from rota.stores.postgres.store import PostgresStore
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RUNNING = """
    SELECT pid, backend_xid::text, CASE WHEN is_here THEN backend_xmin::text END FROM (
        SELECT *, datname = current_database() AS is_here FROM pg_stat_activity
    ) AS activity
    WHERE backend_xid IS NOT NULL
        OR (backend_xmin IS NOT NULL AND is_here AND pid <> pg_backend_pid())
"""
"""The transactions that any snapshot needs: those of other tests' databases count as well."""


async def others_end(connection: Connection) -> None:
    """Return when every transaction that runs now on the server has ended."""
    left = running = {tuple(row) for row in await connection.fetch(RUNNING)}
    while left := left & running:
        running = {tuple(row) for row in await connection.fetch(RUNNING)}


async def until_free(settings: PostgresSettings) -> None:
    """Return when an inspection names nothing that pins the horizon."""
    while (await inspect_database(settings)).pinned_by is not None:
        pass


async def test_a_horizon_that_stands_still_is_pinned_until_it_moves(
    statements: Watched, reader: Connection, other: Connection
) -> None:
    horizon = Horizon(checked_every=0, fewest_behind=3)
    for _ in range(5):
        await other.execute("CREATE TEMPORARY TABLE more (); DROP TABLE more")
    assert [await horizon.is_pinned(statements) for _ in range(4)] == [False, False, True, True]
    hold = await read_hold(statements)
    assert hold is not None
    assert hold.holder == (
        f"process {reader.get_server_pid()} of rota (a long report), idle in transaction"
    )
    assert hold.lasting_for is not None
    assert hold.lasting_for > timedelta(0)
    await reader.execute("ROLLBACK")
    assert not await horizon.is_pinned(statements)


async def test_a_horizon_is_not_pinned_by_what_comes_and_goes(
    statements: Watched, other: Connection
) -> None:
    horizon = Horizon(checked_every=0, fewest_behind=0)
    seen = []
    for _ in range(4):
        await others_end(other)
        async with other.transaction(isolation="repeatable_read"):
            await other.execute("CREATE TEMPORARY TABLE more (); DROP TABLE more")
            seen.append(await horizon.is_pinned(statements))
    assert seen == [False] * 4


async def test_while_little_has_happened_since_a_horizon_is_not_pinned(
    statements: Watched, reader: Connection
) -> None:
    assert reader.is_in_transaction()
    horizon = Horizon(checked_every=0, fewest_behind=1_000_000)  # other tests write, too
    assert [await horizon.is_pinned(statements) for _ in range(4)] == [False] * 4


async def test_the_horizon_is_looked_at_once_in_a_while(statements: Watched) -> None:
    time = 100.0
    looks: list[float] = []

    class Counting(Watched):
        async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
            looks.append(time)
            return await super().fetch(statement, *arguments)

    counting = Counting(statements._connection, "rota")
    horizon = Horizon(checked_every=5, time=lambda: time)
    for _ in range(50):
        await horizon.is_pinned(counting)
        time += 0.25
    assert looks == [105.0, 110.0]


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InsufficientPrivilegeError,
        asyncpg.QueryCanceledError,
        asyncpg.UndefinedTableError,
    ],
)
async def test_a_horizon_that_cannot_be_read_counts_as_not_pinned(
    statements: Watched, error: type[asyncpg.PostgresError]
) -> None:
    class Forbidden(Watched):
        async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
            raise error(statement, *arguments)

    horizon = Horizon(checked_every=0, fewest_behind=0)
    forbidden = Forbidden(statements._connection, "rota")
    assert [await horizon.is_pinned(forbidden) for _ in range(3)] == [False] * 3


@pytest.mark.parametrize(
    ("behind_count", "lasting_for", "told"),
    [
        (FEWEST_BEHIND, LONG_FOR, "x, for 5 minutes and for 100 transactions"),
        (FEWEST_BEHIND - 1, LONG_FOR, None),
        (MANY_BEHIND, LONG_FOR - SECOND, None),
        (MANY_BEHIND, None, "x, for 100000 transactions"),
        (MANY_BEHIND - 1, None, None),
    ],
)
def test_a_long_hold_is_described(
    behind_count: int, lasting_for: timedelta | None, told: str | None
) -> None:
    assert describe_hold(Hold(behind_count, "1", "x", lasting_for)) == told
    assert describe_hold(None) is None


async def test_an_inspection_names_the_process_that_pins_the_horizon(
    store: PostgresStore,
    postgres_settings: PostgresSettings,
    reader: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await inspect_database(postgres_settings)).pinned_by is None
    monkeypatch.setattr(horizon_module, "LONG_FOR", timedelta(0))
    monkeypatch.setattr(horizon_module, "FEWEST_BEHIND", 1)
    await store.insert([a_job()], NOW)
    pinned_by = (await inspect_database(postgres_settings)).pinned_by
    assert pinned_by is not None
    assert pinned_by.startswith(f"process {reader.get_server_pid()} of rota (a long report)")
    await reader.execute("ROLLBACK")
    await until_free(postgres_settings)
