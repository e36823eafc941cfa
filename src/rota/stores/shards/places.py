"""One process at a time leases under caps that several shards share.

Such a cap counts running jobs on all shards. Between the count and the leases no other process may
lease in the same scopes. A document on the home shard says which process does, and until when.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from secrets import token_hex

import msgspec

from rota.errors import StoreUnavailableError
from rota.jobs.record import Instant
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentWrite
from rota.stores.shards.placement import COLLECTION

HELD_FOR = timedelta(seconds=20)
"""A process that died while it leased keeps others from these scopes for that long."""

DONE_WITHIN = 5.0
"""Seconds after which a process gives up its calls: long before another may begin."""

_KEY = "places"


class _Holder(msgspec.Struct, frozen=True):
    by: str
    until: Instant


class Places:
    """The right to lease under shared caps."""

    def __init__(self, home: OpenStore) -> None:
        self._home = home
        self._name = token_hex(8)
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def hold(self, now: datetime) -> AsyncIterator[bool]:
        """Whether this process has the right, while the context lasts.

        The calls inside raise StoreUnavailableError if they take too long.
        """
        async with self._turn:
            version = await self._take(now)
            try:
                async with asyncio.timeout(DONE_WITHIN):
                    yield version is not None
            except TimeoutError as error:
                raise StoreUnavailableError(
                    f"Leasing under shared limits took longer than {DONE_WITHIN:g} s",
                    {"outcome": "unknown"},
                ) from error
            finally:
                if version is not None:
                    await self._give_back(version, now)

    async def _take(self, now: datetime) -> int | None:
        """The version of the document that says so; None if another process has the right."""
        found = (await self._home.read(COLLECTION, [_KEY])).get(_KEY)
        if found is not None and msgspec.json.decode(found.body, type=_Holder).until > now:
            return None
        body = msgspec.json.encode(_Holder(self._name, now + HELD_FOR))
        expected = None if found is None else found.version
        (version,) = await self._home.write_each([DocumentWrite(COLLECTION, _KEY, expected, body)])
        return version

    async def _give_back(self, version: int, now: datetime) -> None:
        """Stale if another process has taken over meanwhile; then there is nothing to give.

        The document stays: removed and created again it would have the same versions again.
        """
        body = msgspec.json.encode(_Holder("", now))
        await self._home.write_each([DocumentWrite(COLLECTION, _KEY, version, body)])
