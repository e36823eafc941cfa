"""Wake-ups between processes, through a small capped collection that listeners tail.

A process writes where jobs became READY after it has committed. If it has been quiet, it does so
before the call returns: a process may end right after an insert. Else it writes once for everything
that it committed in the last hundredth of a second. So a burst of inserts costs few wake-ups. A
wake-up that is lost costs the time until the next poll.
"""

import asyncio
from asyncio import Event, Task, TimerHandle
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from bson import ObjectId
from pymongo import CursorType, WriteConcern
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from rota.clock.loop import in_flight
from rota.errors import StoreError
from rota.jobs import JobId, JobStatus
from rota.stores.kernel.unit import Partition
from rota.stores.mongo.connection import BY_ID, WAKEUPS, Connection, Raw
from rota.stores.protocol import Listener
from rota.stores.wakeups import Wakeups, wait_for

AWAIT_FOR = 5_000
"""Milliseconds that the server waits for a new document before it answers that there is none."""
SENT_EVERY = 0.01
"""Seconds after a message until the next one; what is rung meanwhile goes into one message."""
SENT_WITHIN = 0.1
"""Seconds that a call waits for its message to be sent; then the message goes on without it."""
LONGEST_PAUSE = 5.0
"""Seconds between two attempts to reach the server; at first a tenth."""
_OPEN = {"$in": [str(status) for status in JobStatus if not status.is_terminal]}


class _News(NamedTuple):
    """What other processes are to hear: where jobs became READY, and which jobs ended."""

    partitions: set[Partition]
    ended: set[JobId]


class _Outbox:
    """What other processes are to hear, and when the next message is sent."""

    def __init__(self, connection: Connection) -> None:
        self.sender = ObjectId()
        self._connection = connection
        self._collection = connection.database[WAKEUPS].with_options(
            write_concern=WriteConcern(w=0)
        )
        self._unsent = _News(set(), set())
        self._next_at = 0.0
        """When the next message may be sent, in the time of the loop."""
        self._timer: TimerHandle | None = None

    async def post(self, partitions: Collection[Partition], ended: Collection[JobId]) -> None:
        """Send this now, or with the next message if the last one was just sent."""
        self._unsent.partitions.update(partitions)
        self._unsent.ended.update(ended)
        loop = asyncio.get_running_loop()
        if loop.time() >= self._next_at:
            await asyncio.wait({self._connection.start(self._send)}, timeout=SENT_WITHIN)
        elif self._timer is None and any(self._unsent):
            self._timer = loop.call_at(self._next_at, self._connection.start, self._send)

    async def close(self) -> None:
        """Send what is left."""
        if self._timer is not None:
            self._timer.cancel()
        await self._connection.run(self._send)

    async def _send(self) -> None:
        """Notify other processes; they poll if this fails."""
        self._timer = None
        if not any(self._unsent):
            return
        self._next_at = asyncio.get_running_loop().time() + SENT_EVERY
        news, self._unsent = self._unsent, _News(set(), set())
        message = {"partitions": sorted(news.partitions), "ended": sorted(news.ended)}
        with suppress(PyMongoError, OSError):
            await self._collection.insert_one({"sender": self.sender, **message})


class MongoWakeups:
    """The listeners of this process, and the way to those of other processes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._collection = connection.database[WAKEUPS].with_options(
            read_concern=ReadConcern("local"), write_concern=WriteConcern(w=1)
        )
        self._local = Wakeups()
        self._outbox = _Outbox(connection)
        self._tailing: Task[None] | None = None
        self._has_tried = Event()
        self._start: ObjectId | None = None
        self._is_closed = False

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> AsyncIterator[Listener]:
        """A listener; it hears other processes from the start if the server can be reached."""
        async with self._local.listen(queues, tenants) as listener:
            await self._start_tailing()
            yield listener

    async def _start_tailing(self) -> None:
        if self._tailing is None:
            self._tailing = asyncio.create_task(self._tail())
        with in_flight():
            await self._has_tried.wait()

    @asynccontextmanager
    async def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AsyncIterator[Listener]:
        """A listener for the end of these jobs.

        The jobs are marked as watched: a process that ends one of them notifies the others. Either
        it sees the mark, or the mark comes too late and the job shows its end.
        """
        async with self._local.listen_for_end(job_ids) as listener:
            await self._start_tailing()
            where = {"_id": {"$in": sorted(set(job_ids))}, "tenant": tenant, "status": _OPEN}
            with suppress(StoreError):  # then the caller polls
                await self._connection.run(lambda: self._mark(where))
            yield listener

    async def _mark(self, where: Raw) -> None:
        jobs = self._connection.jobs.with_options(write_concern=WriteConcern(w=1))
        await jobs.update_many(where, {"$set": {"watched": True}}, hint=BY_ID)

    async def ring(
        self,
        partitions: Iterable[Partition],
        ended: Collection[JobId] = (),
        watched: Collection[JobId] = (),
    ) -> None:
        """There may be jobs to lease in these partitions, and these jobs have ended.

        Other processes hear of the end of those that are ``watched``. Call it within
        ``Connection.run``, so that a cancelled caller does not keep them from hearing.
        """
        ready = set(partitions)
        self._local.ring_partitions(ready)
        self._local.ring_ends(ended)
        await self._outbox.post(ready, watched)

    async def close(self) -> None:
        """Stop listening, and wake the listeners of this process."""
        self._is_closed = True  # the driver may not pass on that a task was cancelled
        self._local.close()
        await self._outbox.close()
        if self._tailing is not None:
            self._tailing.cancel()
            await asyncio.wait([self._tailing])

    async def _tail(self) -> None:
        pause = 0.1
        while not self._is_closed:
            with suppress(PyMongoError, OSError, StoreError):
                async for raw in self._read_new():
                    pause = 0.1
                    self._hear(raw)
            self._has_tried.set()
            await wait_for(Event(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _read_new(self) -> AsyncIterator[Raw]:
        """What is in the collection, and what is written from now on."""
        self._start = ObjectId()
        await self._collection.insert_one({"_id": self._start, "sender": self._outbox.sender})
        cursor = self._collection.find({}, cursor_type=CursorType.TAILABLE_AWAIT)
        cursor.max_await_time_ms(AWAIT_FOR)
        async with cursor:
            while cursor.alive and not self._is_closed:
                for raw in await cursor.to_list(1):
                    yield raw

    def _hear(self, raw: Raw) -> None:
        """Wake listeners. What was written before this process began to read is old."""
        if raw["_id"] == self._start:
            self._start = None
            if self._has_tried.is_set():  # wake-ups may have been missed since the last time
                self._local.ring_everywhere()
            self._has_tried.set()
        elif self._start is None and raw["sender"] != self._outbox.sender:
            self._local.ring_partitions(
                (tenant, queue) for tenant, queue in raw.get("partitions", ())
            )
            self._local.ring_ends(raw.get("ended", ()))
