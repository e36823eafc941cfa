"""Writes the index of one tenant, and merges its segments.

Every change of its state is one write that may be refused.
"""

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from datetime import datetime

from msgspec.structs import replace

from rota.errors import StaleVersionError
from rota.search.index import (
    BLOCKS,
    HEADS,
    OPEN_JOBS,
    STATES,
    IndexState,
    OpenJob,
    OpenPage,
    Parts,
    Pause,
    SearchedStore,
    SegmentMark,
    encode_open,
    encode_state,
    key_of_block,
    key_of_part,
    read_open,
    read_state,
)
from rota.search.segments import (
    BlockWriter,
    Place,
    Row,
    Segment,
    SegmentHead,
    decode_rows,
    encode_head,
    list_encoded,
)
from rota.stores.protocol import DocumentWrite

WRITTEN_AT_ONCE = 32


class IndexWriter:
    """The state of an index as it was last read or written here.

    If another process has written it since, StaleVersionError is raised, and nothing is changed.
    """

    def __init__(self, store: SearchedStore, tenant: str, pause: Pause) -> None:
        self.state = IndexState()
        self.is_new = True
        self._store = store
        self._tenant = tenant
        self._pause = pause
        self._version: int | None = None

    async def read(self) -> None:
        self.state, self._version = await read_state(self._store, self._tenant)
        self.is_new = self._version is None

    async def commit(self, state: IndexState, used: Collection[int] = ()) -> None:
        """Replace the state. The parts with the numbers ``used`` are no longer only reserved."""
        reserved = tuple(each for each in state.reserved if each not in used)
        state = replace(state, reserved=reserved)
        write = DocumentWrite(STATES, self._tenant, self._version, encode_state(state))
        await self._store.write_all([write])
        self.state, self._version = state, write.next_version

    async def add_segment(self, segment: Segment, now: datetime) -> SegmentMark:
        """Store the parts of a segment. It counts once a state names it."""
        number = await self._reserve()
        key = key_of_part(self._tenant, number)
        await self._write(
            [
                *(
                    DocumentWrite(BLOCKS, key_of_block(self._tenant, number, block), None, body)
                    for block, body in enumerate(segment.blocks)
                ),
                DocumentWrite(HEADS, key, None, encode_head(segment.head)),
            ]
        )
        count, blocks = segment.head.count, len(segment.blocks)
        return SegmentMark(number, count, blocks, segment.newest, segment.oldest, now)

    async def add_page(self, jobs: Sequence[OpenJob], again_at: datetime) -> OpenPage:
        """Store a page of open jobs. It counts once a state names it."""
        number = await self._reserve()
        key = key_of_part(self._tenant, number)
        await self._write([DocumentWrite(OPEN_JOBS, key, None, encode_open(jobs))])
        return OpenPage(number, len(jobs), again_at, 0)

    async def read_page(self, page: OpenPage) -> list[OpenJob]:
        jobs, _ = await read_open(self._store, key_of_part(self._tenant, page.number))
        return jobs

    async def replace_page(self, page: OpenPage, jobs: Sequence[OpenJob]) -> None:
        """Write other jobs to a page, or remove it when there are none."""
        key = key_of_part(self._tenant, page.number)
        _, version = await read_open(self._store, key)
        if version:
            body = encode_open(jobs) if jobs else None
            await self._store.write_each([DocumentWrite(OPEN_JOBS, key, version, body)])

    async def remove_leftovers(self) -> None:
        """Remove retired segments, and parts whose writer died."""
        if not self.state.retired and not self.state.reserved:
            return
        for mark in self.state.retired:
            await self._remove(mark.number, mark.block_count)
        for number in self.state.reserved:
            await self._remove(number, None)
        await self.commit(replace(self.state, retired=(), reserved=()))

    async def remove_all(self) -> None:
        for mark in (*self.state.segments, *self.state.retired):
            await self._remove(mark.number, mark.block_count)
        for number in (*self.state.reserved, *(page.number for page in self.state.pages)):
            await self._remove(number, None)
        if self._version is not None:
            await self._store.write_all([DocumentWrite(STATES, self._tenant, self._version, None)])

    async def _reserve(self) -> int:
        """A number that no other part has."""
        number = self.state.next_number
        reserved = (*self.state.reserved, number)
        await self.commit(replace(self.state, next_number=number + 1, reserved=reserved))
        return number

    async def _write(self, writes: Sequence[DocumentWrite]) -> None:
        for start in range(0, len(writes), WRITTEN_AT_ONCE):
            part = writes[start : start + WRITTEN_AT_ONCE]
            versions = await self._store.write_each(part)
            for write, version in zip(part, versions, strict=True):
                if version is None:
                    raise StaleVersionError(write.collection, write.key, None)
            await self._pause()

    async def _remove(self, number: int, block_count: int | None) -> None:
        """Remove the parts with a number; without a count, as many blocks as there are."""
        key = key_of_part(self._tenant, number)
        await self._remove_keys(HEADS, [key])
        await self._remove_keys(OPEN_JOBS, [key])
        start = 0
        while block_count is None or start < block_count:
            keys = [
                key_of_block(self._tenant, number, block)
                for block in range(start, start + WRITTEN_AT_ONCE)
            ]
            if not await self._remove_keys(BLOCKS, keys):
                return
            start += WRITTEN_AT_ONCE
            await self._pause()

    async def _remove_keys(self, collection: str, keys: Sequence[str]) -> int:
        found = await self._store.read(collection, keys)
        if found:
            await self._store.write_each(
                [DocumentWrite(collection, each.key, each.version, None) for each in found.values()]
            )
        return len(found)


