"""Tokens are reserved and given back by compare-and-set."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rota.policy.limits import BUCKETS, Rate
from rota.policy.watch import give_back, reserve
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIVE = {"queue/mail": Rate(count=5, per=timedelta(minutes=1))}
TWO = {"tenant/a": Rate(count=2, per=timedelta(minutes=1))}


class Contended(MemoryStore):
    """Somebody else changes the buckets between every reading and writing."""

    rival_count = 10**6

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        found = await super().read(collection, keys)
        if self.rival_count and collection == BUCKETS:
            self.rival_count -= 1
            writes = [
                DocumentWrite(BUCKETS, key, found[key].version if key in found else None, b"{}")
                for key in keys
            ]
            await self.write_each(writes)
        return found


async def test_each_bucket_gives_what_it_has() -> None:
    store = MemoryStore()
    assert (await reserve(store, FIVE | TWO, 3, NOW)).counts == {"queue/mail": 3, "tenant/a": 2}
    assert (await reserve(store, FIVE | TWO, 3, NOW)).counts == {"queue/mail": 2, "tenant/a": 0}


async def test_those_that_were_not_used_can_be_taken_again() -> None:
    store = MemoryStore()
    await reserve(store, FIVE | TWO, 9, NOW)
    await give_back(store, FIVE | TWO, {"queue/mail": 4, "tenant/a": 0}, NOW)
    assert (await reserve(store, FIVE | TWO, 9, NOW)).counts == {"queue/mail": 4, "tenant/a": 0}


async def test_nothing_is_written_where_nothing_is_taken() -> None:
    store = MemoryStore()
    await reserve(store, TWO, 2, NOW)
    before = await store.read(BUCKETS, ["tenant/a"])
    await reserve(store, TWO, 2, NOW)
    await give_back(store, TWO, {"tenant/a": 0}, NOW)
    assert await store.read(BUCKETS, ["tenant/a"]) == before


async def test_concurrent_reservations_use_each_token_once() -> None:
    store = MemoryStore()
    calls = (reserve(store, FIVE, 2, NOW) for _ in range(10))
    assert sum(each.counts["queue/mail"] for each in await asyncio.gather(*calls)) <= 5


async def test_a_lost_race_is_retried_but_not_forever() -> None:
    store = Contended()
    assert (await reserve(store, FIVE, 3, NOW)).counts == {"queue/mail": 0}
    store.rival_count = 1
    assert (await reserve(store, FIVE, 3, NOW)).counts == {"queue/mail": 3}


async def test_a_bucket_that_cannot_be_read_is_replaced_by_a_full_one() -> None:
    store = MemoryStore()
    await store.write_all([DocumentWrite(BUCKETS, "tenant/a", None, b"\xff")])
    assert (await reserve(store, TWO, 9, NOW)).counts == {"tenant/a": 2}
    assert (await reserve(store, TWO, 9, NOW)).counts == {"tenant/a": 0}
