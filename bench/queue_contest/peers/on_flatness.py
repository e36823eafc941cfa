"""Lease and settle through Rota's store, beside millions of jobs that it must not look at."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
from bench.queue_contest.peers.contestant import SETTINGS, main
from bench.queue_contest.peers.plans import explain_postgres, explain_sqlite
from bench.queue_contest.peers.rota_store import HOUR, LeaseCycles

from rota.stores.sqlite.connection import SqliteSettings, open_beside, transaction

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


class OnFlatness(LeaseCycles):
    """Rota's verbs, and those that lay in what should not matter."""

    async def lay(self, rows: int) -> None:
        """So many finished, so many due later, so many ready: copies of one job of each kind."""
        finished = await self._insert_one(due_at=None)
        await self._settle_one_batch(1)
        later = await self._insert_one(due_at=datetime.now(UTC) + 24 * HOUR)
        ready = await self._insert_one(due_at=None)
        for job_id in (finished, later, ready):
            await multiply(job_id, rows)

    async def explain(self) -> None:
        """Print by which indexes a lease and a completion find their rows."""
        lines = explain_sqlite() if "path" in SETTINGS else await explain_postgres()
        print("\n".join(lines))


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


if __name__ == "__main__":
    main(OnFlatness())
