"""Segments of the index: the places and terms of some jobs, sorted, and never changed.

A job's *place* is where it stands among all jobs, newest first. In a segment the jobs are numbered
by place; each term has the set of numbers of the jobs that have it. Places and terms are cut into
blocks, each stored as a document. The head of a segment knows how each block begins, so one read
finds a term.
"""

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias, overload

import msgspec

from rota.jobs import Job, JobId

CHUNK_LENGTH = 256
"""How many places a block has."""

BLOCK_SIZE = 32 << 10
"""How many bytes of terms make up a block, before compression."""

_ARRAY, _BITS = b"\0", b"\1"
_BITS_OF_BYTE = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Numbers: TypeAlias = int
"""A set of numbers: bit ``n`` is set if ``n`` is in it."""


class Place(NamedTuple):
    """Ascending: newest first, then by id."""

    age: int
    """Microseconds from the creation back to 1970, so below zero for any later time."""
    job_id: JobId

    @property
    def created_at(self) -> datetime:
        return _EPOCH - self.age * _MICROSECOND


def place_of(job: Job) -> Place:
    return Place(count_micros(job.created_at), job.id)


def count_micros(created_at: datetime) -> int:
    """The ``age`` of a place."""
    return (_EPOCH - created_at) // _MICROSECOND


Row: TypeAlias = tuple[str, int | bytes]
"""A term, and the number of its only job or the numbers of its jobs, encoded."""

_decode_rows = msgspec.msgpack.Decoder(list[tuple[str, int | bytes]]).decode
_decode_chunk = msgspec.msgpack.Decoder(tuple[bytes, list[str]]).decode
_encode = msgspec.msgpack.Encoder().encode


class SegmentHead(msgspec.Struct, frozen=True, array_like=True):
    """How each block of a segment begins. Blocks are numbered, those of places first."""

    count: int
    first_places: list[Place]
    first_terms: list[str]

    @property
    def block_count(self) -> int:
        return len(self.first_places) + len(self.first_terms)

    def find_blocks(self, start: str, *, is_prefix: bool) -> range:
        """The blocks that may have a term, or terms that begin so."""
        end = bisect_right(self.first_terms, start)
        first, offset = max(end - 1, 0), len(self.first_places)
        if is_prefix:
            end = bisect_left(self.first_terms, end_of_prefix(start))
        return range(offset + first, offset + end)

    def find_chunk(self, place: Place) -> int:
        """The block of places in which a place is, or would be."""
        return max(bisect_right(self.first_places, place) - 1, 0)


def end_of_prefix(start: str) -> str:
    """A text behind all texts that begin so."""
    return start + "\U0010ffff"


def encode_head(head: SegmentHead) -> bytes:
    return zlib.compress(_encode(head), 1)


_decode_head = msgspec.msgpack.Decoder(SegmentHead).decode


def decode_head(body: bytes) -> SegmentHead:
    return _decode_head(zlib.decompress(body))


