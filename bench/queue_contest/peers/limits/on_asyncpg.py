"""A limit, not a contestant: a bare table and the plainest statements through asyncpg."""

import asyncio
import json
import signal
import time
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

SCHEMA = """
CREATE TABLE bare_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state smallint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now(),
    payload jsonb NOT NULL
);
CREATE INDEX bare_ready ON bare_jobs (due_at, id) WHERE state = 0;
"""
CLAIM = """
UPDATE bare_jobs SET state = 1 WHERE id IN (
    SELECT id FROM bare_jobs WHERE state = 0 AND due_at <= now()
    ORDER BY due_at, id FOR UPDATE SKIP LOCKED LIMIT $1
) RETURNING id, payload
"""
COMPLETE = "UPDATE bare_jobs SET state = 2 WHERE id = ANY($1::bigint[])"
INSERT = "INSERT INTO bare_jobs (payload) SELECT unnest($1::jsonb[])"


class OnAsyncpg:
    """Claim, handle, complete; nothing is kept track of, nothing can be retried."""

    async def connect(self) -> None:
        self._connection = await asyncpg.connect(SETTINGS["url"])
        self._payload = json.dumps(PAYLOAD)

    async def prepare(self) -> None:
        await self.connect()
        await self._connection.execute(SCHEMA)

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            await self._connection.execute(INSERT, [self._payload])

    async def bulk(self, count: int) -> None:
        for size in pieces(count):
            await self._connection.execute(INSERT, [self._payload] * size)

    async def feed(self, count: int, rate: int) -> None:
        async def hand_in() -> None:
            await self._connection.execute(INSERT, [json.dumps(make_payload(time.time()))])

        await paced(count, rate, hand_in)

    async def work(self) -> None:
        tally, stopping = Tally(), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        claim = await self._connection.prepare(CLAIM)
        complete = await self._connection.prepare(COMPLETE)
        while not stopping.is_set():
            rows: list[Any] = await claim.fetch(SETTINGS["batch"])
            for row in rows:
                tally.count(json.loads(row[1]))
            if rows:
                await complete.fetch([row[0] for row in rows])
            else:
                await asyncio.sleep(0.01)


if __name__ == "__main__":
    main(OnAsyncpg())
