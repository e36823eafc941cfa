"""Callers at the same time."""

import asyncio

from rota.errors import StaleVersionError
from rota.stores.protocol import DocumentStore
from rota.testing.store_contract.fixture import (
    StoreFixture,
    change,
    expect,
    find,
    new,
    scan_all,
)


class ConcurrencyContract(StoreFixture):
    """A version is given out once, whoever asks for it."""

    async def test_one_of_many_claims_wins(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        claims = (store.write_each([change("a", 1, b"%d" % caller)]) for caller in range(50))
        results = [version for (version,) in await asyncio.gather(*claims)]
        expect(sorted(version or 0 for version in results), [0] * 49 + [2])
        winner = await find(store, "a")
        expect(winner and winner.body, b"%d" % results.index(2))

    async def test_no_increment_is_lost(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        await asyncio.gather(*(_increment(store, times=10) for _ in range(8)))
        counter = await find(store, "a")
        expect(counter and counter.version, 81)

    async def test_each_caller_gets_the_results_of_its_own_writes(
        self, store: DocumentStore
    ) -> None:
        calls = [[new(f"{caller}-{n}") for n in range(caller % 4)] for caller in range(40)]
        results = await asyncio.gather(*map(store.write_each, calls))
        expect(results, [[1] * (caller % 4) for caller in range(40)])
        expect(len(await scan_all(store)), sum(map(len, calls)))

    async def test_a_refused_caller_takes_no_other_down(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        results = await asyncio.gather(
            store.write_each([new("b")]),
            store.write_all([new("c"), new("a")]),
            store.write_each([new("a"), new("d")]),
            return_exceptions=True,
        )
        expect(results[0], [1])
        expect(type(results[1]), StaleVersionError)
        expect(results[2], [None, 1])
        expect([document.key for document in await scan_all(store)], ["a", "b", "d"])

    async def test_a_cancelled_call_is_carried_out_wholly_or_not_at_all(
        self, store: DocumentStore
    ) -> None:
        keys = [f"{number:03}" for number in range(200)]
        task = asyncio.create_task(store.write_each([new(key) for key in keys]))
        await asyncio.wait([task], timeout=0)
        task.cancel()
        await asyncio.wait([task])
        await store.write_each([new("afterwards")])  # what was handed over before it is done now
        written = await store.read("tasks", keys)
        expect(len(written) in {0, 200}, expected=True)
        expect(await store.write_each([new("and again")]), [1])


async def _increment(store: DocumentStore, times: int) -> None:
    while times:
        current = await find(store, "a")
        if current and await store.write_each([change("a", current.version)]) != [None]:
            times -= 1
