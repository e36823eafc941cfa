"""``write_each``: each write that is still current, in one step."""

from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.testing.store_contract.fixture import (
    StoreFixture,
    change,
    expect,
    find,
    new,
    remove,
    scan_all,
)


class WriteEachContract(StoreFixture):
    """The version a write names decides whether it is applied."""

    async def test_a_new_document_has_version_1(self, store: DocumentStore) -> None:
        expect(await store.write_each([new("a", b"body")]), [1])
        expect(await find(store, "a"), Document("a", 1, b"body"))

    async def test_each_change_makes_the_version_greater_by_one(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        for version in range(1, 6):
            expect(await store.write_each([change("a", version)]), [version + 1])
        expect(await find(store, "a"), Document("a", 6, b"changed"))

    async def test_a_stale_change_writes_nothing(self, store: DocumentStore) -> None:
        await store.write_each([new("a"), change("a", 1, b"second")])
        for stale in (0, 1, 3):
            expect(await store.write_each([change("a", stale, b"stale")]), [None])
        expect(await find(store, "a"), Document("a", 2, b"second"))

    async def test_a_document_that_exists_is_not_made_again(self, store: DocumentStore) -> None:
        await store.write_each([new("a", b"first")])
        expect(await store.write_each([new("a", b"second")]), [None])
        expect(await find(store, "a"), Document("a", 1, b"first"))

    async def test_a_document_that_is_absent_is_not_changed(self, store: DocumentStore) -> None:
        expect(await store.write_each([change("a", 1), change("a", 0)]), [None, None])
        expect(await scan_all(store), [])

    async def test_a_removed_document_is_gone(self, store: DocumentStore) -> None:
        await store.write_each([new("a"), new("b")])
        expect(await store.write_each([remove("a", 1)]), [0])
        expect(await store.write_each([remove("a", 1)]), [None])
        expect([document.key for document in await scan_all(store)], ["b"])

    async def test_a_stale_removal_removes_nothing(self, store: DocumentStore) -> None:
        await store.write_each([new("a"), change("a", 1)])
        expect(await store.write_each([remove("a", 1)]), [None])
        expect(await find(store, "a"), Document("a", 2, b"changed"))

    async def test_a_document_made_anew_starts_at_version_1(self, store: DocumentStore) -> None:
        await store.write_each([new("a"), change("a", 1), remove("a", 2)])
        expect(await store.write_each([new("a", b"again")]), [1])
        expect(await find(store, "a"), Document("a", 1, b"again"))

    async def test_stale_writes_do_not_hold_up_the_others(self, store: DocumentStore) -> None:
        await store.write_each([new("b"), new("d")])
        writes = [new("a"), new("b"), change("b", 1), change("c", 1), remove("d", 2), new("e")]
        expect(await store.write_each(writes), [1, None, 2, None, None, 1])
        versions = [(document.key, document.version) for document in await scan_all(store)]
        expect(versions, [("a", 1), ("b", 2), ("d", 1), ("e", 1)])

    async def test_a_write_sees_those_before_it_in_the_same_call(
        self, store: DocumentStore
    ) -> None:
        writes = [new("a"), new("a"), change("a", 1), remove("a", 2), change("a", 2), new("a")]
        expect(await store.write_each(writes), [1, None, 2, 0, None, 1])

    async def test_absence_alone_can_be_demanded(self, store: DocumentStore) -> None:
        await store.write_each([new("b")])
        absent = [DocumentWrite("tasks", key, None, None) for key in ("a", "b")]
        expect(await store.write_each(absent), [0, None])
        expect([document.key for document in await scan_all(store)], ["b"])

    async def test_no_writes_have_no_results(self, store: DocumentStore) -> None:
        expect(await store.write_each([]), [])
