"""Wake-ups between processes, by polling, for servers that cannot notify.

A process that made jobs READY adds a row to a small table once it has committed, one for all that
it wrote meanwhile. A process in which someone listens reads the new rows several times a second,
and asks which of the jobs whose end someone awaits have ended. Listeners in the same process are
woken at once. A lost row costs the time until the other process looks for jobs by itself.
"""

import asyncio
from asyncio import Event, Task
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from secrets import token_hex
from typing import Any

import msgspec

from rota.errors import StoreError
from rota.jobs import JobId
from rota.stores.kernel.unit import Partition
from rota.stores.protocol import Listener
from rota.stores.rows import Row
from rota.stores.sql.server import Database, ServerSession
from rota.stores.statements import Statements
from rota.stores.wakeups import EndsPoller, Wakeups, wait_for

POLL_EVERY = 0.1
"""Seconds between two questions, while someone listens."""

SEND_EVERY = 0.02
"""Seconds between two rows of one process."""

MOST_PLACES = 50
"""A row about more partitions than this is about all of them."""

MOST_ROWS = 100
"""The table is trimmed to about this many rows."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Partition]).decode


async def announce(
    session: ServerSession, partitions: Collection[Partition], sender: str = ""
) -> None:
    """Add a row about these partitions; without a name, the sender hears of it too."""
    places = _encode(sorted(partitions)) if len(partitions) <= MOST_PLACES else None
    await session.write(session.queries.add_wakeup, [(sender, places)])


class Notices:
    """Wakes the listeners of this process, and lets other processes know."""

    def __init__(self, database: Database, queries: Statements) -> None:
        self._database = database
        self._queries = queries
        self._wakeups = Wakeups()
        self._ends = EndsPoller(self._wakeups, self._find_unended, POLL_EVERY)
        self._name = token_hex(8)
        self._poller: Task[None] | None = None
        self._sender: Task[None] | None = None
        self._unsent: set[Partition] = set()
        self._seen: dict[int, None] = {}
        self._is_closed = Event()

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> AsyncIterator[Listener]:
        """Rows that exist already are not news."""
        async with self._wakeups.listen(queues, tenants) as listener:
            if self._poller is None:
                with suppress(StoreError):
                    await self._read_rows()
            if self._poller is None:
                self._poller = asyncio.create_task(self._poll())
            yield listener

    @asynccontextmanager
    async def listen_for_end(
        self,
        tenant: str,  # noqa: ARG002 - as other stores have it
        job_ids: Collection[JobId],
    ) -> AsyncIterator[Listener]:
        async with self._wakeups.listen_for_end(job_ids) as listener:
            with self._ends.awaiting(job_ids):
                yield listener

    def notify(self, ready: Collection[Partition], ended: Collection[JobId] = ()) -> None:
        """Jobs there are READY, and these have ended, and that is committed."""
        self._wakeups.ring_partitions(ready)
        self._wakeups.ring_ends(ended)
        if ready:
            self._unsent |= set(ready)
            if self._sender is None:
                self._sender = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Send what is unsent; listeners learn that the store is closed."""
        self._wakeups.close()
        self._is_closed.set()
        await self._ends.close()
        if tasks := [each for each in (self._sender, self._poller) if each is not None]:
            await asyncio.wait(tasks)

    async def _send(self) -> None:
        """Add a row about all that is unsent, until nothing is."""
        while self._unsent:
            send = partial(announce, partitions=self._unsent, sender=self._name)
            self._unsent = set()
            with suppress(StoreError):  # others look for jobs by themselves
                await self._database.run(send)
            await wait_for(self._is_closed, SEND_EVERY)
        self._sender = None

    async def _poll(self) -> None:
        while self._wakeups.listeners and not self._is_closed.is_set():
            await wait_for(self._is_closed, POLL_EVERY)
            with suppress(StoreError):
                for sender, places in await self._read_rows():
                    self._ring(sender, places)
        self._poller = None

    def _ring(self, sender: str, places: bytes | None) -> None:
        if places is None:
            self._wakeups.ring_everywhere()
        elif sender != self._name:
            self._wakeups.ring_partitions(_decode(places))

    async def _read_rows(self) -> list[tuple[str, bytes | None]]:
        """Rows that were not there before. A lower number may be committed after a higher one."""
        after = max(self._seen, default=MOST_ROWS) - MOST_ROWS
        rows = await self._fetch(self._queries.read_wakeups, after=after)
        new = [(sender, places) for number, sender, places in rows if number not in self._seen]
        self._seen = dict.fromkeys(number for number, _, _ in rows)
        if len(rows) > 2 * MOST_ROWS:
            await self._fetch(self._queries.trim_wakeups, before=max(self._seen) - MOST_ROWS)
        return new

    async def _find_unended(self, job_ids: Sequence[JobId]) -> list[Row]:
        return await self._fetch(self._queries.find_unended, ids=job_ids)

    async def _fetch(self, statement: str, **values: Any) -> list[Row]:
        return await self._database.run(lambda session: session.fetch(statement, **values))
