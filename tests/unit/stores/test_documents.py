"""Documents of any store: found, decoded, changed and removed."""

from collections.abc import Sequence

import msgspec
import pytest

from rota.errors import StaleVersionError
from rota.stores.documents import (
    WRITE_LIMIT,
    all_documents,
    change_document,
    decode_body,
    find_document,
    remove_documents,
)
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite


class Contended(MemoryStore):
    """A store on which another caller writes the document first, this number of times."""

    def __init__(self, lost_count: int) -> None:
        super().__init__()
        self.lost_count = lost_count

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        if self.lost_count:
            self.lost_count -= 1
            found = await find_document(self, "notes", "a")
            version = None if found is None else found.version
            await super().write_each([DocumentWrite("notes", "a", version, b"theirs")])
        return await super().write_each(writes)


def append(found: Document | None) -> bytes:
    return b"ours" if found is None else found.body + b", ours"


async def test_a_change_is_decided_again_when_others_write_meanwhile() -> None:
    store = Contended(lost_count=2)
    await change_document(store, "notes", "a", append)
    found = await find_document(store, "notes", "a")
    assert found is not None
    assert found.body == b"theirs, ours"


async def test_a_change_that_loses_every_race_is_refused() -> None:
    store = Contended(lost_count=WRITE_LIMIT)
    with pytest.raises(StaleVersionError):
        await change_document(store, "notes", "a", append)
    found = await find_document(store, "notes", "a")
    assert found is not None
    assert found.body == b"theirs"


async def test_a_change_to_nothing_removes_the_document() -> None:
    store = MemoryStore()
    await change_document(store, "notes", "a", append)
    await change_document(store, "notes", "a", lambda _: None)
    await change_document(store, "notes", "a", lambda _: None)
    assert await find_document(store, "notes", "a") is None


async def test_only_the_documents_that_match_are_removed() -> None:
    store = MemoryStore()
    for key in "abc":
        await change_document(store, "notes", key, append)
    assert await remove_documents(store, "notes", lambda it: it.key != "b") == 2
    assert [it.key async for it in all_documents(store, "notes")] == ["b"]


@pytest.mark.parametrize("body", [b'"text"', b"[1", b"\xff", b'["\xff"]'])
def test_a_document_that_cannot_be_read_gives_the_default(body: bytes) -> None:
    assert decode_body(Document("a", 1, body), list[str], None) is None


def test_a_missing_document_gives_the_default_and_another_its_content() -> None:
    assert decode_body(None, list[int], ()) == ()
    assert decode_body(Document("a", 1, msgspec.json.encode([1])), list[int], ()) == [1]
