"""Wake-ups between processes: the script that makes a job READY publishes where.

The server passes messages on and keeps none. A lost message costs the time until the next poll;
after a lost connection all listeners wake up.
"""

import asyncio
from asyncio import Event, Task
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from math import inf
from secrets import token_hex
from typing import Any

import msgspec

from rota.clock.idle import in_flight
from rota.stores.kernel.unit import Partition
from rota.stores.protocol import Listener
from rota.stores.redis.database import Database
from rota.stores.redis.translation import DRIVER_ERRORS
from rota.stores.wakeups import Place, Wakeups

LONGEST_PAUSE = 5.0
"""Seconds between attempts to reach a server; the first pause is a tenth of a second."""

_SENDER_LENGTH = 16
_decode = msgspec.json.Decoder(list[Place]).decode


class Notices:
    """The listeners of this process, and the messages of other processes."""

    def __init__(self, database: Database) -> None:
        self.sender = token_hex(_SENDER_LENGTH // 2)
        self._database = database
        self._silent_for = database.settings.answer_for.total_seconds() / 2
        """Seconds of silence before the server is asked for an answer, and to wait for that."""
        self._wakeups = Wakeups()
        self._hearing: Task[None] | None = None
        self._has_tried = Event()

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> AsyncIterator[Listener]:
        """A listener; if the server can be reached, it hears other processes from the start."""
        async with self._wakeups.listen(queues, tenants) as listener:
            if self._hearing is None:
                self._hearing = asyncio.create_task(self._hear())
            with in_flight():
                await self._has_tried.wait()
            yield listener

    def ring(self, partitions: Collection[Partition]) -> None:
        """Wake the listeners of this process: a script has told the other processes."""
        self._wakeups.ring_partitions(partitions)

    async def close(self) -> None:
        """End all waits: nothing more will come."""
        self._wakeups.close()
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait([self._hearing])

    async def _hear(self) -> None:
        """Listen for ever, on one connection after the other."""
        pause = 0.1
        while True:
            is_first = not self._has_tried.is_set()
            with suppress(*DRIVER_ERRORS):
                await self._hear_until_lost(is_first=is_first)
                pause = 0.1
            self._has_tried.set()
            await _wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _hear_until_lost(self, *, is_first: bool) -> None:
        connection = await self._database.connections.connect()
        try:
            async with asyncio.timeout(self._silent_for):
                await connection.send_command("SUBSCRIBE", self._database.keys.channel)
                await connection.read_response()
            self._has_tried.set()
            if not is_first:  # messages may have been lost meanwhile
                self._wakeups.ring_everywhere()
            await self._receive_all(connection)
        finally:
            await connection.disconnect(nowait=True)

    async def _receive_all(self, connection: Any) -> None:
        """Receive messages; a ping now and then finds out about a silent loss."""
        is_asked = False
        while True:
            try:
                async with asyncio.timeout(self._silent_for):
                    said = await connection.read_response(timeout=inf, disconnect_on_error=False)
            except TimeoutError:
                if is_asked:
                    return
                await connection.send_command("PING")
                is_asked = True
                continue
            is_asked = False
            if said[0] == b"message":
                self._receive(said[2])

    def _receive(self, message: bytes) -> None:
        if message[:_SENDER_LENGTH].decode(errors="replace") == self.sender:
            return
        try:
            self._wakeups.ring_at(_decode(message[_SENDER_LENGTH:]))
        except msgspec.MsgspecError:  # from a later version, or from another program
            self._wakeups.ring_everywhere()


async def _wait(seconds: float) -> None:
    """Let real time pass."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await Event().wait()