READ_AT_ONCE = 8
GONE = -1


async def read_places(
    parts: Parts, mark: SegmentMark, head: SegmentHead, pause: Pause
) -> list[Place]:
    """All places of a segment, in order."""
    found: list[Place] = []
    blocks = range(len(head.first_places))
    for start in range(0, len(blocks), READ_AT_ONCE):
        wanted = [(mark, block) for block in blocks[start : start + READ_AT_ONCE]]
        chunks = await parts.read_chunks(wanted)
        for _, block in wanted:
            found += chunks[mark.number, block][:]
        await pause()
    return found


async def merge_segments(
    parts: Parts,
    marks: Sequence[SegmentMark],
    keep: Callable[[Sequence[Place]], Awaitable[Collection[Place]]],
    pause: Pause,
) -> Segment | None:
    """One segment in place of several; None if ``keep`` keeps none of their jobs."""
    heads = await parts.read_heads(marks)
    pairs = list(zip(marks, heads, strict=True))
    listed = [await read_places(parts, mark, head, pause) for mark, head in pairs]
    places = sorted(await keep(sorted(set().union(*listed))))
    if not places:
        return None
    number_of = {place: number for number, place in enumerate(places)}
    renumbered = [[number_of.get(place, GONE) for place in each] for each in listed]
    writer = BlockWriter(places)
    async for term, rows in _merge_rows(parts, pairs, pause):
        numbers = [
            number
            for at, encoded in rows
            for old in list_encoded(encoded)
            if (number := renumbered[at][old]) != GONE
        ]
        if numbers:
            writer.add(term, numbers if len(rows) == 1 else sorted(set(numbers)))
    return Segment(writer.finish(), writer.blocks, places[0], places[-1])


async def _merge_rows(
    parts: Parts, pairs: Sequence[tuple[SegmentMark, SegmentHead]], pause: Pause
) -> AsyncIterator[tuple[str, list[tuple[int, int | bytes]]]]:
    """Every term in order, with its rows by the position of their segments."""
    streams = [_walk_rows(parts, mark, head, pause) for mark, head in pairs]
    current: list[list[Row]] = [[] for _ in streams]
    heap: list[tuple[str, int]] = []

    async def advance(at: int) -> None:
        """Put the next term of a segment on the heap."""
        if not current[at]:
            current[at] = await anext(streams[at], [])
        if current[at]:
            heapq.heappush(heap, (current[at][-1][0], at))

    for at in range(len(streams)):
        await advance(at)
    while heap:
        term, rows = heap[0][0], list[tuple[int, int | bytes]]()
        while heap and heap[0][0] == term:
            at = heapq.heappop(heap)[1]
            rows.append((at, current[at].pop()[1]))
            await advance(at)
        yield term, rows


async def _walk_rows(
    parts: Parts, mark: SegmentMark, head: SegmentHead, pause: Pause
) -> AsyncIterator[list[Row]]:
    """The rows of a segment, block by block, the last row of a block first."""
    blocks = range(len(head.first_places), head.block_count)
    for start in range(0, len(blocks), READ_AT_ONCE):
        wanted = [(mark, block) for block in blocks[start : start + READ_AT_ONCE]]
        bodies = await parts.read_blocks(wanted)
        for _, block in wanted:
            await pause()
            yield decode_rows(bodies[mark.number, block])[::-1]
