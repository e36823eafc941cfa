"""Documents: reads, and writes that hold only while documents are at the expected versions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from rota.stores.documents import (
    Batch,
    Name,
    Versions,
    apply_stream,
    decide_writes,
    take_batch,
)
from rota.stores.kernel.records import PORTION_SIZE
from rota.stores.mysql.connections import Session
from rota.stores.mysql.queries import QUERIES
from rota.stores.protocol import DocumentWrite, KeptDocument, checked
from rota.stores.sql.read import read_documents, scan_page

__all__ = [
    "create_documents",
    "next_batch",
    "read_documents",
    "replay",
    "scan_page",
    "write_all",
    "write_each",
]

STREAM_LENGTH = 500
"""How many writes, of up to 4 MiB in all, are applied at a time."""


async def create_documents(session: Session, documents: Sequence[KeptDocument]) -> int:
    """Create those that do not exist, with their versions; how many."""
    named = {each[:2]: each for each in reversed(documents)}
    async with session.transaction():
        found = await lock(session, named)
        new = [each for name, each in sorted(named.items()) if name not in found]
        await session.write(QUERIES.create_documents, new)
    return len(new)


async def write_each(session: Session, writes: Sequence[DocumentWrite]) -> Versions:
    """Apply the writes that are current; see the protocol."""
    versions = Versions()
    async with session.transaction():
        for at in range(0, len(writes), STREAM_LENGTH):
            versions += await _apply(session, writes[at : at + STREAM_LENGTH])
    return versions


async def write_all(session: Session, writes: Iterable[DocumentWrite]) -> None:
    """Apply the writes as they come from the stream, all or none."""
    async with session.transaction():
        apply = partial(_apply, session)
        await apply_stream(checked(writes), STREAM_LENGTH, PORTION_SIZE, apply)


def next_batch(stream: Iterator[DocumentWrite]) -> Batch:
    """The next writes, held in memory and applied at a time."""
    return take_batch(stream, STREAM_LENGTH, PORTION_SIZE)


def replay(batch: Batch, rest: Iterator[DocumentWrite]) -> Iterator[DocumentWrite]:
    """The stream again from its beginning, of which this batch was taken."""
    yield from batch.writes
    if batch.error is not None:
        raise batch.error
    yield from rest


async def _apply(session: Session, writes: Sequence[DocumentWrite]) -> Versions:
    """Apply the writes that are current.

    What exists is locked first: others that write the same wait, instead of meeting in a deadlock.
    What a write expects to be absent is created, with a version that no document has: until the
    transaction ends, no other program can create it.
    """
    locked = await lock(session, {write[:2] for write in writes})
    absent = {write[:2] for write in writes if write.expected is None} - locked.keys()
    await session.write(QUERIES.create_documents, [(*name, 0, b"") for name in sorted(absent)])
    if absent:
        locked |= await lock(session, absent)
    before = {name: version for name, version in locked.items() if version}
    versions, current = decide_writes(writes, before)
    kept = [
        (*one[:2], one.next_version, one.body) for one in current.values() if one.body is not None
    ]
    await session.write(QUERIES.change_documents, sorted(kept))
    removed = _by_collection(name for name, one in current.items() if one.body is None)
    for collection, keys in removed.items():
        await session.fetch(QUERIES.remove_documents, keys=keys, collection=collection)
    return versions


async def lock(session: Session, names: Iterable[Name]) -> dict[Name, int]:
    """The versions of those that exist."""
    found: dict[Name, int] = {}
    for collection, keys in _by_collection(names).items():
        rows = await session.fetch(QUERIES.lock_documents, keys=keys, collection=collection)
        found |= {(collection, key): version for key, version in rows}
    return found


def _by_collection(names: Iterable[Name]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for collection, key in sorted(names):
        found[collection].append(key)
    return found
