"""The verbs of ``DocumentStore`` on a server."""

from collections.abc import AsyncIterator, Iterable, Sequence
from secrets import token_hex
from typing import Any

from rota.errors import (
    InvalidInputError,
    StaleVersionError,
    StoreUnavailableError,
    UnsupportedConnectionError,
)
from rota.stores.naming import check_name
from rota.stores.opened import ClosableStore
from rota.stores.protocol import Document, DocumentWrite, checked
from rota.stores.redis.database import Database
from rota.stores.redis.scripts import load_script
from rota.stores.redis.translation import NOTHING_WRITTEN, put_in_doubt

PAGE_LENGTH = 1000
PAGE_SIZE = 4 << 20
"""Bytes after which a page ends."""

WRITE_COUNT = 1000
WRITE_SIZE = 8 << 20
"""Writes and bytes of a stream that are sent at once."""

WRITTEN_AT_ONCE = 5_000
"""Writes that one script of ``write_each`` carries out."""

MOST_WRITES = 100_000
"""Writes of which ``write_all`` applies all or none: that is one script in the end."""

GATHERED_FOR = 3600
"""Seconds after which the server forgets a stream that nobody has finished."""

NO_TRANSACTION = "a transaction of Redis neither waits for an answer nor can be undone"

_END = "\x01"
"""Comes after the NUL that ends a collection's name: all its documents are before it."""

_LOST = b"lost"

READ = load_script(__package__, "read")
SCAN = load_script(__package__, "scan")
WRITE_EACH = load_script(__package__, "write_each")
GATHER = load_script(__package__, "gather")
WRITE_ALL = load_script(__package__, "write_all")


class DocumentVerbs(ClosableStore):
    """Documents, for every process that can reach the server.

    A write that has been handed over is carried out even when its caller is cancelled while
    waiting for it.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """All documents in key order; each page is as of the moment it is read."""
        check_name("collection", collection)
        last, has_more = f"{collection}\0", True
        while has_more:
            self._refuse_when_unusable()
            arguments = (last, collection + _END, PAGE_LENGTH, PAGE_SIZE)
            reply = await self._database.read(SCAN, self._document_keys, arguments)
            has_more, (names, versions, bodies) = bool(reply[0]), reply[1:]
            keys = [name.decode().partition("\0")[2] for name in names]
            page = list(map(Document, keys, map(int, versions), bodies))
            if page:
                last = f"{collection}\0{page[-1].key}"
                yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """The documents that exist among ``keys``, as of one moment."""
        self._refuse_when_unusable()
        check_name("collection", collection)
        for key in keys:
            check_name("key", key)
        names = [f"{collection}\0{key}" for key in keys]
        versions, bodies = await self._database.read(READ, self._document_keys, names)
        found = zip(keys, versions, bodies, strict=True)
        return {key: Document(key, int(at), body) for key, at, body in found if at is not None}

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """Apply each write that is still current; see the protocol."""
        self._refuse_when_unusable()
        arguments = [part for write in checked(writes) for part in _parts(write)]
        answers: list[int | None] = []
        for at in range(0, len(arguments), WRITTEN_AT_ONCE * 4):
            part = arguments[at : at + WRITTEN_AT_ONCE * 4]
            try:
                answers += await self._database.write(WRITE_EACH, self._document_keys, part)
            except StoreUnavailableError as error:
                raise (put_in_doubt(error) if at else error) from error
        return answers

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """Apply all writes or none, up to MOST_WRITES; see the protocol.

        A long stream is gathered on the server, out of everybody's sight, until it is complete.
        """
        self._refuse_when_unusable()
        gathering = _Gathering(self._database)
        try:
            for write in checked(writes):
                await gathering.add(write)
        except Exception:
            # A write that was stale comes before whatever stopped the stream behind it.
            await gathering.end(is_judged_only=True)
            raise
        await gathering.end(is_judged_only=False)

    async def read_within(
        self,
        connection: Any,  # noqa: ARG002 - as the protocol has it
        collection: str,  # noqa: ARG002 - as the protocol has it
        keys: Sequence[str],  # noqa: ARG002 - as the protocol has it
    ) -> dict[str, Document]:
        """Refused: a transaction of Redis cannot be looked into before it is carried out."""
        raise UnsupportedConnectionError(NO_TRANSACTION)

    async def write_within(
        self,
        connection: Any,  # noqa: ARG002 - as the protocol has it
        writes: Sequence[DocumentWrite],  # noqa: ARG002 - as the protocol has it
    ) -> None:
        """Refused: a transaction of Redis cannot be undone once a write in it was stale."""
        raise UnsupportedConnectionError(NO_TRANSACTION)

    @property
    def _document_keys(self) -> tuple[str, ...]:
        return self._database.keys.documents


class _Gathering:
    """A stream of writes on its way: what is too much to be sent at once waits on the server."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._key = f"{database.keys.stream}:{token_hex(8)}"
        self._parts: list[Any] = []
        self._size = 0
        self._count = 0
        self._gathered_count = 0

    async def add(self, write: DocumentWrite) -> None:
        self._count += 1
        if self._count > MOST_WRITES:
            raise InvalidInputError(
                f"Redis applies up to {MOST_WRITES:,} writes in one call of write_all, and these "
                "are more: write them in parts",
                {"field": "writes", "limit": MOST_WRITES},
            )
        self._parts += _parts(write)
        self._size += len(write.body or b"")
        if self._size >= WRITE_SIZE or len(self._parts) >= WRITE_COUNT * 4:
            await self._database.write(GATHER, [self._key], [GATHERED_FOR, *self._parts])
            self._gathered_count += len(self._parts)
            self._parts, self._size = [], 0

    async def end(self, *, is_judged_only: bool) -> None:
        """Write all or, when one is stale, nothing; or only say which one is."""
        keys = (*self._database.keys.documents, self._key)
        arguments = ("1" if is_judged_only else "", self._gathered_count, *self._parts)
        stale = await self._database.write(WRITE_ALL, keys, arguments)
        if stale == _LOST:
            if not is_judged_only:
                raise _lost(self._database.settings.label)
        elif stale is not None:
            name, expected = stale
            collection, _, key = name.decode().partition("\0")
            raise StaleVersionError(collection, key, int(expected) if expected else None)


def _lost(label: str) -> StoreUnavailableError:
    """A part of the stream had not reached the replica that has taken over, or it took too long."""
    reason = "the server has lost a part of what was to be written together"
    return StoreUnavailableError(
        f"The store {label} is not available: {reason}",
        {"store": label, "reason": reason, "outcome": NOTHING_WRITTEN},
    )


def _parts(write: DocumentWrite) -> tuple[str | int | bytes, ...]:
    """A write as the scripts take it."""
    return (
        f"{write.collection}\0{write.key}",
        "" if write.expected is None else write.expected,
        "1" if write.body is None else "",
        write.body or b"",
    )
