"""Documents: reads, and writes of one or several callers.

One statement changes a document at most once. So writes to the same document go one after the
other, in as many steps as the most written document has writes: almost always one.
"""

import asyncio
from asyncio import Future, Task
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import asyncpg

from rota.errors import StoreError
from rota.stores.documents import Name, Versions, apply_stream
from rota.stores.postgres.connections import Database, Session, Statements, translate
from rota.stores.postgres.queries import QUERIES
from rota.stores.protocol import Document, DocumentWrite, checked

MOST_AT_ONCE = 20_000
MOST_BYTES_AT_ONCE = 16 * 1024 * 1024
"""Within these bounds a statement ends well before its deadline, and its message fits."""

STREAM_LENGTH = 2_000
"""How many writes of a stream are held in memory at a time."""

GROUP_COUNT = 4
"""How many groups are written at a time: one that waits for another program's lock does not hold
up the others."""

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


async def write_each(session: Session, writes: Sequence[DocumentWrite]) -> Versions:
    """Apply the writes that are current; see the protocol."""
    steps = plan_steps(writes)
    if len(steps) == 1 and not any(map(_only_demands_absence, writes)):
        return await _apply(session, writes, steps)  # one statement is a transaction by itself
    async with session.transaction():
        return await _apply(session, writes, steps)


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


class _Call(NamedTuple):
    writes: Sequence[DocumentWrite]
    answer: "Future[Versions]"


class Writer:
    """Runs ``write_each`` for any number of callers together; none fails because of another.

    A commit costs the same round trip and wait for the disk with one write or a thousand. A call at
    a quiet moment runs at once; those that come while all groups are busy form the next group.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Call] = deque()
        self._groups: set[Task[None]] = set()

    async def write_each(self, writes: Sequence[DocumentWrite]) -> Versions:
        """Apply the writes that are current, together with those of other callers."""
        answer: Future[Versions] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(writes, answer))
        if len(self._groups) < GROUP_COUNT:
            group = asyncio.create_task(self._serve())
            self._groups.add(group)
            group.add_done_callback(self._groups.discard)
        return await answer

    async def close(self) -> None:
        """Finish all submitted writes."""
        if self._groups:
            await asyncio.wait(self._groups)

    async def _serve(self) -> None:
        while self._waiting:
            group = self._take_group()
            for call, outcome in zip(group, await self._write_group(group), strict=True):
                _answer(call, outcome)

    def _take_group(self) -> list[_Call]:
        group = [self._waiting.popleft()]
        write_count = len(group[0].writes)
        while self._waiting and write_count < MOST_AT_ONCE:
            group.append(self._waiting.popleft())
            write_count += len(group[-1].writes)
        return group

    async def _write_group(self, group: Sequence[_Call]) -> list[Versions | Exception]:
        """One outcome for each call."""
        writes = [write for call in group for write in call.writes]
        try:
            versions = iter(
                await self._database.run_repeatably(lambda session: write_each(session, writes))
            )
        except Exception as error:  # noqa: BLE001 - passed on to the callers
            if len(group) > 1 and _may_be_of_one(error):
                return [outcome for call in group for outcome in await self._write_group([call])]
            return [self._copy(error) for _ in group]
        return [list(islice(versions, len(call.writes))) for call in group]

    def _copy(self, error: Exception) -> Exception:
        """The same error for another caller: with one object their tracebacks would mix."""
        cause = error.__cause__
        if not isinstance(error, StoreError) or not isinstance(cause, Exception):
            return error
        copy = translate(cause, self._database.label, error.details["outcome"])
        copy.__cause__ = cause
        return copy


def _may_be_of_one(error: Exception) -> bool:
    """Whether it may be about the values of one call, rather than about the server."""
    about_values = (asyncpg.DataError, asyncpg.ProgramLimitExceededError, ValueError)
    return not isinstance(error, StoreError) or isinstance(error.__cause__, about_values)


def _answer(call: _Call, outcome: Versions | Exception) -> None:
    if call.answer.done():  # its caller was cancelled; the write holds all the same
        return
    if isinstance(outcome, Exception):
        call.answer.set_exception(outcome)
    else:
        call.answer.set_result(outcome)
