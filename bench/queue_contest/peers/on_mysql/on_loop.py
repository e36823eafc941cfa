"""The plain way: ``SELECT … FOR UPDATE SKIP LOCKED`` takes one row, another statement ends it.

One job after the other, each in a transaction that takes it and one that ends it, so that a worker
that dies leaves a mark. What it writes is durable as Rota's is. Finished rows are kept.
"""

import asyncio
import json
import signal
import time
from typing import Any

import asyncmy
from bench.queue_contest.peers.contestant import (
    PAYLOAD,
    SETTINGS,
    Tally,
    main,
    make_payload,
    paced,
    pieces,
)

from rota.stores.mysql.address import read_address

TABLE = (
    "CREATE TABLE queue (id BIGINT AUTO_INCREMENT PRIMARY KEY, status TINYINT NOT NULL, "
    "payload JSON NOT NULL, KEY by_status (status, id)) ENGINE = InnoDB"
)
ADD = "INSERT INTO queue (status, payload) VALUES (0, %s)"
TAKE = "SELECT id, payload FROM queue WHERE status = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"


class OnMysqlLoop:
    """Take, handle, end."""

    async def connect(self) -> None:
        arguments = read_address(SETTINGS["url"]).driver_arguments
        self._connection = await asyncmy.connect(**arguments)
        await self._run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    async def prepare(self) -> None:
        await self.connect()
        await self._run(TABLE)

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            await self._run(ADD, [json.dumps(PAYLOAD)])

    async def bulk(self, count: int) -> None:
        for size in pieces(count):
            async with self._connection.cursor() as cursor:
                await cursor.executemany(ADD, [[json.dumps(PAYLOAD)]] * size)

    async def feed(self, count: int, rate: int) -> None:
        async def hand_in() -> None:
            await self._run(ADD, [json.dumps(make_payload(time.time()))])

        await paced(count, rate, hand_in)

    async def work(self) -> None:
        tally, stopping = Tally(), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        while not stopping.is_set():
            found = await self._take_next()
            if found is None:
                await asyncio.sleep(0.01)
                continue
            tally.count(json.loads(found[1]))
            await self._run("UPDATE queue SET status = 2 WHERE id = %s", [found[0]])

    async def _take_next(self) -> Any:
        await self._connection.begin()
        rows = await self._run(TAKE)
        if rows:
            await self._run("UPDATE queue SET status = 1 WHERE id = %s", [rows[0][0]])
        await self._connection.commit()
        return rows[0] if rows else None

    async def _run(self, statement: str, values: list[Any] | None = None) -> Any:
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, values)
            return await cursor.fetchall() if cursor.description else ()


if __name__ == "__main__":
    main(OnMysqlLoop())
