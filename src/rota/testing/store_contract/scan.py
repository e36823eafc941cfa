"""``scan``: a whole collection in key order, page by page."""

from itertools import pairwise

from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.testing.store_contract.fixture import (
    StoreFixture,
    change,
    expect,
    new,
    remove,
    scan_all,
)

DOCUMENT_COUNT = 5_000
"""Enough that a store which reads in pages needs several."""


class ScanContract(StoreFixture):
    """What is there from beginning to end is seen exactly once."""

    async def test_documents_come_in_the_order_of_their_keys(self, store: DocumentStore) -> None:
        keys = ["b", "a", "B", "ä", "10", "9", "a b", "~", "日本", "😀", "\uffff", "aa"]
        await store.write_each([new(key) for key in keys])
        expect([document.key for document in await scan_all(store)], sorted(keys))

    async def test_an_empty_collection_has_no_pages(self, store: DocumentStore) -> None:
        await store.write_each([DocumentWrite("other", "a", None, b"")])
        expect([page async for page in store.scan("tasks")], [])

    async def test_documents_come_with_version_and_body(self, store: DocumentStore) -> None:
        await store.write_each([new("a", b"one"), new("b"), change("b", 1, b"two")])
        expect(await scan_all(store), [Document("a", 1, b"one"), Document("b", 2, b"two")])

    async def test_only_the_collection_asked_for_is_seen(self, store: DocumentStore) -> None:
        for collection in ("task", "tasks", "tasks2"):
            await store.write_each([DocumentWrite(collection, "a", None, collection.encode())])
        expect(await scan_all(store), [Document("a", 1, b"tasks")])

    async def test_a_large_collection_comes_whole_in_pages(self, store: DocumentStore) -> None:
        await _fill(store)
        pages = [page async for page in store.scan("tasks")]
        keys = [document.key for page in pages for document in page]
        expect(keys, [_key(number) for number in range(DOCUMENT_COUNT)])
        expect([page for page in pages if not page], [])

    async def test_what_stays_is_seen_once_while_others_write(self, store: DocumentStore) -> None:
        await _fill(store)
        seen: list[Document] = []
        async for page in store.scan("tasks"):
            seen += page
            await _disturb(store, number=len(seen) // 1_000)
        keys = [document.key for document in seen]
        expect([pair for pair in pairwise(keys) if pair[0] >= pair[1]], [])
        staying = {_key(number) for number in range(DOCUMENT_COUNT) if number % 100}
        expect(staying - set(keys), set())

    async def test_a_scan_that_is_given_up_leaves_nothing_behind(
        self, store: DocumentStore
    ) -> None:
        await _fill(store)
        await anext(aiter(store.scan("tasks")))
        expect(await store.write_each([change(_key(4_999), 1)]), [2])
        expect(len(await scan_all(store)), DOCUMENT_COUNT)

    async def test_two_scans_at_once_do_not_disturb_each_other(self, store: DocumentStore) -> None:
        await _fill(store)
        outer_count = inner_count = 0
        async for page in store.scan("tasks"):
            outer_count += len(page)
            inner_count = len(await scan_all(store))
        expect((outer_count, inner_count), (DOCUMENT_COUNT, DOCUMENT_COUNT))


async def _fill(store: DocumentStore) -> None:
    await store.write_all(new(_key(number)) for number in range(DOCUMENT_COUNT))


async def _disturb(store: DocumentStore, number: int) -> None:
    """Remove, make and change documents before and behind where a scan may be."""
    await store.write_each(
        [
            *(remove(_key(hundred), 1) for hundred in range(number % 2 * 100, 5_000, 200)),
            *(new(f"{_key(other)}-new") for other in range(number, 5_000, 500)),
            *(change(_key(other), 1) for other in range(number * 7 + 1, 5_000, 333)),
        ]
    )


def _key(number: int) -> str:
    return f"task-{number:05}"
