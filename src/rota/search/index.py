"""The index of a tenant's jobs in documents: what it covers, and the jobs that have some terms."""

import heapq
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple, Protocol

import msgspec

from rota.search.segments import (
    CHUNK_LENGTH,
    Chunk,
    Numbers,
    Place,
    Row,
    SegmentHead,
    count_encoded,
    decode_head,
    decode_rows,
    find_rows,
    list_numbers,
    unite,
)
from rota.search.terms import Clause, TermRange
from rota.stores.documents import find_document
from rota.stores.protocol import Document, DocumentStore, JobStore

STATES, HEADS, BLOCKS, OPEN_JOBS = (
    "search_states",
    "search_heads",
    "search_blocks",
    "search_open_jobs",
)
"""The collections of the index."""

MOST_BLOCKS = 8
"""A range of terms in more blocks of a segment says nothing: then jobs themselves are read."""

READ_AHEAD = 512


Pause = Callable[[], Awaitable[None]]
"""Called often while the index is written, so that other work gets its turn."""


class SearchedStore(DocumentStore, JobStore, Protocol):
    """A store of documents and jobs."""


class IndexChangedError(Exception):
    """A part of the index was replaced while it was read. Read its state again."""


class SegmentMark(NamedTuple):
    """A stored segment: its number, and the places between which its jobs are."""

    number: int
    job_count: int
    block_count: int
    newest: Place
    oldest: Place
    checked_at: datetime
    """When it was last seen how many of its jobs still exist."""


class CoveredRange(NamedTuple):
    """All jobs in this range of places are in the index. None: down to the oldest job."""

    newest: Place
    oldest: Place | None


class OpenPage(NamedTuple):
    """A page of jobs that had not ended when they were last read."""

    number: int
    job_count: int
    again_at: datetime
    read_count: int


class OpenJob(NamedTuple):
    """A job that had not ended, when it is due, and a digest of its terms."""

    place: Place
    due_at: datetime
    digest: int


