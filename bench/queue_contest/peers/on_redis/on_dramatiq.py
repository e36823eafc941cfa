"""dramatiq: one process with threads, much fetched ahead, its usual middleware."""

import asyncio
import signal
import time
from threading import Lock
from typing import Any

import dramatiq  # type: ignore[import-not-found] # in an environment of its own
from bench.queue_contest.peers.contestant import (
    PAYLOAD,
    SETTINGS,
    Tally,
    main,
    make_payload,
    paced,
)
from bench.queue_contest.peers.on_redis.laying import lay_in
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found] # in an environment of its own

KIND = "noop"


class OnDramatiq:
    """The verbs through its own broker and worker, whose calls block."""

    async def connect(self) -> None:
        self._tally: Tally | None = None
        self._lock = Lock()
        self._broker = RedisBroker(url=SETTINGS["url"])
        self._noop: Any = dramatiq.actor(self._handle, actor_name=KIND, broker=self._broker)

    def _handle(self, payload: dict[str, Any]) -> None:
        with self._lock:
            if self._tally is None:
                self._tally = Tally()
            self._tally.count(payload)

    async def prepare(self) -> None:
        """It makes what it needs when it needs it."""

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            self._noop.send(PAYLOAD)

    async def bulk(self, count: int) -> None:
        await lay_in(count, lambda: asyncio.to_thread(self._noop.send, PAYLOAD))

    async def feed(self, count: int, rate: int) -> None:
        async def hand_in() -> None:
            self._noop.send(make_payload(time.time()))

        await paced(count, rate, hand_in)

    async def work(self) -> None:
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        worker = dramatiq.Worker(self._broker, worker_threads=SETTINGS["threads"])
        worker.queue_prefetch = SETTINGS["prefetch"]
        worker.start()
        await ended.wait()
        worker.stop()


if __name__ == "__main__":
    main(OnDramatiq())