def encode_numbers(numbers: Sequence[int], count: int) -> int | bytes:
    """Numbers in ascending order, of ``count`` jobs, in the shorter of two forms."""
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) * 32 <= count:
        return _ARRAY + array("I", numbers).tobytes()
    return _BITS + gather(numbers).to_bytes((count + 7) // 8, "little")


def list_encoded(encoded: int | bytes) -> Iterable[int]:
    """The numbers, ascending."""
    if isinstance(encoded, int):
        return (encoded,)
    if encoded[:1] == _BITS:
        return list_numbers(int.from_bytes(encoded[1:], "little"))
    return _read_array(encoded)


def count_encoded(encoded: int | bytes) -> int:
    if isinstance(encoded, int):
        return 1
    if encoded[:1] == _BITS:
        return int.from_bytes(encoded[1:], "little").bit_count()
    return (len(encoded) - 1) // 4


def _read_array(encoded: bytes) -> "array[int]":
    numbers = array("I")
    numbers.frombytes(encoded[1:])
    return numbers


def unite(rows: Iterable[Row]) -> Numbers:
    """The numbers of the jobs that have any of these terms."""
    dense, sparse = 0, list[int]()
    for _, encoded in rows:
        if isinstance(encoded, int):
            sparse.append(encoded)
        elif encoded[:1] == _BITS:
            dense |= int.from_bytes(encoded[1:], "little")
        else:
            sparse.extend(_read_array(encoded))
    sparse.sort()
    return dense | gather(sparse)


def gather(numbers: Sequence[int]) -> Numbers:
    """A set of these numbers, ascending."""
    if not numbers:
        return 0
    bits = bytearray(numbers[-1] // 8 + 1)
    for number in numbers:
        bits[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(bits, "little")


def list_numbers(numbers: Numbers) -> Iterator[int]:
    """The numbers in a set, ascending."""
    content = numbers.to_bytes((numbers.bit_length() + 7) // 8, "little")
    at = len(content) - len(content.lstrip(b"\0"))
    while at < len(content):
        byte = content[at]
        if byte:
            for bit in _BITS_OF_BYTE[byte]:
                yield at * 8 + bit
            at += 1
        else:  # skip a run of empty bytes at once
            rest = content[at : at + 4096]
            at += len(rest) - len(rest.lstrip(b"\0"))


def encode_chunk(places: Sequence[Place]) -> bytes:
    """A block of places."""
    ages = array("q", [place.age for place in places])
    return zlib.compress(_encode((ages.tobytes(), [place.job_id for place in places])), 1)


class Chunk(Sequence[Place]):
    """A block of places. Only those that are asked for are made."""

    def __init__(self, body: bytes) -> None:
        content, self._ids = _decode_chunk(zlib.decompress(body))
        self._ages = array("q")
        self._ages.frombytes(content)

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, at: int) -> Place: ...

    @overload
    def __getitem__(self, at: slice) -> list[Place]: ...

    def __getitem__(self, at: int | slice) -> Place | list[Place]:
        if isinstance(at, slice):
            return list(map(Place, self._ages[at], self._ids[at]))
        return Place(self._ages[at], self._ids[at])


def encode_rows(rows: Sequence[Row]) -> bytes:
    """A block of terms."""
    return zlib.compress(_encode(rows), 1)


def decode_rows(body: bytes) -> list[Row]:
    return _decode_rows(zlib.decompress(body))


def find_rows(rows: Sequence[Row], start: str, *, is_prefix: bool) -> Sequence[Row]:
    """The rows of a term, or of terms that begin so."""
    first = bisect_left(rows, start, key=_term_of)
    if not is_prefix:
        found = rows[first : first + 1]
        return found if found and found[0][0] == start else ()
    return rows[first : bisect_left(rows, end_of_prefix(start), first, key=_term_of)]


def _term_of(row: Row) -> str:
    return row[0]


class BlockWriter:
    """Cuts ascending places and rows into blocks, and notes how each begins."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.blocks: list[bytes] = []
        self._count = len(places)
        self._first_places = list(places[::CHUNK_LENGTH])
        self._first_terms: list[str] = []
        self._rows: list[Row] = []
        self._size = 0
        for start in range(0, len(places), CHUNK_LENGTH):
            self.blocks.append(encode_chunk(places[start : start + CHUNK_LENGTH]))

    def add(self, term: str, numbers: Sequence[int]) -> None:
        """The next term, and its numbers in ascending order."""
        encoded = encode_numbers(numbers, self._count)
        if not self._rows:
            self._first_terms.append(term)
        self._rows.append((term, encoded))
        self._size += len(term) + (4 if isinstance(encoded, int) else len(encoded))
        if self._size >= BLOCK_SIZE:
            self._cut()

    def finish(self) -> SegmentHead:
        if self._rows:
            self._cut()
        return SegmentHead(self._count, self._first_places, self._first_terms)

    def _cut(self) -> None:
        self.blocks.append(encode_rows(self._rows))
        self._rows, self._size = [], 0


class Segment(NamedTuple):
    """A segment that has not been stored yet."""

    head: SegmentHead
    blocks: Sequence[bytes]
    newest: Place
    oldest: Place


def build_segment(terms_by_place: Mapping[Place, Iterable[str]]) -> Segment:
    """A segment of some jobs, at least one."""
    places = sorted(terms_by_place)
    numbers_by_term: dict[str, list[int]] = {}
    for number, place in enumerate(places):
        for term in terms_by_place[place]:
            numbers_by_term.setdefault(term, []).append(number)
    writer = BlockWriter(places)
    for term in sorted(numbers_by_term):
        writer.add(term, numbers_by_term[term])
    return Segment(writer.finish(), writer.blocks, places[0], places[-1])
