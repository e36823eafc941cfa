"""taskiq on a Redis stream, its broker that acknowledges: no results kept, much fetched ahead."""

import asyncio
import signal
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
from taskiq.acks import AcknowledgeType  # type: ignore[import-not-found] # in an environment of its own
from taskiq.receiver import Receiver  # type: ignore[import-not-found] # in an environment of its own
from taskiq_redis import RedisStreamBroker  # type: ignore[import-not-found] # in an environment of its own

KIND = "noop"


class OnTaskiq:
    """The verbs through its own broker, and the receiver that its workers run."""

    async def connect(self) -> None:
        self._tally: Tally | None = None
        self._broker = RedisStreamBroker(
            SETTINGS["url"], consumer_id="0", xread_count=SETTINGS["prefetch"]
        )

        async def noop(payload: dict[str, Any]) -> None:
            self._handle(payload)

        self._noop: Any = self._broker.register_task(noop, task_name=KIND)
        await self._broker.startup()

    def _handle(self, payload: dict[str, Any]) -> None:
        if self._tally is None:
            self._tally = Tally()
        self._tally.count(payload)

    async def prepare(self) -> None:
        """Make the stream with its group of consumers."""
        await self.connect()

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            await self._noop.kiq(PAYLOAD)

    async def bulk(self, count: int) -> None:
        await lay_in(count, lambda: self._noop.kiq(PAYLOAD))

    async def feed(self, count: int, rate: int) -> None:
        await paced(count, rate, lambda: self._noop.kiq(make_payload(time.time())))

    async def work(self) -> None:
        self._broker.is_worker_process = True
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        receiver = Receiver(
            self._broker,
            max_async_tasks=SETTINGS["concurrent"],
            max_prefetch=SETTINGS["prefetch"],
            run_startup=False,
            ack_type=AcknowledgeType.WHEN_EXECUTED,
        )
        await receiver.listen(ended)


if __name__ == "__main__":
    main(OnTaskiq())
