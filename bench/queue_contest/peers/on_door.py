"""Rota through its front door: one task of an app, with validated arguments, and its worker."""

import asyncio
import signal
import time
from datetime import timedelta
from typing import Any

from bench.queue_contest.peers.contestant import (
    PAYLOAD,
    SETTINGS,
    Tally,
    main,
    make_payload,
    paced,
    pieces,
)

from rota import Rota, Task, WorkerSettings

KEEPS_RESULT = bool(SETTINGS.get("keeps_result"))
IS_SYNC = bool(SETTINGS.get("is_sync"))


class OnDoor:
    """The app, its task and its worker."""

    async def connect(self) -> None:
        self._app = Rota(SETTINGS["url"])
        self._tally: Tally | None = None
        self._noop: Task[..., Any] = self._app.task(
            name="noop", queue="bench", keep_result=KEEPS_RESULT
        )(self._count)
        if not IS_SYNC:
            await self._app.sessions.enter()

    async def prepare(self) -> None:
        await self.connect()
        if not IS_SYNC:
            await self._app.sessions.leave()

    async def enqueue(self, count: int) -> None:
        if IS_SYNC:
            for _ in range(count):
                self._noop.enqueue_sync(**PAYLOAD)  # in this thread, as Huey's calls
            return
        for _ in range(count):
            await self._noop.enqueue(**PAYLOAD)

    async def bulk(self, count: int) -> None:
        for size in pieces(count):
            await self._noop.enqueue_many([self._noop.call(**PAYLOAD) for _ in range(size)])

    async def feed(self, count: int, rate: int) -> None:
        await paced(count, rate, lambda: self._noop.enqueue(**make_payload(time.time())))

    async def work(self) -> None:
        self._tally = Tally()
        settings = WorkerSettings(
            batch=SETTINGS["batch"],
            concurrency=SETTINGS["concurrency"],
            poll_for=timedelta(seconds=SETTINGS["poll"]),
        )
        worker = self._app.worker(settings)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()
        await self._app.sessions.leave()

    async def _count(self, user: int, email: str, at: float, pad: str) -> dict[str, int] | None:
        if self._tally is not None:
            self._tally.count({"at": at})
        if not KEEPS_RESULT:  # as the engine's handler
            return None
        return {"user": user, "length": len(email) + len(pad)}


if __name__ == "__main__":
    main(OnDoor())
