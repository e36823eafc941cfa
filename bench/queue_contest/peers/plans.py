"""By which indexes Rota's stores find the rows of a lease and of a completion."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
from bench.queue_contest.peers.contestant import SETTINGS

from rota.stores.postgres import queries as postgres
from rota.stores.postgres.address import read_address
from rota.stores.postgres.dialling import session_settings
from rota.stores.sqlite import queries as sqlite
from rota.stores.sqlite.connection import SqliteSettings, open_beside

LEASED_COUNT = 100
WHO = "plans"
SQLITE_STATEMENTS = (
    "mark_due",
    "next_partition",
    "is_partition_due",
    "find_due",
    "lease_jobs",
    "complete_job",
)
_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF)"
_LEASED = (
    "SELECT id::text, last_token, tenant, due_at FROM rota.jobs WHERE lease_worker = $1 ORDER BY id"
)


def explain_sqlite() -> list[str]:
    """The plan of each statement that runs for a lease and a completion."""
    connection = open_beside(SqliteSettings(Path(SETTINGS["path"])))
    lines: list[str] = []
    for name in SQLITE_STATEMENTS:
        statement = getattr(sqlite.QUERIES, name)
        bindings = (None,) * max(n for n in range(30) if n == 0 or f"?{n}" in statement)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)
        lines += [f"{name}: {row[3]}" for row in plan]
    connection.close()
    return lines


async def explain_postgres() -> list[str]:
    """What a lease and a completion of 100 jobs touch, planned as in the store; rolled back."""
    settings = session_settings(read_address(SETTINGS["url"]))
    connection = await asyncpg.connect(SETTINGS["url"], server_settings=settings)
    transaction: Any = connection.transaction()
    await transaction.start()
    now = datetime.now(UTC)
    until = now + timedelta(hours=1)
    asked = (now, "", "~", LEASED_COUNT, until, WHO, True)
    lines = await _explain(connection, "lease", postgres.QUERIES.lease, asked)
    leased = await connection.fetch(_LEASED, WHO)
    ids, *columns = [[row[place] for row in leased] for place in range(4)]
    ended = (",".join(ids), *columns, [now], [now], [], "rota")
    lines += await _explain(connection, "complete", postgres.QUERIES.complete_jobs, ended)
    await transaction.rollback()
    await connection.close()
    return lines


async def _explain(
    connection: Any, name: str, statement: str, values: tuple[Any, ...]
) -> list[str]:
    """Prepared, because the store's statements are: their plans do not know the values."""
    await connection.execute(f"PREPARE {name} AS {statement.rstrip('; ')}")
    call = f"{name} ({', '.join(map(_literal, values))})"
    plan = [row[0] for row in await connection.fetch(f"{_EXPLAIN} EXECUTE {call}")]
    whole = next(line.strip() for line in plan if "Buffers:" in line)
    scans = [line for line in plan if " on jobs" in line]
    return [f"{name} of {LEASED_COUNT}: {whole}", *scans]


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "'{" + ",".join(f'"{each}"' for each in value) + "}'"
    return str(value) if isinstance(value, bool | int) else f"'{value}'"
