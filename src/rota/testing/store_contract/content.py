"""What names and bodies may hold."""

import pytest

from rota.errors import InvalidInputError
from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.testing.store_contract.fixture import StoreFixture, expect, find, new, scan_all

NAMES = [
    "plain",
    "with space, comma; and 'quotes\" and \\ back",
    "%_*?[a]$.{}:/#",
    "Grüße, 世界, мир, שלום",
    "😀👩‍👩‍👧 e\u0301",
    "line\nbreak\tand tab",
    "x" * 255,
    "😀" * 255,
]
UNFIT_NAMES = ["", "x" * 256, "nul\0inside", "half \ud800 pair"]


class ContentContract(StoreFixture):
    """Any text is a name and any bytes are a body, within the stated limits."""

    @pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
    async def test_any_text_may_be_a_key(self, store: DocumentStore, name: str) -> None:
        await store.write_each([new(name)])
        expect(await find(store, name), Document(name, 1, b"new"))
        expect(await scan_all(store), [Document(name, 1, b"new")])

    @pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
    async def test_any_text_may_be_a_collection(self, store: DocumentStore, name: str) -> None:
        await store.write_each([DocumentWrite(name, "a", None, b"body")])
        expect(await scan_all(store, name), [Document("a", 1, b"body")])

    async def test_keys_that_only_look_alike_are_different(self, store: DocumentStore) -> None:
        keys = ["é", "e\u0301", "E", "e", " e", "e ", "1", "01", "1.0"]
        expect(await store.write_each([new(key) for key in keys]), [1] * len(keys))
        expect(sorted(await store.read("tasks", keys)), sorted(keys))

    @pytest.mark.parametrize("name", UNFIT_NAMES, ids=range(len(UNFIT_NAMES)))
    async def test_an_unfit_key_is_refused_and_nothing_written(
        self, store: DocumentStore, name: str
    ) -> None:
        with pytest.raises(InvalidInputError, match="key"):
            await store.write_each([new("fit"), new(name)])
        with pytest.raises(InvalidInputError, match="key"):
            await store.read("tasks", ["fit", name])
        expect(await scan_all(store), [])

    @pytest.mark.parametrize("name", UNFIT_NAMES, ids=range(len(UNFIT_NAMES)))
    async def test_an_unfit_collection_is_refused_and_nothing_written(
        self, store: DocumentStore, name: str
    ) -> None:
        with pytest.raises(InvalidInputError, match="collection"):
            await store.write_each([new("fit"), DocumentWrite(name, "a", None, b"")])
        with pytest.raises(InvalidInputError, match="collection"):
            await store.read(name, ["a"])
        with pytest.raises(InvalidInputError, match="collection"):
            await scan_all(store, name)
        expect(await scan_all(store), [])

    @pytest.mark.parametrize(
        "body",
        [b"", b"\0", bytes(range(256)), b"\xff\xfe not text", bytes(1024) * 1024],
        ids=["empty", "nul", "all-bytes", "no-text", "one-mebibyte"],
    )
    async def test_a_body_comes_back_byte_for_byte(self, store: DocumentStore, body: bytes) -> None:
        await store.write_each([new("a", body)])
        expect(await find(store, "a"), Document("a", 1, body))
