"""PgQueuer at its best: one asyncpg connection, batches of 1000, uvloop; durable as delivered."""

import asyncio
import json
import signal
import time
from datetime import timedelta
from typing import Any

import asyncpg
from bench.queue_contest.peers.contestant import (
    PAYLOAD,
    SETTINGS,
    Tally,
    main,
    make_payload,
    paced,
    pieces,
)
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

KIND = "noop"


class OnPgQueuer:
    """The verbs through its own ``Queries`` and ``PgQueuer``."""

    async def connect(self) -> None:
        self._driver = AsyncpgDriver(await asyncpg.connect(SETTINGS["url"]))
        self._queries = Queries(self._driver)
        self._payload = json.dumps(PAYLOAD).encode()

    async def prepare(self) -> None:
        await self.connect()
        await self._queries.install()

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            await self._queries.enqueue(KIND, self._payload)

    async def bulk(self, count: int) -> None:
        for size in pieces(count):
            await self._queries.enqueue([KIND] * size, [self._payload] * size, [0] * size)

    async def feed(self, count: int, rate: int) -> None:
        await paced(
            count,
            rate,
            lambda: self._queries.enqueue(KIND, json.dumps(make_payload(time.time())).encode()),
        )

    async def work(self) -> None:
        queue = PgQueuer(self._driver)
        tally = Tally()

        async def noop(job: Any) -> None:
            tally.count(json.loads(job.payload))

        queue.entrypoint(KIND)(noop)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)
        await queue.run(
            batch_size=SETTINGS["batch"], dequeue_timeout=timedelta(seconds=SETTINGS["poll"])
        )


if __name__ == "__main__":
    main(OnPgQueuer())
