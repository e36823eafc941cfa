"""A limit, not a contestant: the statements of Rota's store through apsw, and nothing around them.

No worker, no records, no decoding: what a row says goes straight into the statement that ends the
job. Jobs are laid in as Rota does.
"""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import apsw
from bench.queue_contest.peers.contestant import SETTINGS, Tally, main
from bench.queue_contest.peers.rota_store import QUEUE, RotaStore

from rota.stores.sqlite.connection import SqliteSettings, open_beside, transaction
from rota.stores.sqlite.queries import QUERIES

TENANT = "default"
LEASE_MICROS = 60_000_000
MOST_MARKED_DUE = 10_000


class OnApsw(RotaStore):
    """Only ``work`` differs."""

    async def work(self) -> None:
        await self._store.close()
        tally, stopping = Tally(), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        connection = open_beside(SqliteSettings(Path(SETTINGS["path"])))
        while not stopping.is_set():
            rows = lease(connection, SETTINGS["batch"])
            for row in rows:
                tally.count(json.loads(row[-1])["payload"])
            if rows:
                complete(connection, rows)
            await asyncio.sleep(0 if rows else 0.005)
        connection.close()


def lease(connection: apsw.Connection, count: int) -> list[tuple[Any, ...]]:
    """Take the first jobs of the only partition."""
    now = time.time_ns() // 1000
    with transaction(connection):
        connection.execute(QUERIES.mark_due, (now, MOST_MARKED_DUE))
        due = connection.execute(QUERIES.find_due, (TENANT, QUEUE, now, count))
        chosen = json.dumps([row[2] for row in due])
        values = (chosen, now, "bench", now + LEASE_MICROS)
        return connection.execute(QUERIES.lease_jobs, values).fetchall()


def complete(connection: apsw.Connection, rows: list[tuple[Any, ...]]) -> None:
    """End all of them, each under the token it was leased with."""
    with transaction(connection):
        now = time.time_ns() // 1000
        ends = [(row[6], now, row[0], row[1], row[17], now) for row in rows]
        connection.executemany(QUERIES.complete_job, ends)


if __name__ == "__main__":
    main(OnApsw())
