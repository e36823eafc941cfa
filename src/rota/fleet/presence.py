"""Signs of life: each process keeps one document in the store that says it is alive."""

from collections.abc import Callable

from rota.stores.protocol import Document, DocumentStore, DocumentWrite


class SignOfLife:
    """The document of one process in a collection that all its peers share."""

    def __init__(self, store: DocumentStore, collection: str, name: str) -> None:
        self._store = store
        self._collection = collection
        self._name = name
        self._version: int | None = None
        self._was_shown = False

    async def show(self, body: bytes) -> None:
        """Write the document, also if a peer removed it or the last answer was lost."""
        self._was_shown = True
        if not await self._write(body):
            await self._reread()
            await self._write(body)

    async def withdraw(self) -> None:
        """Remove the document, so that peers see at once that the process is gone."""
        if not self._was_shown:
            return
        await self._reread()
        if self._version is not None:
            await self._write(None)

    async def _write(self, body: bytes | None) -> bool:
        write = DocumentWrite(self._collection, self._name, self._version, body)
        (version,) = await self._store.write_each([write])
        if version is not None:
            self._version = version or None
        return version is not None

    async def _reread(self) -> None:
        found = await self._store.read(self._collection, [self._name])
        self._version = found[self._name].version if found else None


async def sweep(store: DocumentStore, collection: str, is_gone: Callable[[Document], bool]) -> int:
    """Remove the documents of processes that are gone; returns how many.

    A process that shows itself meanwhile keeps its document.
    """
    removed_count = 0
    async for page in store.scan(collection):
        removals = [
            DocumentWrite(collection, document.key, document.version, None)
            for document in page
            if is_gone(document)
        ]
        if removals:
            removed_count += sum(it is not None for it in await store.write_each(removals))
    return removed_count
