"""Writes, put in an order in which PostgreSQL can be handed many at once.

One statement changes a document at most once. Writes to the same document therefore go one after
the other, in as many steps as the most written document has writes; almost always that is one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rota.errors import StaleVersionError
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.session import Session
from rota.stores.protocol import DocumentWrite, checked

MOST_AT_ONCE = 20_000
MOST_BYTES_AT_ONCE = 16 * 1024 * 1024
"""Within these a statement is over well before its deadline, and its message not too long."""

STREAM_LENGTH = 2_000
"""So many writes of a stream are held in memory at a time."""

Versions = list[int | None]
Placed = tuple[int, DocumentWrite]
"""A write and its position among those it came with."""


class Batch(NamedTuple):
    """The next writes of a stream, and what ended it, if it ended other than by its end."""

    writes: Sequence[DocumentWrite]
    error: Exception | None = None
    is_last: bool = False


async def write_each(session: Session, writes: Sequence[DocumentWrite]) -> Versions:
    """Apply those that are current, durably; see the protocol for what is returned."""
    steps = plan_steps(writes)
    if len(steps) == 1 and not any(map(_only_demands_absence, writes)):
        return await _apply(session, writes, steps)  # one statement is a transaction by itself
    async with session.transaction():
        return await _apply(session, writes, steps)


async def write_all(session: Statements, writes: Iterable[DocumentWrite]) -> None:
    """Apply them as they come from the stream, all or none."""
    stream = checked(writes)
    async with session.transaction():
        is_last = False
        while not is_last:
            batch, error, is_last = take_batch(stream)
            versions = await _apply(session, batch, plan_steps(batch))
            if None in versions:
                collection, key, expected, _ = batch[versions.index(None)]
                raise StaleVersionError(collection, key, expected)
            if error is not None:
                raise error


def take_batch(stream: Iterator[DocumentWrite]) -> Batch:
    """As many writes as one statement should hold. An error is kept until they are applied."""
    writes: list[DocumentWrite] = []
    byte_count = 0
    try:
        for write in stream:
            writes.append(write)
            byte_count += len(write.body or b"")
            if len(writes) >= STREAM_LENGTH or byte_count >= MOST_BYTES_AT_ONCE:
                return Batch(writes)
    except Exception as error:  # noqa: BLE001 - whatever the caller's stream raises is passed on
        return Batch(writes, error)
    return Batch(writes, is_last=True)


def plan_steps(writes: Sequence[DocumentWrite]) -> list[list[Placed]]:
    """Steps in which no document is named twice, each in the order of names and not too large."""
    rounds = _rounds(enumerate(writes))
    return [step for each in rounds for step in _cut(sorted(each, key=_name))]


def _rounds(placed: Iterable[Placed]) -> list[list[Placed]]:
    """The first write to each document, then the second to each, and so on."""
    rounds: list[list[Placed]] = []
    depths: dict[tuple[str, str], int] = {}
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
    session: Statements, writes: Sequence[DocumentWrite], steps: Iterable[list[Placed]]
) -> Versions:
    versions: Versions = [None] * len(writes)
    for step in steps:
        applied = await _apply_step(session, step)
        for position, write in applied:
            versions[position] = write.next_version
        await _take_back(session, applied)
    return versions


async def _apply_step(session: Statements, step: Sequence[Placed]) -> list[Placed]:
    """Those writes of a step that were current."""
    to_make = [placed for placed in step if placed[1].expected is None]
    to_change = [placed for placed in step if _is_change(placed[1])]
    to_remove = [placed for placed in step if _is_removal(placed[1])]
    (answer,) = await session.fetch(
        QUERIES.apply_writes,
        *_columns(to_make, "collection", "key"),
        [write.body or b"" for _, write in to_make],
        *_columns(to_change, "collection", "key", "expected", "body"),
        *_columns(to_remove, "collection", "key", "expected"),
    )
    made_collections, made_keys, changed, removed = answer
    return [
        *_named(to_make, made_collections, made_keys),
        *_positioned(to_change, changed),
        *_positioned(to_remove, removed),
    ]


async def _take_back(session: Statements, applied: Iterable[Placed]) -> None:
    """Remove what was made only to see that nobody else can make it before the transaction ends."""
    made = [
        (position, write._replace(expected=1))
        for position, write in applied
        if _only_demands_absence(write)
    ]
    if made:
        await _apply_step(session, made)


def _columns(step: Sequence[Placed], *fields: str) -> list[list[Any]]:
    return [[getattr(write, field) for _, write in step] for field in fields]


def _named(
    step: list[Placed], collections: list[str] | None, keys: list[str] | None
) -> list[Placed]:
    if collections is None or keys is None:
        return step
    names = set(zip(collections, keys, strict=True))
    return [placed for placed in step if _name(placed) in names]


def _positioned(step: list[Placed], positions: list[int] | None) -> list[Placed]:
    return step if positions is None else [step[position - 1] for position in positions]


def _only_demands_absence(write: DocumentWrite) -> bool:
    return write.expected is None and write.body is None


def _is_change(write: DocumentWrite) -> bool:
    return write.expected is not None and write.body is not None


def _is_removal(write: DocumentWrite) -> bool:
    return write.expected is not None and write.body is None


def _name(placed: Placed) -> tuple[str, str]:
    return placed[1][:2]
