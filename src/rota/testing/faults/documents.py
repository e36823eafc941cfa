"""The verbs of documents, struck by faults."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from rota.stores.protocol import Document, DocumentWrite, TransactionalStore
from rota.testing.faults.striking import Striker


class DocumentVerbs:
    """As the other store, unless struck."""

    _striker: Striker
    _documents: TransactionalStore

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """The other store's pages, each as a call of its own."""
        pages = self._documents.scan(collection)
        while page := await self._striker.suffer("scan", lambda: _next_page(pages)):
            yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        return await self._striker.suffer("read", lambda: self._documents.read(collection, keys))

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        return await self._striker.suffer("write_each", lambda: self._documents.write_each(writes))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        await self._striker.suffer("write_all", lambda: self._documents.write_all(writes))

    async def read_within(
        self, connection: Any, collection: str, keys: Sequence[str]
    ) -> dict[str, Document]:
        return await self._striker.suffer(
            "read_within", lambda: self._documents.read_within(connection, collection, keys)
        )

    async def write_within(self, connection: Any, writes: Sequence[DocumentWrite]) -> None:
        await self._striker.suffer(
            "write_within", lambda: self._documents.write_within(connection, writes)
        )


async def _next_page(pages: AsyncIterator[Sequence[Document]]) -> Sequence[Document]:
    async for page in pages:
        return page
    return ()
