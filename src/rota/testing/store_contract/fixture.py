"""What the tests of the contract have in common: an open store, and ways to look into it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from rota.stores.protocol import Document, DocumentStore, DocumentWrite

StoreFactory = Callable[[], Awaitable[DocumentStore]]

Value = TypeVar("Value")


class StoreFixture:
    """Opens a store before each test and closes it afterwards."""

    @pytest.fixture
    async def store(self, store_factory: StoreFactory) -> AsyncIterator[DocumentStore]:
        """An empty store."""
        store = await store_factory()
        yield store
        await store.close()


def expect(actual: Value, expected: Value) -> None:
    """Fail when the two differ, and show both, with or without pytest's rewriting of asserts."""
    if actual != expected:
        raise AssertionError(f"expected {expected!r}\n     got {actual!r}")


def new(key: str, body: bytes = b"new") -> DocumentWrite:
    """A write that makes a document in the collection ``tasks``."""
    return DocumentWrite("tasks", key, None, body)


def change(key: str, expected: int, body: bytes = b"changed") -> DocumentWrite:
    """A write that changes a document at a version."""
    return DocumentWrite("tasks", key, expected, body)


def remove(key: str, expected: int) -> DocumentWrite:
    """A write that removes a document at a version."""
    return DocumentWrite("tasks", key, expected, None)


async def find(store: DocumentStore, key: str) -> Document | None:
    """One document of the collection ``tasks``."""
    return (await store.read("tasks", [key])).get(key)


async def scan_all(store: DocumentStore, collection: str = "tasks") -> list[Document]:
    """A whole collection."""
    return [document async for page in store.scan(collection) for document in page]
