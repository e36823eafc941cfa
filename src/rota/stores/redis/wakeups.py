"""Wake-ups between processes: the script that makes a job READY, or ends one, publishes which.

The server passes messages on and keeps none. A lost message costs the time until the next poll;
after a lost connection all listeners wake up. Ends are published only while anyone subscribes.
"""

import asyncio
from asyncio import Event, Task
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from secrets import token_hex
from typing import Any

import msgspec

from rota.clock.loop import in_flight
from rota.jobs import JobId
from rota.stores.kernel.unit import Partition, Writes
from rota.stores.protocol import Listener
from rota.stores.redis.database import Database
from rota.stores.redis.line import Line
from rota.stores.redis.parking import Parking
from rota.stores.redis.translation import DRIVER_ERRORS
from rota.stores.wakeups import Place, Wakeups, wait_for

LONGEST_PAUSE = 5.0
"""Seconds between attempts to reach a server; the first pause is a tenth of a second."""

_SENDER_LENGTH = 16
_ID_LENGTH = 36
_decode = msgspec.json.Decoder(list[Place]).decode


class Notices:
    """The listeners of this process, and the messages of other processes."""

    def __init__(self, database: Database) -> None:
        self.sender = token_hex(_SENDER_LENGTH // 2)
        self._wakeups = Wakeups()
        keys = database.keys
        self.parking = Parking(database, keys.job_key("parked"))
        wake, ends = keys.job_key("wake"), keys.job_key("ends")
        self._ready = _Subscription(database, wake, self._receive_ready, self.parking)
        self._ends = _Subscription(database, ends, self._receive_ends, Parking(database, ends))

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> AsyncIterator[Listener]:
        """A listener; if the server can be reached, it hears other processes from the start."""
        async with self._wakeups.listen(queues, tenants) as listener:
            await self._ready.begin()
            yield listener

    @asynccontextmanager
    async def listen_for_end(
        self,
        tenant: str,  # noqa: ARG002 - as other stores have it
        job_ids: Collection[JobId],
    ) -> AsyncIterator[Listener]:
        """As ``listen``, for the end of jobs."""
        try:
            async with self._wakeups.listen_for_end(job_ids) as listener:
                await self._ends.begin()
                yield listener
        finally:
            if not self._wakeups.awaited:
                await self._ends.end()

    def ring(self, partitions: Collection[Partition]) -> None:
        """Wake the listeners of this process: a script has notified other processes."""
        self._wakeups.ring_partitions(partitions)

    def ring_for(self, writes: Writes) -> None:
        """As ``ring``, for all that was written."""
        self.ring(writes.ready_partitions())
        if self._wakeups.awaited:
            self.ring_ends(writes.ended_jobs())

    def ring_ends(self, job_ids: Collection[JobId]) -> None:
        """As ``ring``, for jobs that have ended."""
        self._wakeups.ring_ends(job_ids)

    async def close(self) -> None:
        """End all waits: nothing more will come."""
        self._wakeups.close()
        await self._ready.end()
        await self._ends.end()

    def _receive_ready(self, message: bytes | None) -> None:
        try:
            if message is not None and not self._is_own(message):
                self._wakeups.ring_at(_decode(message[_SENDER_LENGTH:]))
        except msgspec.MsgspecError:  # from a later version, or from another program
            message = None
        if message is None:
            self._wakeups.ring_everywhere()

    def _receive_ends(self, message: bytes | None) -> None:
        if message is None:
            self._wakeups.ring_everywhere()
        elif not self._is_own(message):
            text = message.decode(errors="replace")
            starts = range(_SENDER_LENGTH, len(text), _ID_LENGTH)
            self._wakeups.ring_ends([text[at : at + _ID_LENGTH] for at in starts])

    def _is_own(self, message: bytes) -> bool:
        return message[:_SENDER_LENGTH].decode(errors="replace") == self.sender


class _Subscription:
    """Passes on the messages of a channel; and None if some may have been lost."""

    def __init__(
        self,
        database: Database,
        channel: str,
        receive: Callable[[bytes | None], None],
        parking: Parking,
    ) -> None:
        """On the same connection workers are parked."""
        self._database = database
        self._channel, self._name = channel, channel.encode()
        self._receive = receive
        self._parking = parking
        self._silent_for = database.settings.answer_for.total_seconds() / 2
        """Seconds of silence before the server is asked for an answer, and to wait for that."""
        self._is_heard = False
        """Whether the server has said anything of late."""
        self._hearing: Task[None] | None = None
        self._has_tried = Event()

    async def begin(self) -> None:
        """Return when messages arrive, or the server could not be reached."""
        if self._hearing is None:
            self._has_tried = Event()
            self._hearing = asyncio.create_task(self._hear())
        with in_flight():
            await self._has_tried.wait()

    async def end(self) -> None:
        """Receive nothing more, until it begins again."""
        hearing, self._hearing = self._hearing, None
        if hearing is not None:
            hearing.cancel()
            self._has_tried.set()
            await asyncio.wait([hearing])

    async def _hear(self) -> None:
        """Listen for ever, on one connection after the other."""
        pause = 0.1
        while True:
            is_first = not self._has_tried.is_set()
            with suppress(*DRIVER_ERRORS):
                await self._hear_until_lost(is_first=is_first)
                pause = 0.1
            self._has_tried.set()
            await wait_for(Event(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _hear_until_lost(self, *, is_first: bool) -> None:
        line = await self._database.connections.connect()
        has_begun = Event()
        try:
            line.hear(partial(self._take, line, has_begun))
            line.tell("SUBSCRIBE", self._channel)
            if await wait_for(has_begun, self._silent_for) and not line.lost.done():
                self._has_tried.set()
                self._parking.open(line)
                if not is_first:  # messages may have been lost meanwhile
                    self._receive(None)
                await self._hear_on(line)
        finally:
            line.close()
            self._parking.close()

    def _take(self, line: Line, has_begun: Event, said: Any) -> None:
        self._is_heard = True
        if not has_begun.is_set():
            has_begun.set()
            if isinstance(said, Exception):  # this user may not listen
                line.close()
        elif not isinstance(said, Exception) and said[:2] == [b"message", self._name]:
            self._receive(said[2])
        else:
            self._parking.hear(said)

    async def _hear_on(self, line: Line) -> None:
        """Return when the connection is lost. A ping now and then finds out about a silent loss."""
        is_asked = False
        while not line.lost.done() and not (is_asked and not self._is_heard):
            is_asked = not self._is_heard
            if is_asked:
                line.tell("PING")
            self._is_heard = False
            await asyncio.wait([line.lost], timeout=self._silent_for)
