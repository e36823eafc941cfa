"""The store in a PostgreSQL database."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Self

from rota.errors import StoreClosedError, StoreUnavailableError
from rota.stores.naming import check_name, checked
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.database import Database
from rota.stores.postgres.documents.writer import Writer
from rota.stores.postgres.documents.writes import write_all
from rota.stores.postgres.jobs.verbs import JobVerbs
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.session import Session
from rota.stores.protocol import Document, DocumentWrite, Reach

PAGE_LENGTH = 1000


class PostgresStore(JobVerbs):
    """Remembers documents and jobs in a database, for every process that can reach it.

    A write that has been handed over is carried out even when its caller is cancelled while
    waiting for it. A store belongs to the process and the event loop that opened it.
    """

    reach = Reach.NETWORK

    def __init__(self, database: Database, settings: PostgresSettings) -> None:
        """Put a store on what ``open`` has opened."""
        super().__init__(database, settings)
        self._writer = Writer(database)
        self._process_id = os.getpid()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, settings: PostgresSettings) -> Self:
        """The store in a schema of a database; the schema is made if there is none."""
        return cls(await Database.open(settings), settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """All documents in key order; each page is as of the moment it is read."""
        check_name("collection", collection)
        page_length, last_key = PAGE_LENGTH, ""
        while page_length == PAGE_LENGTH:
            page = await self._select(QUERIES.scan_page, collection, last_key, PAGE_LENGTH)
            page_length = len(page)
            if page:
                last_key = page[-1].key
                yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """The documents that exist among ``keys``, as of one moment."""
        check_name("collection", collection)
        for key in keys:
            check_name("key", key)
        found = await self._select(QUERIES.read_keys, collection, list(keys))
        return {document.key: document for document in found}

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """Apply each write that is still current; see the protocol.

        Calls that wait at the same time share a transaction; none fails because of another.
        """
        self._refuse_when_unusable()
        accepted = tuple(checked(writes))
        return await self._writer.write_each(accepted) if accepted else []

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """Apply all writes or none; see the protocol."""
        self._refuse_when_unusable()
        await self._database.run(lambda session: write_all(session, writes))

    async def close(self) -> None:
        """Let the connections go once the calls under way are done; closing twice is no error."""
        self._refuse_in_forked_child()
        if self._closing is None:
            self._closing = asyncio.create_task(self._release())
        if not self._closing.done():
            await asyncio.shield(self._closing)

    async def _release(self) -> None:
        await self._notices.close()
        await self._writer.close()
        await self._database.close()

    async def _select(self, statement: str, *arguments: str | int | list[str]) -> list[Document]:
        async def fetch(session: Session) -> list[Document]:
            return list(map(Document._make, await session.fetch(statement, *arguments)))

        self._refuse_when_unusable()
        return await self._database.run(fetch)

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