class IndexState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the index of a tenant covers, newest first, and the parts it is made of.

    Parts are numbered. ``reserved`` numbers are being written, or were when their writer died.
    ``retired`` segments are read by searches that began before, and removed later.
    """

    ranges: tuple[CoveredRange, ...] = ()
    segments: tuple[SegmentMark, ...] = ()
    pages: tuple[OpenPage, ...] = ()
    reserved: tuple[int, ...] = ()
    retired: tuple[SegmentMark, ...] = ()
    next_number: int = 1
    looked_back_at: datetime | None = None
    """When the latest jobs were last compared with the index."""

    @property
    def job_count(self) -> int:
        return sum(each.job_count for each in self.segments)

    def share_before(self, place: Place) -> float:
        """About which part of the indexed jobs is before a place."""
        passed = sum(each.job_count * _part_before(each, place) for each in self.segments)
        return passed / max(self.job_count, 1)


def _part_before(mark: SegmentMark, place: Place) -> float:
    length = mark.oldest.age - mark.newest.age
    if length <= 0:
        return float(mark.oldest <= place)
    return min(max((place.age - mark.newest.age) / length, 0.0), 1.0)


encode_state = encode_open = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(IndexState).decode
_decode_open = msgspec.msgpack.Decoder(list[OpenJob]).decode


class StoredState(NamedTuple):
    """The state of an index, and the version of its document; None if there is none."""

    state: IndexState
    version: int | None


async def read_state(store: DocumentStore, tenant: str) -> StoredState:
    document = await find_document(store, STATES, tenant)
    if document is None:
        return StoredState(IndexState(), None)
    return StoredState(_decode_state(document.body), document.version)


async def read_open(store: DocumentStore, key: str) -> tuple[list[OpenJob], int]:
    """The jobs of a page, and its version."""
    document = await find_document(store, OPEN_JOBS, key)
    return ([], 0) if document is None else (_decode_open(document.body), document.version)


def key_of_part(tenant: str, number: int) -> str:
    """The key of a head or of a page of open jobs; that of a block goes on from there."""
    return f"{sha256(tenant.encode()).hexdigest()[:24]}/{number}"


def key_of_block(tenant: str, number: int, block: int) -> str:
    return f"{key_of_part(tenant, number)}/{block}"


class Parts:
    """Reads the parts of a tenant's index, many at once; heads and terms once only."""

    def __init__(self, store: DocumentStore, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._heads: dict[int, SegmentHead] = {}
        self._rows: dict[tuple[int, int], Sequence[Row]] = {}

    async def read_heads(self, marks: Sequence[SegmentMark]) -> list[SegmentHead]:
        keys = {
            mark.number: key_of_part(self._tenant, mark.number)
            for mark in marks
            if mark.number not in self._heads
        }
        found = await self._store.read(HEADS, list(keys.values())) if keys else {}
        self._heads |= {number: decode_head(_body(found, key)) for number, key in keys.items()}
        return [self._heads[mark.number] for mark in marks]

    async def read_rows(self, wanted: Sequence[tuple[SegmentMark, int]]) -> "Rows":
        """Blocks of terms by the numbers of their segment and their own."""
        missing = [each for each in wanted if (each[0].number, each[1]) not in self._rows]
        bodies = await self.read_blocks(missing)
        self._rows |= {place: decode_rows(body) for place, body in bodies.items()}
        return self._rows

    async def read_blocks(
        self, wanted: Sequence[tuple[SegmentMark, int]]
    ) -> dict[tuple[int, int], bytes]:
        """Blocks by the numbers of their segment and their own."""
        keys = {
            (mark.number, block): key_of_block(self._tenant, mark.number, block)
            for mark, block in wanted
        }
        found = await self._store.read(BLOCKS, list(keys.values())) if keys else {}
        return {place: _body(found, key) for place, key in keys.items()}

    async def read_chunks(
        self, wanted: Sequence[tuple[SegmentMark, int]]
    ) -> dict[tuple[int, int], Chunk]:
        found = await self.read_blocks(wanted)
        return {place: Chunk(body) for place, body in found.items()}


def _body(found: Mapping[str, Document], key: str) -> bytes:
    document = found.get(key)
    if document is None:
        raise IndexChangedError(f"the part {key} of the search index is gone")
    return document.body


class Candidates:
    """Places of jobs that may match, newest first, from several segments at once."""

    def __init__(self, parts: Parts, sources: Sequence["_Source"]) -> None:
        self.count = sum(source.count for source in sources)
        self._parts = parts
        self._heap = [(source.bound, at, source) for at, source in enumerate(sources)]
        heapq.heapify(self._heap)
        self._last: Place | None = None

    async def take(self, most: int, until: Place | None) -> list[Place]:
        """The next places up to ``until``, each once; fewer than ``most`` if there are no more."""
        found: list[Place] = []
        while self._heap and len(found) < most:
            bound, at, source = self._heap[0]
            if until is not None and bound > until:
                break
            if source.buffer:
                place = source.buffer.popleft()
                if place != self._last:
                    found.append(place)
                self._last = place
            else:
                await source.fill(self._parts)
            if source.buffer:
                heapq.heapreplace(self._heap, (source.buffer[0], at, source))
            elif source.is_empty:
                heapq.heappop(self._heap)
        return found

    async def preload(self) -> None:
        """Read everything at once. For few candidates in many segments."""
        sources = [source for _, _, source in self._heap]
        wanted = [each for source in sources for each in source.list_chunks()]
        chunks = await self._parts.read_chunks(wanted)
        for source in sources:
            source.chunks = chunks


class _Source:
    """The candidates of one segment."""

    def __init__(self, mark: SegmentMark, numbers: Numbers, bound: Place) -> None:
        self.bound = bound
        self.buffer: deque[Place] = deque()
        self.count = numbers.bit_count()
        self.chunks: dict[tuple[int, int], Chunk] = {}
        self.is_empty = False
        self._mark = mark
        self._read_ahead = MOST_BLOCKS
        self._all_numbers = numbers
        self._numbers = list_numbers(numbers)

    def list_chunks(self) -> list[tuple[SegmentMark, int]]:
        blocks = dict.fromkeys(each // CHUNK_LENGTH for each in list_numbers(self._all_numbers))
        return [(self._mark, block) for block in blocks]

    async def fill(self, parts: Parts) -> None:
        """Read the next places, from few blocks."""
        numbers: list[int] = []
        blocks: dict[int, None] = {}
        for number in self._numbers:
            numbers.append(number)
            blocks[number // CHUNK_LENGTH] = None
            if len(numbers) >= self._read_ahead or len(blocks) >= self._read_ahead:
                break
        self._read_ahead = min(4 * self._read_ahead, READ_AHEAD)
        if not numbers:
            self.is_empty = True
            return
        wanted = [(self._mark, each) for each in blocks]
        missing = [each for each in wanted if (self._mark.number, each[1]) not in self.chunks]
        chunks = await parts.read_chunks(missing) | self.chunks if missing else self.chunks
        for number in numbers:
            chunk = chunks[self._mark.number, number // CHUNK_LENGTH]
            self.buffer.append(chunk[number % CHUNK_LENGTH])


FEW_CANDIDATES = 300
"""Up to this many places are read at once, from all segments."""


async def find_candidates(
    parts: Parts, state: IndexState, clauses: Sequence[Clause], after: Place | None
) -> Candidates:
    """The indexed jobs behind a place that may match all clauses."""
    marks = [mark for mark in state.segments if after is None or mark.oldest > after]
    segments = list(zip(marks, await parts.read_heads(marks), strict=True))
    rows = await _read_rows(parts, segments, clauses)
    cut = await _find_cuts(parts, segments, after)
    sources: list[_Source] = []
    for mark, head in segments:
        start = cut.get(mark.number, 0)
        left = _match(mark, head, clauses, rows) >> start << start
        if left:
            bound = mark.newest if after is None else max(mark.newest, after)
            sources.append(_Source(mark, left, bound))
    candidates = Candidates(parts, sources)
    if candidates.count <= FEW_CANDIDATES:
        await candidates.preload()
    return candidates


async def count_candidates(
    parts: Parts, state: IndexState, clauses: Sequence[Clause], terms: Sequence[str]
) -> Counter[str]:
    """How many of the indexed jobs that may match all clauses have each of these terms.

    Segments in which a clause is too broad to be of use do not count.
    """
    heads = await parts.read_heads(state.segments)
    segments = list(zip(state.segments, heads, strict=True))
    owners = [Clause((TermRange(term),)) for term in terms]
    rows = await _read_rows(parts, segments, [*clauses, *owners])
    found: Counter[str] = Counter()
    for mark, head in segments:
        if not all(_list_asked(head, clause) for clause in clauses):
            continue
        left = _match(mark, head, clauses, rows)
        for term, owner in zip(terms, owners, strict=True):
            found[term] += (left & _match(mark, head, [owner], rows)).bit_count()
    return found


Segments = Sequence[tuple[SegmentMark, SegmentHead]]
Rows = Mapping[tuple[int, int], Sequence[Row]]


async def _read_rows(parts: Parts, segments: Segments, clauses: Sequence[Clause]) -> Rows:
    """The blocks that the clauses need, by the numbers of their segment and their own."""
    asked = [
        (mark, block)
        for mark, head in segments
        for clause in clauses
        for _, blocks in _list_asked(head, clause)
        for block in blocks
    ]
    return await parts.read_rows(list(dict.fromkeys(asked)))


def _list_asked(head: SegmentHead, clause: Clause) -> list[tuple[TermRange, range]]:
    """The ranges of a clause with their blocks; none if a range is too broad to be of use."""
    found = [
        (each, head.find_blocks(each.text, is_prefix=each.is_prefix)) for each in clause.ranges
    ]
    return found if all(len(blocks) <= MOST_BLOCKS for _, blocks in found) else []


def _match(mark: SegmentMark, head: SegmentHead, clauses: Sequence[Clause], rows: Rows) -> Numbers:
    """The numbers of the jobs in a segment that may match all clauses."""
    left: Numbers = (1 << mark.job_count) - 1
    for clause in clauses:
        asked = _list_asked(head, clause)
        if asked:
            found = (
                row
                for each, blocks in asked
                for block in blocks
                for row in find_rows(rows[mark.number, block], each.text, is_prefix=each.is_prefix)
            )
            left &= unite(found)
    return left


async def _find_cuts(parts: Parts, segments: Segments, after: Place | None) -> dict[int, int]:
    """By segment, the number of the first job behind a place that is inside the segment."""
    if after is None:
        return {}
    chunks = await parts.read_chunks(
        [(mark, head.find_chunk(after)) for mark, head in segments if mark.newest <= after]
    )
    return {
        number: block * CHUNK_LENGTH + bisect_right(chunk, after)
        for (number, block), chunk in chunks.items()
    }


async def count_terms(parts: Parts, state: IndexState, start: str) -> Counter[str]:
    """The terms that begin so, and how many jobs have them in the newest segments."""
    marks = sorted(state.segments, key=lambda mark: mark.newest)[:MOST_BLOCKS]
    heads = await parts.read_heads(marks)
    asked = [
        (mark, block)
        for mark, head in zip(marks, heads, strict=True)
        for block in head.find_blocks(start, is_prefix=True)[:2]
    ]
    found: Counter[str] = Counter()
    for body in (await parts.read_blocks(asked)).values():
        for term, encoded in find_rows(decode_rows(body), start, is_prefix=True):
            found[term] += count_encoded(encoded)
    return found


class Gap(NamedTuple):
    """The places between which jobs are not indexed; None for the ends."""

    after: Place | None
    until: Place | None


def list_gaps(ranges: Sequence[CoveredRange]) -> Iterator[Gap]:
    """What the ranges do not cover, newest first: one gap before each range, and one at the end."""
    after: Place | None = None
    for each in ranges:
        yield Gap(after, each.newest)
        if each.oldest is None:
            return
        after = each.oldest
    yield Gap(after, None)
