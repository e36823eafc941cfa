"""Two stores are gone through from the beginning to the end, at the same time, and compared."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from contextlib import aclosing
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from rota.copying.portions import walk_through
from rota.copying.tally import Tally, bucket_of, digest_of, name_of
from rota.stores.protocol import PortableStore

MOST_BUCKETS = 4
"""Of so many buckets the records are looked at again when the two stores are not equal."""

MOST_NAMED = 10
"""So many differences are told."""

Answer = TypeVar("Answer")


class Phase(Enum):
    """What a copy is at."""

    COPYING = "copying"
    VERIFYING_SOURCE = "verifying source"
    VERIFYING_TARGET = "verifying target"


Tell: TypeAlias = Callable[[Phase, int], None]
"""Hears how many more records have been dealt with."""


async def compare(
    source: PortableStore, target: PortableStore, tell: Tell
) -> tuple[Tally, list[str]]:
    """What the source holds, and the first differences; none when the target holds the same."""
    held, came = await _both(
        _sum_up(source, Phase.VERIFYING_SOURCE, tell),
        _sum_up(target, Phase.VERIFYING_TARGET, tell),
    )
    differing = held.find_differing(came)
    buckets = frozenset(differing[:MOST_BUCKETS])
    return held, await _name_differences(source, target, buckets) if buckets else []


async def _sum_up(store: PortableStore, phase: Phase, tell: Tell) -> Tally:
    tally = Tally()
    tell(phase, 0)
    async with aclosing(walk_through(store)) as walk:
        async for records in walk:
            tally.add(records)
            tell(phase, len(records))
    return tally


async def _name_differences(
    source: PortableStore, target: PortableStore, buckets: Collection[int]
) -> list[str]:
    held, came = await _both(_digest(source, buckets), _digest(target, buckets))
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
    async with aclosing(walk_through(store)) as walk:
        return {
            name: digest_of(record)
            async for records in walk
            for record in records
            if bucket_of(name := name_of(record)) in buckets
        }


async def _both(
    first: Coroutine[Any, Any, Answer], second: Coroutine[Any, Any, Answer]
) -> tuple[Answer, Answer]:
    """Both at once; when one fails, the other is given up before anybody hears of it."""
    tasks = [asyncio.create_task(first), asyncio.create_task(second)]
    try:
        one, other = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return one, other
