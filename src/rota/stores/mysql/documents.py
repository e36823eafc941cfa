"""Documents: reads, and writes that hold only while documents are at the expected versions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from asyncmy import errors

from rota.stores.documents import Batch, refuse_stale, take_batch
from rota.stores.kernel.records import PORTION_SIZE
from rota.stores.mysql.connections import DUPLICATE, TRY_COUNT, Session, code_of
from rota.stores.mysql.queries import QUERIES
from rota.stores.protocol import DocumentWrite, checked
from rota.stores.sql.read import read_documents, scan_page

__all__ = ["next_batch", "read_documents", "replay", "scan_page", "write_all", "write_each"]

STREAM_LENGTH = 500
"""How many writes, of up to 4 MiB in all, are applied at a time."""

Name: TypeAlias = tuple[str, str]


async def write_each(session: Session, writes: Sequence[DocumentWrite]) -> list[int | None]:
    """Apply the writes that are current; see the protocol."""
    stream, versions, is_last = iter(writes), list[int | None](), False
    async with session.transaction():
        while not is_last:
            batch = next_batch(stream)
            versions += await _apply(session, batch.writes)
            is_last = batch.is_last
    return versions


async def write_all(session: Session, writes: Iterable[DocumentWrite]) -> None:
    """Apply the writes as they come from the stream, all or none."""
    stream, is_last = checked(writes), False
    async with session.transaction():
        while not is_last:
            batch = next_batch(stream)
            refuse_stale(batch, await _apply(session, batch.writes))
            is_last = batch.is_last


def next_batch(stream: Iterator[DocumentWrite]) -> Batch:
    """The next writes, held in memory and applied at a time."""
    return take_batch(stream, STREAM_LENGTH, PORTION_SIZE)


def replay(batch: Batch, rest: Iterator[DocumentWrite]) -> Iterator[DocumentWrite]:
    """The stream again from its beginning, of which this batch was taken."""
    yield from batch.writes
    if batch.error is not None:
        raise batch.error
    yield from rest


async def _apply(session: Session, writes: Sequence[DocumentWrite]) -> list[int | None]:
    if not writes:
        return []
    for _ in range(TRY_COUNT - 1):
        try:
            return await _apply_once(session, writes)
        except errors.IntegrityError as error:  # another program has created one of them meanwhile
            if code_of(error) != DUPLICATE:
                raise
    return await _apply_once(session, writes)


async def _apply_once(session: Session, writes: Sequence[DocumentWrite]) -> list[int | None]:
    """The new version of each; IntegrityError, and nothing written, if one was created meanwhile.

    A write that only demands that a document does not exist creates and removes it: until the
    transaction ends, no other program can create it.
    """
    before = await _lock(session, writes)
    after = dict(before)
    current: dict[Name, DocumentWrite] = {}
    versions: list[int | None] = []
    for write in writes:
        name = write[:2]
        is_current = after.get(name) == write.expected
        versions.append(write.next_version if is_current else None)
        if is_current:
            current[name] = write
            after.pop(name, None)
            if write.body is not None:
                after[name] = write.next_version
    rows = [(*name, after.get(name, 1), one.body or b"") for name, one in sorted(current.items())]
    async with session.savepoint("rota_new"):
        await session.write(
            QUERIES.create_documents, [row for row in rows if row[:2] not in before]
        )
    await session.write(QUERIES.change_documents, [row for row in rows if row[:2] in before])
    for collection, keys in _by_collection(name for name in current if name not in after).items():
        await session.fetch(QUERIES.remove_documents, keys=sorted(keys), collection=collection)
    return versions


async def _lock(session: Session, writes: Sequence[DocumentWrite]) -> dict[Name, int]:
    """The versions of the documents that exist."""
    found: dict[Name, int] = {}
    for collection, keys in sorted(_by_collection(write[:2] for write in writes).items()):
        rows = await session.fetch(QUERIES.lock_documents, keys=sorted(keys), collection=collection)
        found |= {(collection, key): version for key, version in rows}
    return found


def _by_collection(names: Iterable[Name]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for collection, key in names:
        found[collection].add(key)
    return found
