"""The store in a MongoDB database."""

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any, Self

from rota.errors import StoreUnavailableError, UnsupportedConnectionError
from rota.stores.kernel.records import check_portion
from rota.stores.mongo.address import MongoSettings
from rota.stores.mongo.connection import Connection
from rota.stores.mongo.documents import verbs as documents
from rota.stores.mongo.jobs.verbs import NO_TRANSACTIONS, JobVerbs
from rota.stores.mongo.records.dumping import dump
from rota.stores.mongo.records.loading import load
from rota.stores.mongo.schema.preparation import prepare
from rota.stores.mongo.translation import NOTHING_WRITTEN
from rota.stores.protocol import (
    Document,
    DocumentWrite,
    Portion,
    Reach,
    Record,
    check_name,
    checked,
)
from rota.triggers.zone import to_utc


class MongoStore(JobVerbs):
    """Remembers documents and jobs in a database, for every process that can reach it.

    A write that has been handed over is carried out even when its caller is cancelled while
    waiting for it. A store belongs to the process and the event loop that opened it.
    """

    reach = Reach.NETWORK

    @classmethod
    async def open(cls, settings: MongoSettings) -> Self:
        """The store in a database, which is made if there is none."""
        connection = await Connection.open(settings)
        try:
            await connection.run(lambda: prepare(connection))
        except BaseException:
            await connection.close()
            raise
        return cls(connection, settings)

    async def read_clock(self) -> datetime | None:
        """The server's clock."""
        self._refuse_when_unusable()
        return await self._connection.read_clock()

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """All documents in key order; each page is as of the moment it is read."""
        check_name("collection", collection)
        self._refuse_when_unusable()
        async for page in documents.scan(self._gateway, collection):
            yield page
            self._refuse_when_unusable()

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """The documents that exist among ``keys``, as of one moment."""
        self._refuse_when_unusable()
        check_name("collection", collection)
        for key in keys:
            check_name("key", key)
        named = tuple(keys)
        return await self._connection.run(lambda: documents.read(self._gateway, collection, named))

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """Apply each write that is still current; see the protocol."""
        self._refuse_when_unusable()
        accepted = tuple(checked(writes))
        if not accepted:
            return []
        run = self._connection.run if len(accepted) == 1 else self._connection.run_alone
        return await run(lambda: documents.write_each(self._gateway, accepted))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """Apply all writes or none; see the protocol."""
        self._refuse_when_unusable()
        if not await self._connection.run_alone(lambda: documents.write_all(self._gateway, writes)):
            label = self._settings.label
            raise StoreUnavailableError(
                f"The store {label} is not available: others needed the same documents first",
                {"store": label, "reason": "busy", "outcome": NOTHING_WRITTEN},
            )

    async def read_within(
        self,
        connection: Any,  # noqa: ARG002 - as the protocol has it
        collection: str,  # noqa: ARG002 - as the protocol has it
        keys: Sequence[str],  # noqa: ARG002 - as the protocol has it
    ) -> dict[str, Document]:
        """Refused: transactions over several documents are not used."""
        raise UnsupportedConnectionError(NO_TRANSACTIONS)

    async def write_within(
        self,
        connection: Any,  # noqa: ARG002 - as the protocol has it
        writes: Sequence[DocumentWrite],  # noqa: ARG002 - as the protocol has it
    ) -> None:
        """Refused: transactions over several documents are not used."""
        raise UnsupportedConnectionError(NO_TRANSACTIONS)

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """A portion of everything that is kept; see the protocol."""
        self._refuse_when_unusable()
        return await dump(self._connection, cursor, check_portion(limit))

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """Keep records as they are, each in one write; see the protocol."""
        self._refuse_when_unusable()
        now, asked = to_utc(now, "now"), tuple(records)
        return await self._connection.run(lambda: load(self._gateway, asked, now))

    async def _release(self) -> None:
        await self._connection.close()
