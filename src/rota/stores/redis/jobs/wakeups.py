"""Wake-ups between processes: the script that makes a job READY tells whoever listens.

The server passes messages on and keeps none. One that is lost costs the time until somebody looks
by himself; after a connection was lost everybody is woken.
"""

import asyncio
from asyncio import Event, Task
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from math import inf
from secrets import token_hex
from typing import Any

import msgspec

from rota.clock.idle import in_flight
from rota.stores.protocol import Listener
from rota.stores.redis.database import Database
from rota.stores.redis.translation import DRIVER_ERRORS
from rota.stores.wakeups import Place, Wakeups

LONGEST_PAUSE = 5.0
"""Seconds between attempts to reach a server that cannot be reached; at first a tenth of one."""

_SENDER_LENGTH = 16
_decode = msgspec.json.Decoder(list[Place]).decode


class Notices:
    """The listeners of this process, and what is told to it by others."""

    def __init__(self, database: Database) -> None:
        self.sender = token_hex(_SENDER_LENGTH // 2)
        self._database = database
        self._patience = database.settings.answer_for.total_seconds() / 2
        """Seconds of silence before the server is asked whether it is there, and to answer that."""
        self._wakeups = Wakeups()
        self._hearing: Task[None] | None = None
        self._has_tried = Event()

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> AsyncIterator[Listener]:
        """A listener; from the beginning it hears other processes too, if the server is there."""
        async with self._wakeups.listen(queues, tenants) as listener:
            if self._hearing is None:
                self._hearing = asyncio.create_task(self._hear())
            with in_flight():
                await self._has_tried.wait()
            yield listener

    def tell(self, messages: Iterable[bytes]) -> None:
        """Tell this process's own listeners what a script has told the others."""
        for message in messages:
            if message:
                self._wakeups.ring_at(_decode(message))

    async def close(self) -> None:
        """Whoever waits learns that nothing more will come."""
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
            async with asyncio.timeout(self._patience):
                await connection.send_command("SUBSCRIBE", self._database.keys.channel)
                await connection.read_response()
            self._has_tried.set()
            if not is_first:  # nobody knows what was told meanwhile
                self._wakeups.ring_everywhere()
            await self._receive_all(connection)
        finally:
            await connection.disconnect(nowait=True)

    async def _receive_all(self, connection: Any) -> None:
        """Take in messages; ask now and then, or a silent loss is not noticed."""
        is_asked = False
        while True:
            try:
                async with asyncio.timeout(self._patience):
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
        except msgspec.MsgspecError:  # of a later version, or of somebody else
            self._wakeups.ring_everywhere()


async def _wait(seconds: float) -> None:
    """Let so many seconds of real time pass."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await Event().wait()
