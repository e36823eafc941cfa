"""``read``: documents by key, as of one moment."""

from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.testing.store_contract.fixture import StoreFixture, change, expect, new


class ReadContract(StoreFixture):
    """What exists is given, what does not is left out."""

    async def test_those_that_exist_are_given_by_key(self, store: DocumentStore) -> None:
        await store.write_each([new("a", b"one"), new("b"), change("b", 1, b"two"), new("c")])
        found = await store.read("tasks", ["b", "a"])
        expect(found, {"a": Document("a", 1, b"one"), "b": Document("b", 2, b"two")})

    async def test_those_that_do_not_exist_are_left_out(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        expect(list(await store.read("tasks", ["a", "b", "A"])), ["a"])
        expect(await store.read("other", ["a"]), {})

    async def test_no_keys_find_nothing(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        expect(await store.read("tasks", []), {})

    async def test_a_key_asked_for_twice_is_given_once(self, store: DocumentStore) -> None:
        await store.write_each([new("a")])
        expect(await store.read("tasks", ["a", "a"]), {"a": Document("a", 1, b"new")})

    async def test_collections_do_not_share_keys(self, store: DocumentStore) -> None:
        await store.write_each([new("a"), DocumentWrite("other", "a", None, b"other")])
        expect(await store.read("other", ["a"]), {"a": Document("a", 1, b"other")})

    async def test_many_keys_can_be_asked_for_at_once(self, store: DocumentStore) -> None:
        keys = [f"task-{number}" for number in range(5_000)]
        await store.write_all(new(key) for key in keys[::2])
        expect(sorted(await store.read("tasks", keys)), sorted(keys[::2]))
