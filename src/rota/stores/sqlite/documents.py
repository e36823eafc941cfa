"""Documents in the file: the verbs, and the writes inside a transaction."""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import apsw

from rota.errors import StaleVersionError
from rota.stores.protocol import Document, DocumentWrite, check_name, checked
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.threads import OpenFile

PAGE_LENGTH = 1000

Values = tuple[str | int, ...]
Note = Callable[[DocumentWrite, bool], None]
"""Called after each write in turn: whether it was current and has been applied."""


class DocumentVerbs(OpenFile):
    """The verbs of ``DocumentStore`` and ``TransactionalStore``."""

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """See ``DocumentStore.scan``."""
        check_name("collection", collection)
        last_key = ""
        while page := await self._read(QUERIES.scan_documents, (collection, last_key, PAGE_LENGTH)):
            last_key = page[-1].key
            yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """See ``DocumentStore.read``."""
        values = _values_of(collection, keys)
        return _by_key(await self._read(QUERIES.read_documents, values))

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """See ``DocumentStore.write_each``.

        Calls that wait at the same time share a transaction; none fails because of another.
        """
        asked = tuple(checked(writes))
        writer = self._open_writer()
        return await writer.run(lambda connection: apply_each(connection, asked), len(asked))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """See ``DocumentStore.write_all``. The writer's thread consumes the stream."""
        writer = self._open_writer()
        await writer.run_alone(lambda connection: apply_all(connection, checked(writes)))

    async def read_within(
        self, connection: Any, collection: str, keys: Sequence[str]
    ) -> dict[str, Document]:
        """As ``read``, as the caller's transaction on their own ``apsw.Connection`` sees it."""
        values = _values_of(collection, keys)
        with self._joined(connection) as joined:
            return _by_key(_select(joined, QUERIES.read_documents, values))

    async def write_within(self, connection: Any, writes: Sequence[DocumentWrite]) -> None:
        """As ``write_all``, in a transaction on the caller's own ``apsw.Connection`` to the file.

        The connection is used at once, in the caller's thread. Until the transaction ends, no one
        else can write to the file, this store included.
        """
        asked = tuple(checked(writes))
        with self._joined(connection) as joined:
            apply_all(joined, asked)

    async def _read(self, statement: str, values: Values) -> list[Document]:
        return await self._open_reader().run(
            lambda connection: _select(connection, statement, values)
        )


def _values_of(collection: str, keys: Sequence[str]) -> Values:
    check_name("collection", collection)
    for key in keys:
        check_name("key", key)
    return collection, json.dumps(keys)


def _select(connection: apsw.Connection, statement: str, values: Values) -> list[Document]:
    return list(map(Document._make, connection.execute(statement, values)))


def _by_key(documents: Iterable[Document]) -> dict[str, Document]:
    return {document.key: document for document in documents}


def apply_each(connection: apsw.Connection, writes: Iterable[DocumentWrite]) -> list[int | None]:
    """Apply those that are current; the new version of each, 0 for a removal, None for a stale."""
    versions: list[int | None] = []

    def note(write: DocumentWrite, is_current: bool) -> None:  # noqa: FBT001 - the shape of a Note
        versions.append(write.next_version if is_current else None)

    _apply(connection, writes, note)
    return versions


def apply_all(connection: apsw.Connection, writes: Iterable[DocumentWrite]) -> None:
    """Apply them as they come from the stream; StaleVersionError at the first that is stale."""

    def note(write: DocumentWrite, is_current: bool) -> None:  # noqa: FBT001 - the shape of a Note
        if not is_current:
            raise StaleVersionError(write.collection, write.key, write.expected)

    _apply(connection, writes, note)


def _apply(connection: apsw.Connection, writes: Iterable[DocumentWrite], note: Note) -> None:
    # Writes of one kind that follow each other go to SQLite as one stream, in their order.
    for statement, run in groupby(writes, key=_statement_for):
        if statement is QUERIES.has_document:
            for write in run:
                note(write, connection.execute(statement, write).fetchone() is None)
        else:
            connection.executemany(statement, _noting(connection, run, note))


def _noting(
    connection: apsw.Connection, run: Iterator[DocumentWrite], note: Note
) -> Iterator[DocumentWrite]:
    """The run, asked by SQLite for the next write when it is done with the one before."""
    for write in run:
        yield write
        note(write, connection.changes() == 1)


def _statement_for(write: DocumentWrite) -> str:
    if write.expected is None:
        return QUERIES.has_document if write.body is None else QUERIES.insert_document
    return QUERIES.remove_document if write.body is None else QUERIES.update_document
