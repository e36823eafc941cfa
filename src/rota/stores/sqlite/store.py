"""The store on a SQLite file."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Self

from rota.errors import StoreClosedError, StoreUnavailableError
from rota.stores.naming import check_name, checked
from rota.stores.protocol import Document, DocumentWrite, Reach
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.reader import Reader
from rota.stores.sqlite.writer import Writer


class SqliteStore:
    """Remembers documents in one file, for every process on this host that opens it.

    A write that has been handed over is carried out even when its caller is cancelled while
    waiting for it. A store belongs to the process that opened it: a forked child is refused and
    opens its own.
    """

    reach = Reach.HOST

    def __init__(self, writer: Writer, reader: Reader) -> None:
        """Put together what ``open`` has opened."""
        self._writer = writer
        self._reader = reader
        self._process_id = os.getpid()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, settings: SqliteSettings) -> Self:
        """The store at a path; the file is made if there is none, and checked if there is."""
        writer = await Writer.open(settings)
        try:
            return cls(writer, await Reader.open(settings))
        except BaseException:
            await writer.close()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """All documents in key order; each page is as of the moment it is read."""
        check_name("collection", collection)
        last_key = ""
        while page := await self._open_reader().read_page(collection, last_key):
            last_key = page[-1].key
            yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """The documents that exist among ``keys``, as of one moment."""
        check_name("collection", collection)
        for key in keys:
            check_name("key", key)
        found = await self._open_reader().read_keys(collection, keys)
        return {document.key: document for document in found}

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """Apply each write that is still current; see the protocol.

        Calls that wait at the same time share a transaction; none fails because of another.
        """
        return await self._open_writer().write_each(tuple(checked(writes)))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """Apply all writes or none; see the protocol. The thread that writes consumes them."""
        await self._open_writer().write_all(writes)

    async def close(self) -> None:
        """Release the file once the calls under way are done; closing twice is no error."""
        self._refuse_in_forked_child()
        if self._closing is None:
            self._closing = asyncio.create_task(self._release())
        if not self._closing.done():
            await asyncio.shield(self._closing)

    async def _release(self) -> None:
        # The writer last: whoever closes a file last folds its log into it, and a reader cannot.
        await self._reader.close()
        await self._writer.close()

    def _open_reader(self) -> Reader:
        self._refuse_when_unusable()
        return self._reader

    def _open_writer(self) -> Writer:
        self._refuse_when_unusable()
        return self._writer

    def _refuse_when_unusable(self) -> None:
        self._refuse_in_forked_child()
        if self._closing is not None:
            raise StoreClosedError

    def _refuse_in_forked_child(self) -> None:
        if os.getpid() != self._process_id:
            raise StoreUnavailableError(
                f"This store was opened by process {self._process_id} and cannot be used in its "
                f"forked child {os.getpid()}: open the store again there",
                {"opened_by": self._process_id},
            )
