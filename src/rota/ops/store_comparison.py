"""Compares the content of two stores, portion by portion."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from enum import Enum
from hashlib import sha256
from secrets import token_bytes
from typing import Any, Self, TypeAlias, TypeVar
from zlib import crc32

import msgspec
from msgspec.structs import replace

from rota.errors import (
    CopyRefusedError,
    CopyUnfinishedError,
    InvalidInputError,
    StoreUnavailableError,
)
from rota.stores.documents import decode_body, find_document
from rota.stores.protocol import (
    Document,
    DocumentStore,
    DocumentWrite,
    KeptDocument,
    KeptJob,
    PortableStore,
    Portion,
    Record,
)

UNFINISHED = "unfinished-copy"
"""The collection of the copy mark: one document while a copy is unfinished, otherwise empty."""

_KEY = "target"

PROBE = "copy-probe"
"""The collection of a temporary probe document. A leftover probe does no harm."""

BUCKET_COUNT = 1024
MOST_BUCKETS = 4
"""The maximum number of differing buckets whose records are compared again."""

MOST_NAMED = 10
"""The maximum number of differences reported."""

_PROBE_KEY = "target"
_OWN = (UNFINISHED, PROBE)
_MODULUS = 1 << 128


class CopyMark(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a copy. ``is_copied``: everything is copied and must be compared."""

    source: str
    cursor: str | None = None
    copied_count: int = 0
    is_copied: bool = False


async def refuse_unfinished(store: DocumentStore) -> None:
    """Raise CopyUnfinishedError when a copy into this store has not finished."""
    found = await find_document(store, UNFINISHED, _KEY)
    if found is not None:
        raise CopyUnfinishedError(_decode(found).source)


class MarkedTarget:
    """The target of a copy. Only one copy at a time can write to it."""

    def __init__(self, store: DocumentStore, mark: CopyMark, version: int) -> None:
        """Hold the mark found by ``begin``. Version 0 means there was no mark."""
        self._store = store
        self.mark = mark
        self._version = version
        self.is_resumed = version > 0

    @classmethod
    async def begin(cls, store: DocumentStore, source: str) -> Self:
        """Mark the store, or take over the mark of an interrupted copy from the same source."""
        found = await find_document(store, UNFINISHED, _KEY)
        mark = CopyMark(source=source) if found is None else _decode(found)
        if mark.source != source:
            raise CopyRefusedError(
                f"A copy from {mark.source} into the target was begun and is not finished: repeat "
                "that one, or empty the target",
                {"source": mark.source},
            )
        target = cls(store, mark, 0 if found is None else found.version)
        await target._write(mark)
        return target

    async def advance(self, cursor: str | None, count: int) -> None:
        """Record progress. Without a cursor, everything is copied."""
        copied_count = self.mark.copied_count + count
        await self._write(
            replace(self.mark, cursor=cursor, copied_count=copied_count, is_copied=cursor is None)
        )

    async def finish(self) -> None:
        """Remove the mark, so that the store can be used.

        When the connection is lost meanwhile, read the mark again to learn the outcome.
        """
        try:
            await self._put(None)
        except StoreUnavailableError:
            if await find_document(self._store, UNFINISHED, _KEY) is not None:
                await self._put(None)

    async def _write(self, mark: CopyMark) -> None:
        await self._put(msgspec.json.encode(mark))
        self.mark = mark

    async def _put(self, body: bytes | None) -> None:
        write = DocumentWrite(UNFINISHED, _KEY, self._version or None, body)
        (version,) = await self._store.write_each([write])
        if version is None:
            raise CopyRefusedError("Another copy into the target is under way; this one ends here")
        self._version = version


def _decode(document: Document) -> CopyMark:
    """The mark; one that a newer version wrote names no source."""
    return decode_body(document, CopyMark, CopyMark(source="another store"))


def without_traces(records: Sequence[Record]) -> list[Record]:
    """The records without the copy's own documents."""
    return [
        each for each in records if not (isinstance(each, KeptDocument) and each.collection in _OWN)
    ]


def content_counts(document_counts: Mapping[str, int]) -> dict[str, int]:
    """The number of documents in each collection, without the copy's own documents."""
    return {name: count for name, count in document_counts.items() if count and name not in _OWN}


async def refuse_same_store(source: DocumentStore, target: DocumentStore) -> None:
    """Raise InvalidInputError when source and target are the same store.

    Addresses cannot show this: one file or server can have several names. A probe document can.
    """
    said = token_bytes(16)
    left = await find_document(target, PROBE, _PROBE_KEY)
    (version,) = await target.write_each(
        [DocumentWrite(PROBE, _PROBE_KEY, None if left is None else left.version, said)]
    )
    try:
        heard = await find_document(source, PROBE, _PROBE_KEY)
    finally:
        await target.write_each([DocumentWrite(PROBE, _PROBE_KEY, version, None)])
    if heard is not None and heard.body == said:
        raise InvalidInputError(
            "The source and the target are the same store by two addresses; nothing was changed"
        )


_encode = msgspec.json.Encoder(order="deterministic").encode


