"""Huey on SQLite: one consumer thread. It forgets a job before the handler runs, at most once."""

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
from huey import SqliteHuey


class OnHuey:
    """The verbs through ``SqliteHuey``, whose calls block."""

    async def connect(self) -> None:
        self._open(fsync=SETTINGS["fsync"])

    def _open(self, *, fsync: bool | None) -> None:
        self._huey = SqliteHuey(
            "bench", filename=SETTINGS["path"], results=False, fsync=fsync, timeout=30
        )
        self._tally: Tally | None = None
        self._noop = self._huey.task(name="noop")(self._handle)

    def _handle(self, payload: dict[str, Any]) -> None:
        if self._tally is None:
            self._tally = Tally()
        self._tally.count(payload)

    async def prepare(self) -> None:
        await self.connect()

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            self._noop(PAYLOAD)

    async def bulk(self, count: int) -> None:
        """It has no call for many: they are laid in one by one, in haste, and not measured."""
        self._open(fsync=False)
        await self.enqueue(count)

    async def feed(self, count: int, rate: int) -> None:
        async def hand_in() -> None:
            self._noop(make_payload(time.time()))

        await paced(count, rate, hand_in)

    async def work(self) -> None:
        self._huey.create_consumer(
            workers=1, worker_type="thread", initial_delay=0.01, max_delay=0.05, periodic=False
        ).run()


if __name__ == "__main__":
    main(OnHuey())
