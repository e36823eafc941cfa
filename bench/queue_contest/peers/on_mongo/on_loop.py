"""The mongodb-cron way: ``find_one_and_update`` locks one document, one more write ends it.

One document after the other, as its processing loop does. What it writes is durable as Rota's is.
Finished documents are kept, asleep for ever, as mongodb-cron leaves them.
"""

import asyncio
import signal
import time
from datetime import UTC, datetime, timedelta
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
from pymongo import AsyncMongoClient

COLLECTION = "crontab"
LOCK_FOR = timedelta(minutes=10)


class OnMongoLoop:
    """Lock, handle, end; nothing is kept track of but the time a document sleeps until."""

    async def connect(self) -> None:
        client = AsyncMongoClient[Any](SETTINGS["url"], w="majority", journal=True)
        self._documents = client.get_default_database()[COLLECTION]

    async def prepare(self) -> None:
        await self.connect()
        await self._documents.create_index([("sleepUntil", 1)], sparse=True)

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            await self._documents.insert_one(make_document(PAYLOAD))

    async def bulk(self, count: int) -> None:
        for size in pieces(count):
            await self._documents.insert_many([make_document(PAYLOAD) for _ in range(size)])

    async def feed(self, count: int, rate: int) -> None:
        async def hand_in() -> None:
            await self._documents.insert_one(make_document(make_payload(time.time())))

        await paced(count, rate, hand_in)

    async def work(self) -> None:
        tally, stopping = Tally(), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        while not stopping.is_set():
            found = await self._lock_next()
            if found is None:
                await asyncio.sleep(0.01)
                continue
            tally.count(found["payload"])
            await self._documents.update_one({"_id": found["_id"]}, {"$set": {"sleepUntil": None}})

    async def _lock_next(self) -> Any:
        now = datetime.now(UTC)
        return await self._documents.find_one_and_update(
            {"sleepUntil": {"$ne": None, "$lte": now}},
            {"$set": {"sleepUntil": now + LOCK_FOR}},
            sort=[("sleepUntil", 1)],
        )


def make_document(payload: dict[str, Any]) -> dict[str, Any]:
    return {"sleepUntil": datetime.now(UTC), "payload": payload}


if __name__ == "__main__":
    main(OnMongoLoop())
