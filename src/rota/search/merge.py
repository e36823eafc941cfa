"""Merges segments into one, without jobs that no longer exist."""

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

from rota.search.index import Parts, Pause, SegmentMark
from rota.search.segments import (
    BlockWriter,
    Place,
    Row,
    Segment,
    SegmentHead,
    decode_rows,
    list_encoded,
)

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