def name_of(record: Record) -> str:
    """The name of a record in messages, unique within a store."""
    if isinstance(record, KeptDocument):
        return f'document "{record.key}" of "{record.collection}"'
    return f"job {record.job.id if isinstance(record, KeptJob) else record.job_id}"


def digest_of(record: Record) -> bytes:
    """A 32-byte digest of the record, the same in every store."""
    return sha256(_encode([type(record).__name__, *record])).digest()


def bucket_of(name: str) -> int:
    """The bucket whose digest includes the record."""
    return crc32(name.encode()) % BUCKET_COUNT


class ContentDigest:
    """Counts records by type and sums their digests."""

    def __init__(self) -> None:
        self.document_count = 0
        self.job_count = 0
        self.attempt_count = 0
        self.unreadable_count = 0
        self.sums = [0] * BUCKET_COUNT

    def add(self, records: Iterable[Record]) -> None:
        """Count these records and add their digests."""
        sums = self.sums
        for record in records:
            self._count(record)
            sums[bucket_of(name_of(record))] += int.from_bytes(digest_of(record)[:16])

    @property
    def digest(self) -> str:
        """One digest of everything counted, as 64 hexadecimal digits."""
        parts = ((each % _MODULUS).to_bytes(16) for each in self.sums)
        return sha256(b"".join(parts)).hexdigest()

    def find_differing(self, other: "ContentDigest") -> list[int]:
        """The buckets in which the two differ."""
        pairs = enumerate(zip(self.sums, other.sums, strict=True))
        return [bucket for bucket, (mine, its) in pairs if mine != its]

    def _count(self, record: Record) -> None:
        if isinstance(record, KeptDocument):
            self.document_count += 1
            return
        self.job_count += 1
        if isinstance(record, KeptJob):
            self.attempt_count += len(record.attempts)
        else:
            self.unreadable_count += 1


Portions: TypeAlias = AsyncIterator[Portion]


@asynccontextmanager
async def read_portions(
    store: PortableStore, cursor: str | None = None
) -> AsyncGenerator[Portions, None]:
    """Read portions from a cursor on. Leaving the context stops the reading."""
    async with aclosing(_read_ahead(store, cursor)) as portions:
        yield portions


async def walk_through(store: PortableStore) -> AsyncGenerator[list[Record], None]:
    """All records without the copy's own documents."""
    async with read_portions(store) as portions:
        async for portion in portions:
            yield without_traces(portion.records)


async def _read_ahead(store: PortableStore, cursor: str | None) -> AsyncGenerator[Portion, None]:
    coming = asyncio.ensure_future(store.dump(cursor))
    try:
        while True:
            portion = await coming
            if portion.cursor is None:
                yield portion
                return
            coming = asyncio.ensure_future(store.dump(portion.cursor))
            yield portion
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


Answer = TypeVar("Answer")


class Phase(Enum):
    """The phase of a copy."""

    COPYING = "copying"
    VERIFYING_SOURCE = "verifying source"
    VERIFYING_TARGET = "verifying target"


ShowProgress: TypeAlias = Callable[[Phase, int], None]
"""Called with the number of records processed since the last call."""


async def compare(
    source: PortableStore, target: PortableStore, show_progress: ShowProgress
) -> tuple[ContentDigest, list[str]]:
    """Return the source's content digest and the first differences, if any."""
    held, came = await _both(
        _sum_up(source, Phase.VERIFYING_SOURCE, show_progress),
        _sum_up(target, Phase.VERIFYING_TARGET, show_progress),
    )
    differing = held.find_differing(came)
    buckets = frozenset(differing[:MOST_BUCKETS])
    return held, await _name_differences(source, target, buckets) if buckets else []


async def _sum_up(store: PortableStore, phase: Phase, show_progress: ShowProgress) -> ContentDigest:
    content = ContentDigest()
    show_progress(phase, 0)
    async with aclosing(walk_through(store)) as walk:
        async for records in walk:
            content.add(records)
            show_progress(phase, len(records))
    return content


async def _name_differences(
    source: PortableStore, target: PortableStore, buckets: Collection[int]
) -> list[str]:
    held, came = await _both(_digest(source, buckets), _digest(target, buckets))
    differences = {
        **dict.fromkeys(held.keys() - came.keys(), "is missing in the target"),
        **dict.fromkeys(came.keys() - held.keys(), "is only in the target"),
        **{name: "differs" for name in held.keys() & came.keys() if held[name] != came[name]},
    }
    return [f"{name} {what}" for name, what in sorted(differences.items())][:MOST_NAMED] or [
        "they were equal when compared again: another program is writing to them"
    ]


async def _digest(store: PortableStore, buckets: Collection[int]) -> dict[str, bytes]:
    """The digests of the records in some buckets, by name."""
    async with aclosing(walk_through(store)) as walk:
        return {
            name: digest_of(record)
            async for records in walk
            for record in records
            if bucket_of(name := name_of(record)) in buckets
        }


async def _both(
    first: Coroutine[Any, Any, Answer], second: Coroutine[Any, Any, Answer]
) -> tuple[Answer, Answer]:
    """Run both. When one fails, cancel the other before raising."""
    tasks = [asyncio.create_task(first), asyncio.create_task(second)]
    try:
        one, other = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return one, other
