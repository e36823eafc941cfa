"""What a store that outlives its process promises besides."""

from rota.stores.protocol import Document, DocumentStore, Reach
from rota.testing.store_contract.fixture import (
    StoreFactory,
    StoreFixture,
    change,
    expect,
    find,
    new,
    remove,
    scan_all,
)


class LastingStoreContract(StoreFixture):
    """Opened again, or opened twice, it is the same store."""

    async def test_what_was_written_is_there_after_reopening(
        self, store_factory: StoreFactory
    ) -> None:
        first = await store_factory()
        await first.write_each([new("a", b"one"), new("b"), change("b", 1, b"two"), new("c")])
        await first.write_all([remove("c", 1), new("d")])
        before = await scan_all(first)
        await first.close()
        second = await store_factory()
        expect(await scan_all(second), before)
        expect(await second.write_each([change("b", 1), change("b", 2)]), [None, 3])
        await second.close()

    async def test_its_reach_is_wider_than_a_process(self, store: DocumentStore) -> None:
        expect(store.reach is Reach.PROCESS, expected=False)

    async def test_two_that_are_open_see_each_other(
        self, store: DocumentStore, store_factory: StoreFactory
    ) -> None:
        other = await store_factory()
        await store.write_each([new("a", b"from one")])
        expect(await find(other, "a"), Document("a", 1, b"from one"))
        expect(await other.write_each([change("a", 1, b"from the other")]), [2])
        expect(await store.write_each([change("a", 1, b"too late")]), [None])
        expect(await scan_all(store), [Document("a", 2, b"from the other")])
        await other.close()

    async def test_closing_one_leaves_the_other_open(
        self, store: DocumentStore, store_factory: StoreFactory
    ) -> None:
        other = await store_factory()
        await other.write_each([new("a")])
        await other.close()
        expect(await store.write_each([change("a", 1)]), [2])

    async def test_one_may_write_between_the_pages_of_the_other(
        self, store: DocumentStore, store_factory: StoreFactory
    ) -> None:
        other = await store_factory()
        await store.write_all(new(f"{number:05}") for number in range(5_000))
        seen_count = 0
        async for page in store.scan("tasks"):
            seen_count += len(page)
            expect(await other.write_each([change(page[0].key, 1)]), [2])
        expect(seen_count, 5_000)
        await other.close()
