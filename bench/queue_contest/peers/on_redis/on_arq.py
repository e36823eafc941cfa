"""arq with short polls, many jobs at once, no results kept: as delivered it does 200 a second."""

import time
from typing import Any

from arq import create_pool  # type: ignore[import-not-found] # in an environment of its own
from arq.connections import RedisSettings  # type: ignore[import-not-found] # in an environment of its own
from arq.worker import Worker, func  # type: ignore[import-not-found] # in an environment of its own
from bench.queue_contest.peers.contestant import (
    PAYLOAD,
    SETTINGS,
    Tally,
    main,
    make_payload,
    paced,
)
from bench.queue_contest.peers.on_redis.laying import AT_ONCE, lay_in

KIND = "noop"


class OnArq:
    """The verbs through its own pool and worker."""

    async def connect(self) -> None:
        self._settings = RedisSettings(unix_socket_path=SETTINGS["socket"], max_connections=AT_ONCE)
        self._pool = await create_pool(self._settings)

    async def prepare(self) -> None:
        """It makes what it needs when it needs it."""

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            await self._pool.enqueue_job(KIND, PAYLOAD)

    async def bulk(self, count: int) -> None:
        await lay_in(count, lambda: self._pool.enqueue_job(KIND, PAYLOAD))

    async def feed(self, count: int, rate: int) -> None:
        await paced(count, rate, lambda: self._pool.enqueue_job(KIND, make_payload(time.time())))

    async def work(self) -> None:
        tally = Tally()

        async def noop(_context: dict[Any, Any], payload: dict[str, Any]) -> None:
            tally.count(payload)

        await Worker(
            [func(noop, name=KIND)],
            redis_settings=self._settings,
            max_jobs=SETTINGS["concurrent"],
            poll_delay=SETTINGS["poll"],
            keep_result=0,
            log_results=False,
        ).async_run()


if __name__ == "__main__":
    main(OnArq())
