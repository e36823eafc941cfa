"""Wake-ups between processes, by polling: the servers cannot notify.

A process that made jobs READY adds a row to a small table once it has committed, one for all that
it wrote meanwhile. A process in which someone listens reads the new rows several times a second,
and asks which of the jobs whose end someone awaits have ended. Listeners in the same process are
woken at once. A lost row costs the time until the other process looks for jobs by itself.
"""

import asyncio
from asyncio import Event, Task
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from secrets import token_hex

import msgspec

from rota.errors import StoreError
from rota.jobs import JobId
from rota.stores.kernel.unit import Partition
from rota.stores.mysql.connections import Database, Session
from rota.stores.mysql.queries import QUERIES
from rota.stores.protocol import Listener
from rota.stores.rows import Row
from rota.stores.wakeups import Wakeups

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


def encode_places(partitions: Collection[Partition]) -> bytes | None:
    """The content of a row; None for all partitions."""
    return _encode(sorted(partitions)) if len(partitions) <= MOST_PLACES else None


class Notices:
    """Wakes the listeners of this process, and lets other processes know."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wakeups = Wakeups()
        self._name = token_hex(8)
        self._tasks: set[Task[None]] = set()
        self._poller: Task[None] | None = None
        self._sender: Task[None] | None = None
        self._listening: dict[Listener, tuple[str, Collection[JobId]]] = {}
        """With the tenant and ids of the jobs whose end it awaits."""
        self._unsent: set[Partition] = set()
        self._seen: dict[int, None] = {}
        self._is_closed = Event()

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> AsyncIterator[Listener]:
        async with (
            self._wakeups.listen(queues, tenants) as listener,
            self._polling(listener, "", ()),
        ):
            yield listener

    @asynccontextmanager
    async def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AsyncIterator[Listener]:
        wanted = frozenset(job_ids)
        async with (
            self._wakeups.listen_for_end(job_ids) as listener,
            self._polling(listener, tenant, wanted),
        ):
            yield listener

    def notify(self, ready: Collection[Partition], ended: Collection[JobId] = ()) -> None:
        """Jobs there are READY, and these have ended, and that is committed."""
        self._wakeups.ring_partitions(ready)
        self._wakeups.ring_ends(ended)
        if ready:
            self._unsent |= set(ready)
            if self._sender is None:
                self._sender = self._start(self._send())

    async def close(self) -> None:
        """Send what is unsent; listeners learn that the store is closed."""
        self._wakeups.close()
        self._is_closed.set()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[None, None, None]) -> Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _send(self) -> None:
        """Add a row about all that is unsent, until nothing is."""
        while self._unsent:
            row = (self._name, encode_places(self._unsent))
            self._unsent = set()

            async def send(session: Session, row: Row = row) -> None:
                await session.write(QUERIES.add_wakeup, [row])

            with suppress(StoreError):  # others look for jobs by themselves
                await self._database.run(send)
            await self._pause(SEND_EVERY)
        self._sender = None

    @asynccontextmanager
    async def _polling(
        self, listener: Listener, tenant: str, job_ids: Collection[JobId]
    ) -> AsyncIterator[None]:
        """Poll while anyone listens. Rows that exist already are not news."""
        if self._poller is None:
            with suppress(StoreError):
                await self._read_rows()
        self._listening[listener] = tenant, job_ids
        if self._poller is None:
            self._poller = self._start(self._poll())
        try:
            yield
        finally:
            del self._listening[listener]

    async def _poll(self) -> None:
        while self._listening and not self._is_closed.is_set():
            await self._pause(POLL_EVERY)
            with suppress(StoreError):
                for sender, places in await self._read_rows():
                    self._ring(sender, places)
                for tenant, job_ids in list(self._listening.values()):
                    await self._ring_ends(tenant, job_ids)
        self._poller = None

    def _ring(self, sender: str, places: bytes | None) -> None:
        if places is None:
            self._wakeups.ring_everywhere()
        elif sender != self._name:
            self._wakeups.ring_partitions(_decode(places))

    async def _read_rows(self) -> list[tuple[str, bytes | None]]:
        """Rows that were not there before. A lower number may be committed after a higher one."""
        after = max(self._seen, default=MOST_ROWS) - MOST_ROWS
        rows = await self._database.run(
            lambda session: session.fetch(QUERIES.read_wakeups, after=after)
        )
        new = [(sender, places) for number, sender, places in rows if number not in self._seen]
        self._seen = dict.fromkeys(number for number, _, _ in rows)
        if len(rows) > 2 * MOST_ROWS:
            before = max(self._seen) - MOST_ROWS
            await self._database.run(
                lambda session: session.fetch(QUERIES.trim_wakeups, before=before)
            )
        return new

    async def _ring_ends(self, tenant: str, job_ids: Collection[JobId]) -> None:
        rows = await self._database.run(
            lambda session: session.fetch(QUERIES.find_unended, ids=sorted(job_ids), tenant=tenant)
        )
        unended = {job_id for (job_id,) in rows}
        self._wakeups.ring_ends(each for each in job_ids if each not in unended)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_closed.wait()
