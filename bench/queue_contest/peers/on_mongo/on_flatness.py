"""Lease and settle through Rota's store in MongoDB, beside many jobs it must not look at."""

from datetime import UTC, datetime
from typing import Any

from bench.queue_contest.peers.contestant import SETTINGS, main
from bench.queue_contest.peers.rota_store import HOUR, LeaseCycles
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection

from rota.stores.mongo.connection import JOBS
from rota.stores.mongo.lease import ORDER
from rota.stores.rows import to_micros

AT_ONCE = 5_000
"""How many copies one command keeps."""
INSTANTS = ("due_at", "created_at", "updated_at", "ended_at")


class OnFlatnessInMongo(LeaseCycles):
    """The verbs that are measured, and those that lay in what should not matter."""

    async def lay(self, rows: int) -> None:
        """So many finished, so many due later, so many ready: copies of one job of each kind."""
        finished = await self._insert_one(due_at=None)
        await self._settle_one_batch(1)
        later = await self._insert_one(due_at=datetime.now(UTC) + 24 * HOUR)
        ready = await self._insert_one(due_at=None)
        async with AsyncMongoClient[Any](SETTINGS["url"]) as client:
            for job_id in (finished, later, ready):
                await _multiply(client.get_default_database()[JOBS], job_id, rows)

    async def explain(self) -> None:
        """Print how the server finds the first of those that are due."""
        where = {
            "phase": "due",
            "tenant": {"$gt": ""},
            "due_at": {"$lte": to_micros(datetime.now(UTC))},
        }
        order = {"tenant": 1, **dict(ORDER)}
        find = {"find": JOBS, "filter": where, "sort": order, "limit": 100, "hint": "due"}
        async with AsyncMongoClient[Any](SETTINGS["url"]) as client:
            answer = await client.get_default_database().command({"explain": find})
        print(f"first due jobs: {answer['queryPlanner']['winningPlan']}")


async def _multiply(jobs: AsyncCollection[Any], job_id: str, rows: int) -> None:
    """Copy the document of a job so often, each with an id and instants of its own."""
    (kept,) = await jobs.find({"_id": job_id}).to_list()
    for first in range(1, rows + 1, AT_ONCE):
        last = min(first + AT_ONCE, rows + 1)
        await jobs.insert_many([_copy(kept, number) for number in range(first, last)])


def _copy(kept: dict[str, Any], number: int) -> dict[str, Any]:
    moved = {name: kept[name] + number for name in INSTANTS if name in kept}
    return {**kept, **moved, "_id": f"{kept['_id'][:24]}{number:012x}"}


if __name__ == "__main__":
    main(OnFlatnessInMongo())
