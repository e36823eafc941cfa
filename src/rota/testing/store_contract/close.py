"""``close``: what is under way is completed, what comes later is refused."""

import asyncio

import pytest

from rota.errors import StoreClosedError
from rota.stores.protocol import DocumentStore
from rota.testing.store_contract.fixture import StoreFactory, StoreFixture, expect, new, scan_all


class CloseContract(StoreFixture):
    """A closed store does nothing, and says so."""

    async def test_a_closed_store_refuses_every_verb(self, store: DocumentStore) -> None:
        await store.close()
        with pytest.raises(StoreClosedError):
            await store.write_each([new("a")])
        with pytest.raises(StoreClosedError):
            await store.write_all([new("a")])
        with pytest.raises(StoreClosedError):
            await store.read("tasks", ["a"])
        with pytest.raises(StoreClosedError):
            await scan_all(store)

    async def test_closing_twice_is_no_error(self, store: DocumentStore) -> None:
        await asyncio.gather(store.close(), store.close())
        await store.close()

    async def test_a_scan_does_not_outlive_its_store(self, store: DocumentStore) -> None:
        await store.write_all(new(f"{number:05}") for number in range(5_000))
        pages = store.scan("tasks")
        await anext(pages)
        await store.close()
        with pytest.raises(StoreClosedError):
            await anext(pages)

    async def test_calls_under_way_are_completed(self, store_factory: StoreFactory) -> None:
        store = await store_factory()
        calls = [asyncio.ensure_future(store.write_each([new(f"{n}")])) for n in range(20)]
        await asyncio.wait(calls, timeout=0)
        await store.close()
        expect(await asyncio.gather(*calls), [[1]] * 20)
