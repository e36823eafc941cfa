"""Poll a collection of your own: subscriptions that renew themselves every month.

The documents stay yours. The poller writes only the field with the date. Set MONGO_URL to a
database, for example mongodb://localhost/shop. Here the clock is virtual, so a quarter passes at
once; in your own program leave ``clock`` out.

It prints:

    2027-02-01 renew Ada
    2027-03-01 renew Ada
    2027-03-08 remind Grace
    2027-04-01 renew Ada
    left: Ada, next on 2027-05-01; Alan, cancelled
"""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import AsyncMongoClient  # pip install 'rota[mongo]'

from rota import Poller
from rota.poller import PolledJob
from rota.poller.mongo import MongoCollectionStore
from rota.testing import VirtualClock

NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)
DOCUMENTS: list[dict[str, Any]] = [
    {
        "_id": "Ada",
        "status": "active",
        "task": "renew",
        "cron": {"sleepUntil": datetime(2027, 2, 1, tzinfo=UTC), "interval": "@monthly"},
    },
    {
        "_id": "Grace",
        "status": "active",
        "task": "remind",
        "cron": {"sleepUntil": datetime(2027, 3, 8, tzinfo=UTC), "autoRemove": True},
    },
    {"_id": "Alan", "status": "cancelled", "task": "renew", "cron": {"sleepUntil": NEW_YEAR}},
]


async def main() -> None:
    clock = VirtualClock(NEW_YEAR)
    async with AsyncMongoClient[dict[str, Any]](os.environ["MONGO_URL"]) as client:
        collection = client.get_default_database()["subscriptions"]
        await collection.insert_many(DOCUMENTS)
        subscriptions = MongoCollectionStore(
            collection,
            sleep_until_field="cron.sleepUntil",
            interval_field="cron.interval",
            repeat_until_field="cron.repeatUntil",
            auto_remove_field="cron.autoRemove",
            condition={"status": "active"},
        )
        await subscriptions.create_index()

        async def process(job: PolledJob) -> None:
            print(f"{clock.now():%Y-%m-%d} {job.payload['task']} {job.id}")

        poller = Poller(
            subscriptions, on_document=process, idle_delay=timedelta(hours=12), clock=clock
        )
        async with poller:
            await clock.advance(timedelta(days=100))
        ada, alan = [document async for document in collection.find().sort("_id")]
        next_at = ada["cron"]["sleepUntil"]
        print(f"left: Ada, next on {next_at:%Y-%m-%d}; Alan, {alan['status']}")


if __name__ == "__main__":
    asyncio.run(main())
