"""The mark that a store bears while it is being copied into: whoever opens it is told.

It is a document, so that it is written and removed as safely as anything else. It says where the
copy comes from and how far it has come; with it, a copy that was cut off can go on.
"""

from typing import Self

import msgspec
from msgspec.structs import replace

from rota.errors import CopyRefusedError, CopyUnfinishedError, StoreUnavailableError
from rota.stores.protocol import DocumentStore, DocumentWrite

UNFINISHED = "unfinished-copy"
"""The collection; there is one document in it, and none in a store that is whole."""

_KEY = "target"


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    """How far the copy has come. ``is_copied``: all is there, and is to be compared."""

    source: str
    cursor: str | None = None
    copied_count: int = 0
    is_copied: bool = False


async def refuse_unfinished(store: DocumentStore) -> None:
    """CopyUnfinishedError when a copy into this store was begun and not finished."""
    found = (await store.read(UNFINISHED, [_KEY])).get(_KEY)
    if found is not None:
        raise CopyUnfinishedError(_decode(found.body).source)


class MarkedTarget:
    """A store that is being copied into, by one copy at a time."""

    def __init__(self, store: DocumentStore, mark: _Mark, version: int) -> None:
        """Hold what ``begin`` has found; the version is 0 when there was nothing."""
        self._store = store
        self._mark = mark
        self._version = version
        self.is_resumed = version > 0

    @classmethod
    async def begin(cls, store: DocumentStore, source: str) -> Self:
        """Mark the store, or take over the mark of a copy from the same source that was cut off."""
        found = (await store.read(UNFINISHED, [_KEY])).get(_KEY)
        mark = _Mark(source=source) if found is None else _decode(found.body)
        if mark.source != source:
            raise CopyRefusedError(
                f"A copy from {mark.source} into the target was begun and is not finished: repeat "
                "that one, or empty the target",
                {"source": mark.source},
            )
        target = cls(store, mark, 0 if found is None else found.version)
        await target._write(mark)
        return target

    @property
    def cursor(self) -> str | None:
        """Where the source is to be gone on with."""
        return self._mark.cursor

    @property
    def copied_count(self) -> int:
        return self._mark.copied_count

    @property
    def is_copied(self) -> bool:
        return self._mark.is_copied

    async def advance(self, cursor: str | None, count: int) -> None:
        """Note that so many more are there; without a cursor they are all."""
        copied_count = self._mark.copied_count + count
        await self._write(
            replace(self._mark, cursor=cursor, copied_count=copied_count, is_copied=cursor is None)
        )

    async def finish(self) -> None:
        """Remove the mark: from now on the store is one like any other.

        Where the connection is lost on the way, it is looked whether the mark is still there.
        """
        try:
            await self._put(None)
        except StoreUnavailableError:
            if (await self._store.read(UNFINISHED, [_KEY])).get(_KEY) is not None:
                await self._put(None)

    async def _write(self, mark: _Mark) -> None:
        await self._put(msgspec.json.encode(mark))
        self._mark = mark

    async def _put(self, body: bytes | None) -> None:
        write = DocumentWrite(UNFINISHED, _KEY, self._version or None, body)
        (version,) = await self._store.write_each([write])
        if version is None:
            raise CopyRefusedError("Another copy into the target is under way; this one ends here")
        self._version = version


def _decode(body: bytes) -> _Mark:
    try:
        return msgspec.json.decode(body, type=_Mark)
    except msgspec.DecodeError:  # of a version that is to come: nobody else writes it
        return _Mark(source="another store")
