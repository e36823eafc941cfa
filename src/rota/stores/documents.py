"""Finds, decodes, changes and removes documents of any ``DocumentStore``."""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from rota.errors import StaleVersionError
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

Value = TypeVar("Value")
Default = TypeVar("Default")

WRITE_LIMIT = 20
"""How often a change is decided again while others write the same document."""


Name: TypeAlias = tuple[str, str]
"""A collection and a key."""

Versions: TypeAlias = list[int | None]
"""For each write the new version, 0 for a removal, or None if it was stale."""

Apply: TypeAlias = Callable[[Sequence[DocumentWrite]], Awaitable[Versions]]


class Batch(NamedTuple):
    """The next writes of a stream, the error that ended it, and whether there are no more."""

    writes: list[DocumentWrite]
    error: Exception | None = None
    is_last: bool = False


def take_batch(stream: Iterator[DocumentWrite], most: int, most_bytes: int) -> Batch:
    """As many writes as a store should apply at a time. An error is kept until they are applied."""
    writes: list[DocumentWrite] = []
    byte_count = 0
    try:
        for write in stream:
            writes.append(write)
            byte_count += len(write.body or b"")
            if len(writes) >= most or byte_count >= most_bytes:
                return Batch(writes)
    except Exception as error:  # noqa: BLE001 - what the caller's stream raises is passed on
        return Batch(writes, error, is_last=True)
    return Batch(writes, is_last=True)


async def apply_stream(
    stream: Iterator[DocumentWrite],
    most: int,
    most_bytes: int,
    apply: Apply,
    first: Batch | None = None,
) -> None:
    """Apply writes as they come; an error of one of them undoes those before in its transaction.

    ``first`` was taken from the stream before.
    """
    batch = first or take_batch(stream, most, most_bytes)
    refuse_stale(batch, await apply(batch.writes))
    while not batch.is_last:
        batch = take_batch(stream, most, most_bytes)
        refuse_stale(batch, await apply(batch.writes))


def decide_writes(
    writes: Iterable[DocumentWrite], before: Mapping[Name, int]
) -> tuple[Versions, dict[Name, DocumentWrite]]:
    """The answers, and the last current write of each document. Each write sees those before it.

    ``before`` has the versions of those documents that exist.
    """
    known: dict[Name, int | None] = dict(before)
    current: dict[Name, DocumentWrite] = {}
    versions: Versions = []
    for write in writes:
        name = write[:2]
        is_current = known.get(name) == write.expected
        versions.append(write.next_version if is_current else None)
        if is_current:
            current[name] = write
            known[name] = write.next_version or None
    return versions, current


def refuse_stale(batch: Batch, versions: Versions) -> None:
    """Raise StaleVersionError for the first write that was not current, or the stream's error."""
    if None in versions:
        collection, key, expected, _ = batch.writes[versions.index(None)]
        raise StaleVersionError(collection, key, expected)
    if batch.error is not None:
        raise batch.error


async def find_document(store: DocumentStore, collection: str, key: str) -> Document | None:
    """The document with that key."""
    return (await store.read(collection, [key])).get(key)


def decode_body(document: Document | None, kind: type[Value], default: Default) -> Value | Default:
    """The decoded document; the default if it is missing or cannot be read."""
    if document is None:
        return default
    try:
        return msgspec.json.decode(document.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return default


async def all_documents(store: DocumentStore, collection: str) -> AsyncIterator[Document]:
    """Every document of a collection, in key order."""
    async for page in store.scan(collection):
        for document in page:
            yield document


async def change_document(
    store: DocumentStore,
    collection: str,
    key: str,
    decide: Callable[[Document | None], bytes | None],
) -> None:
    """Write the body that ``decide`` returns for the present document; None removes it.

    It is decided again if others write the document meanwhile. StaleVersionError if they always do.
    """
    for _ in range(WRITE_LIMIT):
        found = await find_document(store, collection, key)
        expected = None if found is None else found.version
        write = DocumentWrite(collection, key, expected, decide(found))
        (version,) = await store.write_each([write])
        if version is not None:
            return
    raise StaleVersionError(collection, key, expected)


async def remove_documents(
    store: DocumentStore, collection: str, is_removed: Callable[[Document], bool]
) -> int:
    """Remove the documents that are to be removed; returns how many.

    A document that others write meanwhile stays.
    """
    count = 0
    async for page in store.scan(collection):
        removals = [
            DocumentWrite(collection, document.key, document.version, None)
            for document in page
            if is_removed(document)
        ]
        if removals:
            count += sum(it is not None for it in await store.write_each(removals))
    return count
