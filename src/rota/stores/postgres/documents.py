"""Documents: reads, and writes of one or several callers.

One statement changes a document at most once. So writes to the same document go one after the
other, in as many steps as the most written document has writes: almost always one.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

from rota.stores.documents import Name, Versions, apply_stream
from rota.stores.postgres.connections import Database, Session, Statements
from rota.stores.postgres.queries import QUERIES
from rota.stores.protocol import Document, DocumentWrite, KeptDocument, checked

MOST_AT_ONCE = 20_000
MOST_BYTES_AT_ONCE = 16 * 1024 * 1024
"""Within these bounds a statement ends well before its deadline, and its message fits."""

STREAM_LENGTH = 2_000
"""How many writes of a stream are held in memory at a time."""

Placed: TypeAlias = tuple[int, DocumentWrite]
"""A write and its position among those it came with."""


async def scan_page(
    statements: Statements, collection: str, after: str, limit: int
) -> list[Document]:
    """The documents after a key, in the order of keys."""
    rows = await statements.fetch(QUERIES.scan_page, collection, after, limit)
    return list(map(Document._make, rows))


async def read_documents(
    statements: Statements, collection: str, keys: Sequence[str]
) -> dict[str, Document]:
    """The documents that exist among these keys."""
    rows = await statements.fetch(QUERIES.read_keys, collection, list(keys))
    return {document.key: document for document in map(Document._make, rows)}


async def create_documents(statements: Statements, documents: Sequence[KeptDocument]) -> int:
    """Create those that do not exist, with their versions; how many."""
    columns = [list(column) for column in zip(*documents, strict=True)]
    return len(await statements.fetch(QUERIES.load_documents, *columns))


async def write_each(session: Session, writes: Sequence[DocumentWrite]) -> Versions:
    """Apply the writes that are current; see the protocol."""
    steps = plan_steps(writes)
    if len(steps) == 1 and not any(map(_only_demands_absence, writes)):
        return await _apply(session, writes, steps)  # one statement is a transaction by itself
    async with session.transaction():
        return await _apply(session, writes, steps)


async def write_calls(
    database: Database, calls: Sequence[Sequence[DocumentWrite]]
) -> list[Versions]:
    """Run ``write_each`` for several callers together."""
    writes = [write for call in calls for write in call]
    versions = iter(await database.run_repeatably(lambda session: write_each(session, writes)))
    return [list(islice(versions, len(call))) for call in calls]


async def write_all(statements: Statements, writes: Iterable[DocumentWrite]) -> None:
    """Apply the writes as they come from the stream, all or none."""

    async def apply(batch: Sequence[DocumentWrite]) -> Versions:
        return await _apply(statements, batch, plan_steps(batch))

    async with statements.transaction():
        await apply_stream(checked(writes), STREAM_LENGTH, MOST_BYTES_AT_ONCE, apply)


def plan_steps(writes: Sequence[DocumentWrite]) -> list[list[Placed]]:
    """Steps that name no document twice, each in the order of names and not too large."""
    rounds = _rounds(enumerate(writes))
    return [step for each in rounds for step in _cut(sorted(each, key=_name))]


def _rounds(placed: Iterable[Placed]) -> list[list[Placed]]:
    """The first write to each document, then the second to each, and so on."""
    rounds: list[list[Placed]] = []
    depths: dict[Name, int] = {}
    for position, write in placed:
        depth = depths.get(write[:2], 0)
        depths[write[:2]] = depth + 1
        if depth == len(rounds):
            rounds.append([])
        rounds[depth].append((position, write))
    return rounds


def _cut(placed: list[Placed]) -> Iterator[list[Placed]]:
    start = byte_count = 0
    for end, (_, write) in enumerate(placed):
        byte_count += len(write.body or b"")
        if end > start and (byte_count > MOST_BYTES_AT_ONCE or end - start >= MOST_AT_ONCE):
            yield placed[start:end]
            start, byte_count = end, len(write.body or b"")
    yield placed[start:]


async def _apply(
    statements: Statements, writes: Sequence[DocumentWrite], steps: Iterable[list[Placed]]
) -> Versions:
    versions: Versions = [None] * len(writes)
    for step in steps:
        applied = await _apply_step(statements, step)
        for position, write in applied:
            versions[position] = write.next_version
        # These were created only to keep others from creating them until the transaction ends.
        demands = [(place, write) for place, write in applied if _only_demands_absence(write)]
        if demands:
            await _apply_step(statements, [(at, one._replace(expected=1)) for at, one in demands])
    return versions


async def _apply_step(statements: Statements, step: Sequence[Placed]) -> list[Placed]:
    """The writes of a step that were current."""
    creating = [one for one in step if one[1].expected is None]
    changing = [one for one in step if one[1].expected is not None and one[1].body is not None]
    removing = [one for one in step if one[1].expected is not None and one[1].body is None]
    (answer,) = await statements.fetch(
        QUERIES.apply_writes,
        *_columns(creating, "collection", "key"),
        [write.body or b"" for _, write in creating],
        *_columns(changing, "collection", "key", "expected", "body"),
        *_columns(removing, "collection", "key", "expected"),
    )
    collections, keys, changed, removed = answer
    if collections is not None:
        names = set(zip(collections, keys, strict=True))
        creating = [placed for placed in creating if _name(placed) in names]
    return [*creating, *_positioned(changing, changed), *_positioned(removing, removed)]


def _columns(step: Sequence[Placed], *fields: str) -> list[list[Any]]:
    return [[getattr(write, field) for _, write in step] for field in fields]


def _positioned(step: list[Placed], positions: list[int] | None) -> list[Placed]:
    return step if positions is None else [step[position - 1] for position in positions]


def _only_demands_absence(write: DocumentWrite) -> bool:
    return write.expected is None and write.body is None


def _name(placed: Placed) -> Name:
    return placed[1][:2]
