"""A line to the server: a connection of the driver, without the driver's streams."""

import asyncio
from asyncio import Future, TimerHandle, get_running_loop
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hiredis import Reader, pack_command
from redis._parsers import BaseParser
from redis.asyncio import Connection
from redis.exceptions import ConnectionError as LostError
from redis.exceptions import InvalidResponse

from rota.stores.redis.translation import DRIVER_ERRORS

_NOTHING = object()


class Line(asyncio.Protocol):
    """Asks one command at a time, or hears messages.

    The driver connects: it knows users, databases, encryption and Sentinels. Then the line takes
    the connection over, because a call through the driver's streams takes three times as long.
    ``place`` is where it leads; all sockets of this machine are one place.
    """

    def __init__(self, connection: Connection) -> None:
        self.place = (getattr(connection, "host", None), getattr(connection, "port", None))
        taken: Any = connection
        # The driver has no other way. Its writer is kept: it would close a connection it leaves.
        self._writer, taken._reader, taken._writer = taken._writer, None, None  # noqa: SLF001
        self._transport = self._writer.transport
        self._loop = get_running_loop()
        self._reader = Reader(
            protocolError=InvalidResponse, replyError=BaseParser.parse_error, notEnoughData=_NOTHING
        )
        self._answer: Future[Any] | None = None
        self._alarm: TimerHandle | None = None
        self._hear: Callable[[Any], None] | None = None
        self.lost: Future[None] = self._loop.create_future()
        """Done when the connection is closed, by either side."""
        self._transport.set_protocol(self)

    @property
    def is_free(self) -> bool:
        """Whether it can be asked: it is open, and no answer is due."""
        return self._answer is None and not self.lost.done()

    def ask(self, deadline: float, *command: Any) -> "Future[Any]":
        """The server's answer. TimeoutError if none comes until then, in the time of the loop.

        The command is sent at once. It is carried out even if the caller does not wait.
        """
        # First, as no answer is due to what cannot be sent. The driver would pack a long command in
        # Python, which takes ten times as long.
        packed = pack_command(command)
        answer = self._answer = self._loop.create_future()
        if self.lost.done():
            self._fail(LostError("Connection closed by server."))
            return answer
        self._alarm = self._loop.call_at(deadline, self._give_up)
        self._transport.write(packed)
        return answer

    async def settle(self) -> None:
        """Wait for an answer that is still due although its caller was cancelled."""
        if not (self._answer is None or self.lost.done()):
            self._answer = self._loop.create_future()
            with suppress(*DRIVER_ERRORS):
                await self._answer

    def tell(self, *command: Any) -> None:
        """Send a command; its answer comes among what is heard."""
        self._transport.write(pack_command(command))

    def hear(self, receive: Callable[[Any], None]) -> None:
        """From now on pass on whatever the server says, refusals too."""
        self._hear = receive

    def close(self) -> None:
        """Close at once: with TLS, each side would wait for the other's goodbye."""
        self._transport.abort()
        self._end(None)

    def data_received(self, received: bytes) -> None:
        """Called by the event loop."""
        self._reader.feed(received)
        try:
            while (said := self._reader.gets()) is not _NOTHING:
                self._take(said)
        except InvalidResponse as error:
            self._end(error)
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop."""
        self._end(error)

    def _take(self, said: Any) -> None:
        if self._hear is not None:
            self._hear(said)
        elif self._answer is None:  # unasked, so the next answer may not be the one that is due
            self.close()
        elif isinstance(said, Exception):
            self._fail(said)
        else:
            answer = self._release()
            if not answer.done():  # else its caller was cancelled
                answer.set_result(said)

    def _release(self) -> "Future[Any]":
        answer, self._answer = self._answer, None
        if self._alarm is not None:
            self._alarm.cancel()
        return answer  # type: ignore[return-value] # the callers know that there is one

    def _fail(self, error: Exception) -> None:
        answer = self._release()
        if not answer.done():
            answer.set_exception(error)

    def _give_up(self) -> None:
        self._fail(TimeoutError())
        self.close()

    def _end(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
        if self._answer is not None:
            reason = error if isinstance(error, DRIVER_ERRORS) else None
            self._fail(reason or LostError("Connection closed by server."))
