"""Procrastinate: a psycopg pool, ten jobs at once, woken by LISTEN, finished jobs kept."""

import time
from typing import Any

import procrastinate  # type: ignore[import-not-found] # in an environment of its own
from bench.queue_contest.peers.contestant import (
    PAYLOAD,
    SETTINGS,
    Tally,
    main,
    make_payload,
    paced,
    pieces,
)

KIND = "noop"
QUEUE = "bench"


class OnProcrastinate:
    """The verbs through its own app and task."""

    async def connect(self) -> None:
        room = SETTINGS["concurrent"] + 4
        connector = procrastinate.PsycopgConnector(
            conninfo=SETTINGS["url"], min_size=2, max_size=room
        )
        self._tally: Tally | None = None
        self._app: Any = procrastinate.App(connector=connector)
        self._noop: Any = self._app.task(name=KIND, queue=QUEUE)(self._handle)
        await self._app.open_async()

    async def _handle(self, payload: dict[str, Any]) -> None:
        if self._tally is not None:
            self._tally.count(payload)

    async def prepare(self) -> None:
        await self.connect()
        await self._app.schema_manager.apply_schema_async()
        await self._app.close_async()

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            await self._noop.defer_async(payload=PAYLOAD)

    async def bulk(self, count: int) -> None:
        for size in pieces(count):
            await self._noop.batch_defer_async(*[{"payload": PAYLOAD}] * size)

    async def feed(self, count: int, rate: int) -> None:
        await paced(count, rate, lambda: self._noop.defer_async(payload=make_payload(time.time())))

    async def work(self) -> None:
        self._tally = Tally()
        await self._app.run_worker_async(
            queues=[QUEUE],
            concurrency=SETTINGS["concurrent"],
            fetch_job_polling_interval=SETTINGS["poll"],
            delete_jobs="never",
        )


if __name__ == "__main__":
    main(OnProcrastinate())
