"""Everything a store keeps, a portion at a time: the next one is read while one is dealt with."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias

from rota.copying.traces import without_traces
from rota.stores.protocol import PortableStore, Portion, Record

Portions: TypeAlias = AsyncIterator[Portion]


@asynccontextmanager
async def read_portions(
    store: PortableStore, cursor: str | None = None
) -> AsyncGenerator[Portions, None]:
    """The portions from a cursor on; none is being read any more when the context is left."""
    async with aclosing(_read_ahead(store, cursor)) as portions:
        yield portions


async def walk_through(store: PortableStore) -> AsyncGenerator[list[Record], None]:
    """All records, without those that are a copy's own."""
    async with read_portions(store) as portions:
        async for portion in portions:
            yield without_traces(portion.records)


async def _read_ahead(store: PortableStore, cursor: str | None) -> AsyncGenerator[Portion, None]:
    coming = asyncio.ensure_future(store.dump(cursor))
    try:
        while True:
            portion = await coming
            if portion.cursor is None:
                yield portion
                return
            coming = asyncio.ensure_future(store.dump(portion.cursor))
            yield portion
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
