"""A limit, not a contestant: the statements of Rota's store through apsw, and nothing around them.

No worker, no records, no decoding: what a row says goes straight into the statement that ends the
job. Jobs are laid in as Rota does.
"""

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
from bench.queue_contest.peers.contestant import SETTINGS, Tally, main
from bench.queue_contest.peers.rota_store import QUEUE, RotaStore

from rota.stores.sqlite.connection import SqliteSettings, open_beside, transaction
from rota.stores.sqlite.jobs.queries import QUERIES

TENANT = "default"
LEASE_MICROS = 60_000_000
MOST_PROMOTED = 10_000


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
    """Take the first jobs of the one lane there is."""
    now = time.time_ns() // 1000
    with transaction(connection):
        connection.execute(QUERIES.promote, (now, MOST_PROMOTED))
        values = (TENANT, QUEUE, now, count, "bench", now + LEASE_MICROS)
        return connection.execute(QUERIES.lease_lane, values).fetchall()


def complete(connection: apsw.Connection, rows: list[tuple[Any, ...]]) -> None:
    """End all of them, each under the token it was leased with."""
    with transaction(connection):
        connection.executemany(QUERIES.move, _moves(rows, time.time_ns() // 1000))


def _moves(rows: list[tuple[Any, ...]], now: int) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        job_id, tenant, due_at, token = row[0], row[1], row[5], row[7]
        written = ("COMPLETED", due_at, None, 0, 0, None, None, None, None, None, None, token)
        yield (*written, None, now, now, job_id, tenant, "RUNNING", token, False, None)


if __name__ == "__main__":
    main(OnApsw())
