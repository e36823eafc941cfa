"""A copy: portion by portion from one store into the other, then both are compared."""

from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from rota.copying.comparing import Phase, Tell, compare
from rota.copying.mark import MarkedTarget
from rota.copying.portions import read_portions, walk_through
from rota.copying.tally import Tally, name_of
from rota.copying.traces import without_traces
from rota.errors import CopyDiffersError, CopyRefusedError
from rota.stores.protocol import PortableStore, Portion

NOTED_AFTER = 2_000
"""After so many records it is noted how far the copy has come; so many may be loaded again."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What is in both stores now, and how it came there.

    ``is_resumed``: a copy that was cut off has been gone on with. ``was_finished``: all was there
    already, and nothing has been written.
    """

    tally: Tally
    is_resumed: bool = False
    was_finished: bool = False


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
    tally, differences = await compare(source, target, tell)
    if differences:
        raise CopyDiffersError(differences)
    await marked.finish()
    return CopyReport(tally, is_resumed=marked.is_resumed)


async def recognise_copy(source: PortableStore, target: PortableStore, tell: Tell) -> CopyReport:
    """Find that ``target`` is a copy of ``source`` already; nothing is written.

    Whoever was cut off when the mark was removed cannot know, and repeats the copy.
    CopyRefusedError when the two are not equal.
    """
    tally, differences = await compare(source, target, tell)
    if differences:
        raise CopyRefusedError(
            "The target is not empty, and is no copy of the source as it is now: "
            f"{'; '.join(differences)}. Name a store that is empty, or empty this one",
            {"differences": differences},
        )
    return CopyReport(tally, was_finished=True)


async def _refuse_content(target: PortableStore, marked: MarkedTarget) -> None:
    """Nothing may have come into the target between looking and marking it."""
    async with aclosing(walk_through(target)) as walk:
        async for records in walk:
            if records:
                await marked.finish()
                raise CopyRefusedError(f"The target is not empty: it holds {name_of(records[0])}")


async def _move(
    source: PortableStore, target: PortableStore, marked: MarkedTarget, now: datetime, tell: Tell
) -> None:
    tell(Phase.COPYING, marked.copied_count)
    count = 0
    async with read_portions(source, marked.cursor) as portions:
        async for portion in portions:
            await _load(portion, target, now)
            count += len(portion.records)
            if count >= NOTED_AFTER or portion.cursor is None:
                await marked.advance(portion.cursor, count)
                count = 0
            tell(Phase.COPYING, len(portion.records))


async def _load(portion: Portion, target: PortableStore, now: datetime) -> None:
    """What an abandoned copy into the source has left there stays there."""
    records = without_traces(portion.records)
    if records:
        await target.load(records, now)
