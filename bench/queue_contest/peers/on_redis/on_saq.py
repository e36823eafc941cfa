"""SAQ: one worker a process, many jobs at once."""

import time
from typing import Any

from bench.queue_contest.peers.contestant import (
    PAYLOAD,
    SETTINGS,
    Tally,
    main,
    make_payload,
    paced,
)
from bench.queue_contest.peers.on_redis.laying import lay_in
from redis.asyncio import Redis
from saq import Worker  # type: ignore[import-not-found] # in an environment of its own
from saq.queue.redis import RedisQueue  # type: ignore[import-not-found] # in an environment of its own

KIND = "noop"


class OnSaq:
    """The verbs through its own queue and worker."""

    async def connect(self) -> None:
        self._queue = RedisQueue(Redis.from_url(SETTINGS["url"]))
        await self._queue.connect()

    async def prepare(self) -> None:
        """It makes what it needs when it needs it."""

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            await self._queue.enqueue(KIND, payload=PAYLOAD)

    async def bulk(self, count: int) -> None:
        await lay_in(count, lambda: self._queue.enqueue(KIND, payload=PAYLOAD))

    async def feed(self, count: int, rate: int) -> None:
        await paced(
            count, rate, lambda: self._queue.enqueue(KIND, payload=make_payload(time.time()))
        )

    async def work(self) -> None:
        tally = Tally()

        async def noop(_context: dict[str, Any], *, payload: dict[str, Any]) -> None:
            tally.count(payload)

        worker: Any = Worker(self._queue, [(KIND, noop)], concurrency=SETTINGS["concurrent"])
        await worker.start()


if __name__ == "__main__":
    main(OnSaq())
