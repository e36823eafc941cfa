"""Documents in dictionaries: the executable specification of the other stores."""

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from typing import Any

from rota.errors import StaleVersionError, StoreClosedError, UnsupportedConnectionError
from rota.stores.protocol import (
    Document,
    DocumentWrite,
    KeptDocument,
    check_name,
    check_names,
    checked,
)

PAGE_LENGTH = 1000

Collections = dict[str, dict[str, Document]]


class DocumentVerbs:
    """The verbs of ``DocumentStore``. None suspends its caller."""

    def __init__(self) -> None:
        self._collections: Collections = {}
        self._version = 0
        self._is_closed = False

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """See ``DocumentStore.scan``; documents created after it began are left out."""
        self._refuse_when_closed()
        check_name("collection", collection)
        keys = iter(sorted(self._collections.get(collection, ())))
        while page_keys := list(islice(keys, PAGE_LENGTH)):
            self._refuse_when_closed()
            documents = self._collections.get(collection, {})
            page = [documents[key] for key in page_keys if key in documents]
            if page:
                yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """See ``DocumentStore.read``."""
        self._refuse_when_closed()
        check_names(collection, keys)
        documents = self._collections.get(collection, {})
        return {key: documents[key] for key in keys if key in documents}

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """See ``DocumentStore.write_each``."""
        self._refuse_when_closed()
        return [self._apply(write) for write in list(checked(writes))]

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """See ``DocumentStore.write_all``."""
        self._refuse_when_closed()
        undo: list[tuple[str, str, Document | None]] = []
        try:
            for write in checked(writes):
                undo.append((write.collection, write.key, self._find(write)))
                self._apply_or_raise(write)
        except BaseException:
            # Any error, even of the caller's iterator: put everything back.
            for collection, key, before in reversed(undo):
                self._put(collection, key, before)
            raise

    async def _refuse_within(self, *_: Any, **__: Any) -> Any:
        """Refused: there is no database whose transaction could be shared."""
        raise UnsupportedConnectionError("a store in memory takes part in no transaction")

    insert_within = read_within = write_within = _refuse_within

    async def _create_documents(self, documents: Sequence[KeptDocument]) -> int:
        self._refuse_when_closed()
        new_count = 0
        for each in documents:
            present = self._collections.setdefault(each.collection, {})
            new_count += each.key not in present
            present.setdefault(each.key, Document(*each[1:]))
        return new_count

    async def close(self) -> None:
        """Refuse all later calls; closing twice is fine."""
        self._is_closed = True

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise StoreClosedError

    def _find(self, write: DocumentWrite) -> Document | None:
        return self._collections.get(write.collection, {}).get(write.key)

    def _apply_or_raise(self, write: DocumentWrite) -> None:
        if self._apply(write) is None:
            raise StaleVersionError(write.collection, write.key, write.expected)

    def _apply(self, write: DocumentWrite) -> int | None:
        current = self._find(write)
        if (current.version if current else None) != write.expected:
            return None
        if write.body is None:
            self._put(write.collection, write.key, None)
            return 0
        version = write.next_version
        self._put(write.collection, write.key, Document(write.key, version, write.body))
        return version

    def _put(self, collection: str, key: str, document: Document | None) -> None:
        self._version += 1
        documents = self._collections.setdefault(collection, {})
        if document is None:
            documents.pop(key, None)
        else:
            documents[key] = document
