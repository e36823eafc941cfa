"""Celery: the solo pool, which drains no-op tasks fastest, much fetched ahead, no results."""

import asyncio
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
from celery import Celery

KIND = "noop"
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR")


class OnCelery:
    """The verbs through its own app, whose calls block."""

    async def connect(self) -> None:
        self._tally: Tally | None = None
        broker = SETTINGS["url"].replace("unix://", "redis+socket://")
        self._app = Celery("bench", broker=broker)
        self._app.conf.update(
            task_ignore_result=True,
            worker_prefetch_multiplier=SETTINGS["prefetch"],
            worker_send_task_events=False,
            broker_connection_retry_on_startup=True,
        )

        def handle(payload: dict[str, Any]) -> None:  # it takes no bound method
            if self._tally is None:
                self._tally = Tally()
            self._tally.count(payload)

        self._noop: Any = self._app.task(name=KIND)(handle)

    async def prepare(self) -> None:
        """It makes what it needs when it needs it."""

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            self._noop.delay(PAYLOAD)

    async def bulk(self, count: int) -> None:
        await lay_in(count, lambda: asyncio.to_thread(self._noop.delay, PAYLOAD))

    async def feed(self, count: int, rate: int) -> None:
        async def submit() -> None:
            self._noop.delay(make_payload(time.time()))

        await paced(count, rate, submit)

    async def work(self) -> None:
        """Its worker handles SIGTERM itself, and blocks the loop until then."""
        self._app.worker_main(["worker", "--pool=solo", *QUIET])


if __name__ == "__main__":
    main(OnCelery())
