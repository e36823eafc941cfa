"""The store in a PostgreSQL database."""

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self

from rota.jobs import Job, JobId
from rota.stores.kernel.records import check_portion
from rota.stores.naming import check_name
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.database import Database
from rota.stores.postgres.documents.writer import Writer
from rota.stores.postgres.documents.writes import write_all
from rota.stores.postgres.jobs.connections.foreign import ForeignStatements, statements_on
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.reading import find_dependents
from rota.stores.postgres.jobs.verbs import JobVerbs
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.schema.inspection.survey import survey_database
from rota.stores.postgres.schema.records.dumping import dump
from rota.stores.postgres.schema.records.loading import load
from rota.stores.postgres.translation import translated
from rota.stores.protocol import (
    Document,
    DocumentWrite,
    Portion,
    QueueDepth,
    Reach,
    Record,
    check_count,
    checked,
)
from rota.triggers.zone import to_utc

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

    @classmethod
    async def open(cls, settings: PostgresSettings) -> Self:
        """The store in a schema of a database; the schema is made if there is none."""
        return cls(await Database.open(settings), settings)

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """All documents in key order; each page is as of the moment it is read."""
        check_name("collection", collection)
        page_length, last_key = PAGE_LENGTH, ""
        while page_length == PAGE_LENGTH:
            self._refuse_when_unusable()
            page = await self._database.run(partial(_scan_page, collection, last_key))
            page_length = len(page)
            if page:
                last_key = page[-1].key
                yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """The documents that exist among ``keys``, as of one moment."""
        self._refuse_when_unusable()
        _check_names(collection, keys)
        return await self._database.run(lambda session: _read(session, collection, keys))

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

    async def read_within(
        self, connection: Any, collection: str, keys: Sequence[str]
    ) -> dict[str, Document]:
        """As ``read``, as the caller's transaction sees it."""
        _check_names(collection, keys)
        statements = self._join(connection)
        with translated(self._settings.label):
            return await _read(statements, collection, keys)

    async def write_within(self, connection: Any, writes: Sequence[DocumentWrite]) -> None:
        """As ``write_all``, in the caller's transaction; see the protocol.

        ``connection`` is one of asyncpg or psycopg 3, to the database of the store. How long it
        waits for other transactions is for the caller's ``lock_timeout`` to say.
        """
        asked = tuple(checked(writes))
        statements = self._join(connection)
        with translated(self._settings.label):
            await write_all(statements, asked)

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """The tenant's jobs that depend on one of these, by id."""
        check_count(limit)
        named = tuple(job_ids)
        return await self._repeat(lambda session: find_dependents(session, tenant, named, limit))

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """How full each queue is, over all tenants or for one."""
        now = to_utc(now, "now")
        return await self._repeat(lambda session: survey_database(session, now, tenant))

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """A portion of everything that is kept; see the protocol."""
        self._refuse_when_unusable()
        return await dump(self._database, cursor, check_portion(limit))

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """Keep records as they are, all of them in one step; see the protocol."""
        now = to_utc(now, "now")
        return await self._repeat(lambda session: load(session, records, now))

    async def _release(self) -> None:
        await self._notices.close()
        await self._writer.close()
        await self._database.close()

    def _join(self, connection: Any) -> ForeignStatements:
        self._refuse_when_unusable()
        return statements_on(connection, self._settings.schema)


def _check_names(collection: str, keys: Sequence[str]) -> None:
    check_name("collection", collection)
    for key in keys:
        check_name("key", key)


async def _scan_page(collection: str, last_key: str, statements: Statements) -> list[Document]:
    rows = await statements.fetch(QUERIES.scan_page, collection, last_key, PAGE_LENGTH)
    return list(map(Document._make, rows))


async def _read(
    statements: Statements, collection: str, keys: Sequence[str]
) -> dict[str, Document]:
    rows = await statements.fetch(QUERIES.read_keys, collection, list(keys))
    return {document.key: document for document in map(Document._make, rows)}
