"""Documents on a server: writes that hold only while documents are at the expected versions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from rota.stores.documents import Batch, Name, Versions, apply_stream, decide_writes, take_batch
from rota.stores.kernel.records import PORTION_SIZE
from rota.stores.protocol import DocumentWrite, KeptDocument
from rota.stores.sql.read import read_documents, scan_page
from rota.stores.sql.server import ServerSession

__all__ = ["create_documents", "read_documents", "scan_page", "write_all", "write_each"]

STREAM_LENGTH = 500
"""How many writes, of up to 4 MiB in all, are applied at a time."""


async def create_documents(session: ServerSession, documents: Sequence[KeptDocument]) -> int:
    """Create those that do not exist, with their versions; how many."""
    named = {each[:2]: each for each in reversed(documents)}
    async with session.transaction():
        found = await _lock(session, named)
        new = [each for name, each in sorted(named.items()) if name not in found]
        await session.write(session.queries.create_documents, new)
    return len(new)


async def write_each(session: ServerSession, writes: Sequence[DocumentWrite]) -> Versions:
    """Apply the writes that are current; see the protocol."""
    versions = Versions()
    async with session.transaction():
        for at in range(0, len(writes), STREAM_LENGTH):
            versions += await _apply(session, writes[at : at + STREAM_LENGTH])
    return versions


async def write_all(
    session: ServerSession, writes: Iterable[DocumentWrite], first: Batch | None = None
) -> None:
    """Apply the writes as they come from the stream, all or none.

    ``first`` are those that were taken from the stream already.
    """
    async with session.transaction():
        apply = partial(_apply, session)
        await apply_stream(iter(writes), STREAM_LENGTH, PORTION_SIZE, apply, first)


def next_batch(stream: Iterator[DocumentWrite]) -> Batch:
    """The next writes, held in memory and applied at a time."""
    return take_batch(stream, STREAM_LENGTH, PORTION_SIZE)


async def _apply(session: ServerSession, writes: Sequence[DocumentWrite]) -> Versions:
    """Apply the writes that are current.

    What exists is locked first: others that write the same wait, instead of meeting in a deadlock.
    What a write expects to be absent is created, with a version that no document has: until the
    transaction ends, no other program can create it.
    """
    queries = session.queries
    locked = await _lock(session, {write[:2] for write in writes})
    absent = {write[:2] for write in writes if write.expected is None} - locked.keys()
    await session.write(queries.create_documents, [(*name, 0, b"") for name in sorted(absent)])
    if absent:
        locked |= await _lock(session, absent)
    before = {name: version for name, version in locked.items() if version}
    versions, current = decide_writes(writes, before)
    kept = [
        (*one[:2], one.next_version, one.body) for one in current.values() if one.body is not None
    ]
    await session.write(queries.change_documents, sorted(kept))
    removed = _by_collection(name for name, one in current.items() if one.body is None)
    for collection, keys in removed.items():
        await session.fetch(queries.remove_documents, keys=keys, collection=collection)
    return versions


async def _lock(session: ServerSession, names: Iterable[Name]) -> dict[Name, int]:
    """The versions of those that exist."""
    found: dict[Name, int] = {}
    for collection, keys in _by_collection(names).items():
        statement = session.queries.lock_documents
        rows = await session.fetch(statement, keys=keys, collection=collection)
        found |= {(collection, key): version for key, version in rows}
    return found


def _by_collection(names: Iterable[Name]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for collection, key in sorted(names):
        found[collection].append(key)
    return found
