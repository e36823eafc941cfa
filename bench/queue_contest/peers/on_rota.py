"""Rota as its users have it: a ``Worker`` with one async handler on a store it opened."""

import asyncio
import signal
from datetime import timedelta
from typing import Any

import msgspec
from bench.queue_contest.peers.contestant import SETTINGS, Tally, main
from bench.queue_contest.peers.rota_store import KIND, RotaStore

from rota.worker import Context, Worker, WorkerSettings

KEEPS_RESULT = bool(SETTINGS.get("keeps_result"))
"""Only then the options of a handler are used that another checkout may lack."""


class OnRota(RotaStore):
    """The worker."""

    async def work(self) -> None:
        tally = Tally()
        settings = WorkerSettings(
            batch=SETTINGS["batch"],
            concurrency=SETTINGS["concurrency"],
            poll_for=timedelta(seconds=SETTINGS["poll"]),
        )
        worker = Worker(self._store, settings=settings)

        async def noop(context: Context) -> dict[str, int] | None:
            payload = context.payload
            tally.count(payload)
            if not KEEPS_RESULT:
                return None
            return {"user": payload["user"], "length": len(payload["email"]) + len(payload["pad"])}

        options: dict[str, Any] = {"encode": msgspec.json.encode} if KEEPS_RESULT else {}
        worker.handler(KIND, **options)(noop)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()
        await self._store.close()


if __name__ == "__main__":
    main(OnRota())
