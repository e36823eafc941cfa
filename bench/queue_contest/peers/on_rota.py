"""Rota as its users have it: a ``Worker`` with one async handler on a store it opened."""

import asyncio
import signal
from datetime import timedelta

from bench.queue_contest.peers.contestant import SETTINGS, Tally, main
from bench.queue_contest.peers.rota_store import KIND, RotaStore

from rota.worker import Context, Worker, WorkerSettings


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

        @worker.handler(KIND)
        async def noop(context: Context) -> None:
            tally.count(context.payload)

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()
        await self._store.close()


if __name__ == "__main__":
    main(OnRota())
