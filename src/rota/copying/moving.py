"""A copy: portion by portion from one store into the other, then both are gone through again."""

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TypeAlias

from rota.copying.mark import MarkedTarget, without_mark
from rota.copying.tally import Tally, bucket_of, digest_of, name_of
from rota.errors import CopyDiffersError, CopyRefusedError
from rota.stores.protocol import PortableStore, Record

MOST_BUCKETS = 4
"""Of so many buckets the records are looked at again when the two stores are not equal."""

MOST_NAMED = 10
"""So many differences are told."""


class Phase(Enum):
    """What a copy is at."""

    COPYING = "copying"
    VERIFYING_SOURCE = "verifying source"
    VERIFYING_TARGET = "verifying target"


Tell: TypeAlias = Callable[[Phase, int], None]
"""Hears how many more records have been dealt with."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What is in both stores now, and whether a copy that was cut off has been gone on with."""

    tally: Tally
    is_resumed: bool


async def copy_everything(
    source: PortableStore, target: PortableStore, marked: MarkedTarget, now: datetime, tell: Tell
) -> CopyReport:
    """Take all that ``source`` keeps to ``target``, compare the two, and remove the mark.

    ``source`` is only read. CopyDiffersError when the two are not equal in the end; the mark then
    stays, and nobody can work with the target.
    """
    if not marked.is_resumed:
        await _refuse_content(target, marked)
    if not marked.is_copied:
        await _move(source, target, marked, now, tell)
    tally = await _compare(source, target, tell)
    await marked.finish()
    return CopyReport(tally, marked.is_resumed)


async def _refuse_content(target: PortableStore, marked: MarkedTarget) -> None:
    """Nothing may have come into the target between looking and marking it."""
    async for records in walk_through(target):
        if records:
            await marked.finish()
            raise CopyRefusedError(f"The target is not empty: it holds {name_of(records[0])}")


async def _move(
    source: PortableStore, target: PortableStore, marked: MarkedTarget, now: datetime, tell: Tell
) -> None:
    tell(Phase.COPYING, marked.copied_count)
    portion = await source.dump(marked.cursor)
    while True:
        if portion.records:
            await target.load(portion.records, now)
        await marked.advance(portion.cursor, len(portion.records))
        tell(Phase.COPYING, len(portion.records))
        if portion.cursor is None:
            return
        portion = await source.dump(portion.cursor)


async def _compare(source: PortableStore, target: PortableStore, tell: Tell) -> Tally:
    """What both hold; CopyDiffersError names the first differences."""
    held = await _sum_up(source, Phase.VERIFYING_SOURCE, tell)
    came = await _sum_up(target, Phase.VERIFYING_TARGET, tell)
    differing = held.find_differing(came)
    if differing:
        buckets = frozenset(differing[:MOST_BUCKETS])
        raise CopyDiffersError(await _name_differences(source, target, buckets))
    return held


async def _sum_up(store: PortableStore, phase: Phase, tell: Tell) -> Tally:
    tally = Tally()
    async for records in walk_through(store):
        tally.add(records)
        tell(phase, len(records))
    return tally


async def _name_differences(
    source: PortableStore, target: PortableStore, buckets: Collection[int]
) -> list[str]:
    held, came = await _digest(source, buckets), await _digest(target, buckets)
    told = {
        **dict.fromkeys(held.keys() - came.keys(), "is missing in the target"),
        **dict.fromkeys(came.keys() - held.keys(), "is only in the target"),
        **{name: "differs" for name in held.keys() & came.keys() if held[name] != came[name]},
    }
    return [f"{name} {what}" for name, what in sorted(told.items())][:MOST_NAMED] or [
        "they were equal when looked at again: somebody is writing to them"
    ]


async def _digest(store: PortableStore, buckets: Collection[int]) -> dict[str, bytes]:
    """The digests of the records in some buckets, by name."""
    return {
        name: digest_of(record)
        async for records in walk_through(store)
        for record in records
        if bucket_of(name := name_of(record)) in buckets
    }


async def walk_through(store: PortableStore) -> AsyncIterator[list[Record]]:
    """Everything a store keeps, a portion at a time, without the mark."""
    portion = await store.dump()
    yield without_mark(portion.records)
    while portion.cursor is not None:
        portion = await store.dump(portion.cursor)
        yield without_mark(portion.records)
