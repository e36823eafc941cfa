"""The verbs of ``DocumentStore`` on a server."""

from collections.abc import AsyncIterator, Iterable, Sequence
from secrets import token_hex
from struct import Struct
from typing import Any, NoReturn

from msgspec.msgpack import encode

from rota.errors import InvalidInputError, StaleVersionError, UnsupportedConnectionError
from rota.stores.opened import ClosableStore
from rota.stores.protocol import Document, DocumentWrite, KeptDocument, check_name, checked
from rota.stores.redis.database import RANGE, READ, Database
from rota.stores.redis.scripts import load_script
from rota.stores.redis.translation import NOTHING_WRITTEN, in_doubt_if, unavailable

PAGE_LENGTH = 1000
PAGE_SIZE = 4 << 20
"""Bytes after which a page ends."""

WRITE_COUNT = 1000
WRITE_SIZE = 8 << 20
"""Writes and bytes of a stream that are sent at once."""

WRITTEN_AT_ONCE = 5_000
"""Writes that one script of ``write_each`` carries out."""

MOST_WRITES = 250_000
"""Writes of which ``write_all`` applies all or none: in the end that is one script."""

GATHERED_FOR = 3600
"""Seconds after which the server forgets an unfinished stream."""

NO_TRANSACTION = "a transaction of Redis neither waits for an answer nor can be undone"

WRITE_EACH = load_script("write_each")
GATHER = load_script("gather")
WRITE_ALL = load_script("write_all")

_LOST = b"lost"
_LENGTH, _LIST, _TEXT = Struct(">BI"), 0xDD, 0xDB


class DocumentVerbs(ClosableStore):
    """Documents, for every process that can reach the server.

    A write that was sent is carried out even if its caller is cancelled while waiting for it.
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """All documents in key order; each page is as of the moment it is read."""
        check_name("collection", collection)
        key = ""
        while True:
            self._refuse_when_unusable()
            found = await scan_documents(
                self._database, f"({collection}\0{key}", f"({collection}\1", PAGE_LENGTH, PAGE_SIZE
            )
            if not found:
                return
            key = found[-1].key
            size = sum(len(each.body) + len(str(each.version)) for each in found)
            yield [Document(each.key, each.version, each.body) for each in found]
            if len(found) < PAGE_LENGTH and size <= PAGE_SIZE:
                return

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """The documents that exist among ``keys``, as of one moment."""
        self._refuse_when_unusable()
        check_name("collection", collection)
        for key in keys:
            check_name("key", key)
        names = [f"{collection}\0{key}" for key in keys]
        hashes = self._database.keys.documents[1:]
        shown = await self._database.run(READ, (len(names), *names), (hashes[0], *hashes))
        _, versions, bodies = shown
        found = zip(keys, versions, bodies, strict=True)
        return {key: Document(key, int(at), body) for key, at, body in found if at is not None}

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """Apply each write that is still current; see the protocol."""
        self._refuse_when_unusable()
        all_writes = list(checked(writes))
        answers: list[int | None] = []
        for at in range(0, len(all_writes), WRITTEN_AT_ONCE):
            part = all_writes[at : at + WRITTEN_AT_ONCE]
            texts = [text for write in part for text in _encode(write)]
            with in_doubt_if(at):
                are_written = await write_documents(self._database, texts)
            pairs = zip(part, are_written, strict=True)
            answers += [write.next_version if is_written else None for write, is_written in pairs]
        return answers

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """Apply all writes or none, up to MOST_WRITES; see the protocol.

        A long stream is gathered on the server, invisible to others, until it is complete.
        """
        self._refuse_when_unusable()
        gathering = _Gathering(self._database)
        try:
            for write in checked(writes):
                await gathering.add(write)
        except Exception:
            # A stale write comes before the error that stopped the stream behind it.
            await gathering.end(is_judged_only=True)
            raise
        await gathering.end(is_judged_only=False)

    async def _create_documents(self, documents: Sequence[KeptDocument]) -> int:
        self._refuse_when_unusable()
        texts: list[Any] = []
        for each in documents:
            texts += f"{each.collection}\0{each.key}", "", each.version, each.body
        return sum(await write_documents(self._database, texts))

    async def _refuse_within(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: a transaction of Redis shows nothing before its end, and cannot be undone."""
        raise UnsupportedConnectionError(NO_TRANSACTION)

    insert_within = read_within = write_within = _refuse_within


async def scan_documents(
    database: Database, first: str, last: str, limit: int, size: int
) -> list[KeptDocument]:
    """Documents in a range of full names, as ZRANGEBYLEX takes it; none only behind the last."""
    arguments = (0, limit, size, first, last)
    shown = await database.run(RANGE, arguments, database.keys.documents)
    found: list[KeptDocument] = []
    for name, version, body in zip(*shown, strict=True):
        collection, _, key = name.decode().partition("\0")
        found.append(KeptDocument(collection, key, int(version), body))
    return found


async def write_documents(database: Database, texts: Sequence[Any]) -> list[int]:
    """Run ``write_each.lua``: 1 for each write that was current."""
    written: list[int] = await database.run(WRITE_EACH, texts, database.keys.documents)
    return written


class _Gathering:
    """A stream of writes: what is too much to be sent at once is laid aside on the server."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._key = f"{database.keys.stream}:{token_hex(8)}"
        self._writes: list[DocumentWrite] = []
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
        self._writes.append(write)
        self._size += len(write.body or b"")
        if self._size >= WRITE_SIZE or len(self._writes) >= WRITE_COUNT:
            part = _pack(self._writes)
            await self._database.run(GATHER, [GATHERED_FOR, *part], [self._key])
            self._gathered_count += len(part)
            self._writes, self._size = [], 0

    async def end(self, *, is_judged_only: bool) -> None:
        """Write all or, if one is stale, nothing; or only say which one is stale."""
        keys = (*self._database.keys.documents, self._key)
        arguments = ("1" if is_judged_only else "", self._gathered_count, *_pack(self._writes))
        stale = await self._database.run(WRITE_ALL, arguments, keys)
        if stale == _LOST:  # a replica that took over lacks a part, or the stream took too long
            if not is_judged_only:
                raise unavailable(
                    self._database.settings.label,
                    "the server has lost a part of what was to be written together",
                    NOTHING_WRITTEN,
                )
        elif stale is not None:
            name, expected = stale
            collection, _, key = name.decode().partition("\0")
            raise StaleVersionError(collection, key, int(expected) if expected else None)


def _pack(writes: Sequence[DocumentWrite]) -> tuple[bytes, bytes]:
    """A part of a stream: names, expected and next versions; and the bodies, read only to write."""
    rows = [_encode(write) for write in writes]
    heads = encode([[str(row[column]) for row in rows] for column in range(3)] if rows else [])
    bodies = [_LENGTH.pack(_TEXT, len(row[3])) + row[3] for row in rows]
    # By hand: MessagePack of the server's scripts has no binary texts.
    return heads, _LENGTH.pack(_LIST, len(rows)) + b"".join(bodies)


def _encode(write: DocumentWrite) -> tuple[str, int | str, int, bytes]:
    return (
        f"{write.collection}\0{write.key}",
        "" if write.expected is None else write.expected,
        write.next_version,
        write.body or b"",
    )
