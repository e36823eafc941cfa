"""Documents in the file, read and written inside a transaction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import apsw

from rota.errors import StaleVersionError
from rota.stores.protocol import DocumentWrite, KeptDocument
from rota.stores.sql.read import read_documents, scan_page
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.session import Session

__all__ = [
    "apply_all",
    "apply_each",
    "create_documents",
    "read_documents",
    "scan_page",
    "write_all",
]

Note = Callable[[DocumentWrite, bool], None]
"""Called after each write in turn: whether it was current and has been applied."""


async def create_documents(session: Session, documents: Sequence[KeptDocument]) -> int:
    """Create those that do not exist, with their versions; how many."""
    before = session.connection.total_changes()
    await session.write(QUERIES.load_document, documents)
    return session.connection.total_changes() - before


async def write_all(session: Session, writes: Iterable[DocumentWrite]) -> None:
    """As ``apply_all``."""
    apply_all(session.connection, writes)


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
