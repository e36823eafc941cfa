"""Lease and settle through Rota's store, beside millions of jobs that it must not look at."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import asyncpg
from bench.queue_contest.peers.contestant import PAYLOAD, SETTINGS, main
from bench.queue_contest.peers.rota_store import RotaStore, make_jobs
from msgspec.structs import replace

from rota.jobs import Job, decide_complete
from rota.stores.jobs import LeaseRequest
from rota.stores.postgres.jobs import queries as postgres
from rota.stores.sqlite.connection import SqliteSettings, open_beside, transaction
from rota.stores.sqlite.jobs import queries as sqlite

HOUR = timedelta(hours=1)
MULTIPLIED_HERE = {
    "id": "substr(id, 1, 24) || printf('%012x', number)",
    "created_at": "created_at + number",
    "due_at": "due_at + number",
    "updated_at": "updated_at + number",
}
MULTIPLIED_THERE = {
    "id": "(left(id::text, 24) || lpad(to_hex(number), 12, '0'))::uuid",
    "created_at": "created_at + number * interval '1 microsecond'",
    "due_at": "due_at + number * interval '1 microsecond'",
    "updated_at": "updated_at + number * interval '1 microsecond'",
}


class OnFlatness(RotaStore):
    """Rota's verbs, and those that lay in what should not matter."""

    async def cycle(self, count: int, batch: int) -> None:
        """Lease and complete so many jobs, in batches."""
        done = 0
        while done < count:
            leased = await self._settle_one_batch(batch)
            if not leased:
                raise RuntimeError(f"no job left after {done} of {count}")
            done += leased

    async def _settle_one_batch(self, batch: int) -> int:
        now = datetime.now(UTC)
        request = LeaseRequest(worker="bench", limit=batch, lease_for=HOUR)
        leased: list[Job] = await self._store.lease(request, now)
        await self._store.apply([decide_complete(job, now) for job in leased], now)
        return len(leased)

    async def lay(self, rows: int) -> None:
        """So many finished, so many due later, so many ready: copies of one job of each kind."""
        finished = await self._insert_one(due_at=None)
        await self._settle_one_batch(1)
        later = await self._insert_one(due_at=datetime.now(UTC) + 24 * HOUR)
        ready = await self._insert_one(due_at=None)
        for job_id in (finished, later, ready):
            await multiply(job_id, rows)

    async def _insert_one(self, due_at: datetime | None) -> str:
        now = datetime.now(UTC) - HOUR
        (job,) = make_jobs(1, PAYLOAD, now, self._chance.getrandbits(62))
        await self._store.insert([replace(job, due_at=due_at or now)], now)
        return job.id

    async def work(self) -> None:
        """There is no worker here: what a store costs is seen without one."""
        raise NotImplementedError

    async def explain(self) -> None:
        """Print by which indexes a lease and a completion find their rows."""
        if "path" in SETTINGS:
            for line in explain_sqlite():
                print(line)
            return
        for line in await explain_postgres():
            print(line)


async def multiply(job_id: str, rows: int) -> None:
    """Copy the row of a job so often, each with an id and instants of its own."""
    if "path" in SETTINGS:
        await asyncio.to_thread(_multiply_in_sqlite, job_id, rows)
        return
    connection = await asyncpg.connect(SETTINGS["url"])
    columns = [
        row[0]
        for row in await connection.fetch(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = 'rota' AND table_name = 'jobs'"
        )
    ]
    await connection.execute(
        f"INSERT INTO rota.jobs ({', '.join(columns)})"  # noqa: S608 - names from the catalogue
        f" SELECT {', '.join(MULTIPLIED_THERE.get(name, name) for name in columns)}"
        f" FROM rota.jobs CROSS JOIN generate_series(1, {rows}) AS number WHERE id = '{job_id}'"
    )
    await connection.close()


def _multiply_in_sqlite(job_id: str, rows: int) -> None:
    connection = open_beside(SqliteSettings(Path(SETTINGS["path"])))
    columns = [row[1] for row in connection.execute("PRAGMA table_info(jobs)")]
    with transaction(connection):
        connection.execute(
            "WITH RECURSIVE numbers (number) AS ("  # noqa: S608 - names from the catalogue
            f" SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {rows})"
            f" INSERT INTO jobs ({', '.join(columns)})"
            f" SELECT {', '.join(MULTIPLIED_HERE.get(name, name) for name in columns)}"
            f" FROM numbers CROSS JOIN jobs WHERE id = '{job_id}'"
        )
    connection.close()


def explain_sqlite() -> Iterator[str]:
    """The plan of each statement that runs for a lease and a completion."""
    connection: apsw.Connection = open_beside(SqliteSettings(Path(SETTINGS["path"])))
    for name in ("promote", "next_tenant", "next_queue", "is_lane_due", "lease_lane", "move"):
        statement = getattr(sqlite.QUERIES, name)
        bindings = (None,) * _count_bindings(statement)
        for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings):
            yield f"{name}: {row[3]}"
    connection.close()


def _count_bindings(statement: str) -> int:
    return next((n for n in range(30, 0, -1) if f"?{n}" in statement), 0)


async def explain_postgres() -> list[str]:
    """What a lease of 100 touched, and how a completion finds its rows; rolled back."""
    connection = await asyncpg.connect(SETTINGS["url"])
    now = datetime.now(UTC)
    explain = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) "
    lease_values = (now, None, None, "", 100, now + HOUR, "bench", True)
    first = await connection.fetch("SELECT id, due_at FROM rota.jobs WHERE is_due LIMIT 100")
    complete_values = (
        [row[0] for row in first],
        [0] * len(first),
        ["default"] * len(first),
        [row[1] for row in first],
        [now] * len(first),
    )
    lines: list[str] = []
    for statement, values in (
        (postgres.QUERIES.lease, lease_values),
        (postgres.QUERIES.complete_jobs, complete_values),
    ):
        transaction: Any = connection.transaction()
        await transaction.start()
        found = await connection.fetch(explain + statement.rstrip("; \n"), *values)
        await transaction.rollback()
        lines += _worth_telling([row[0] for row in found])
    await connection.close()
    return lines


def _worth_telling(plan: list[str]) -> list[str]:
    """The buffers of the whole, and every place where rows of a table are found."""
    whole = [line.strip() for line in plan if "Buffers:" in line][:1]
    scans = [line for line in plan if " on jobs" in line or "Sort  " in line]
    return [*(f"whole statement: {line}" for line in whole), *scans]


if __name__ == "__main__":
    main(OnFlatness())
