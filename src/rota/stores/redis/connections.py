"""Connections to the server, each used by one call at a time."""

from asyncio import Semaphore
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import MovedError, NoScriptError, TryAgainError
from redis.retry import Retry as PatientRetry

from rota.stores.redis.address import RedisSettings
from rota.stores.redis.scripts import Script
from rota.stores.redis.translation import (
    DRIVER_ERRORS,
    LOST_CONNECTION,
    NOTHING_WRITTEN,
    must_reconnect,
    translate,
)

MOST_TRIES = 5
"""How often a call is made, while a cluster sends it from one server to the next."""


class _Call(NamedTuple):
    """A command, the whole of it if the server may not know it, and whether it may be repeated."""

    command: Sequence[Any]
    whole: Sequence[Any]
    is_repeatable: bool


class Connections:
    """Up to so many connections; one that a call is in doubt about is not used again.

    On a cluster all keys of a store are on one server. When the cluster says that it is another
    one, that is where every later connection goes.
    """

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._factory = make_factory(settings)
        self._idle: list[Connection] = []
        self._free = Semaphore(settings.connection_count)

    async def call(self, *command: Any) -> Any:
        """What the server answers to a command that may be sent twice."""
        return await self._run(_Call(command, command, is_repeatable=True))

    async def run_script(
        self, script: Script, arguments: Sequence[Any], *, is_repeatable: bool
    ) -> Any:
        """What a script answers. ``arguments`` begin with the number of keys.

        Raises StoreUnavailableError. When the answer is lost, a script that may be repeated is run
        once more; of others nobody knows then whether they were carried out.
        """
        short = ("EVALSHA", script.digest, *arguments)
        return await self._run(_Call(short, ("EVAL", script.text, *arguments), is_repeatable))

    async def close(self) -> None:
        """Let all connections go; no call is under way any more."""
        while self._idle:
            with suppress(*DRIVER_ERRORS):
                await self._idle.pop().disconnect()

    def make_connection(self) -> Connection:
        """A connection apart from the others, not yet connected."""
        made: Connection = self._factory.make_connection()  # type: ignore[no-untyped-call] # the driver's
        return made

    async def _run(self, call: "_Call") -> Any:
        async with self._free:
            for _ in range(MOST_TRIES):
                try:
                    return await self._ask(call.command)
                except DRIVER_ERRORS as error:
                    call = await self._try_otherwise(call, error)
        raise translate(TryAgainError(), self._settings.label)

    async def _try_otherwise(self, call: "_Call", error: Exception) -> "_Call":
        """How the call may succeed all the same; else the error, in our words."""
        if isinstance(error, NoScriptError):  # from then on the server remembers it
            return call._replace(command=call.whole)
        if isinstance(error, MovedError):
            await self._follow(error)
            return call
        if isinstance(error, LOST_CONNECTION) and call.is_repeatable:
            return call._replace(is_repeatable=False)
        raise translate(error, self._settings.label) from error

    async def _ask(self, command: Sequence[Any]) -> Any:
        connection = await self._connected()
        is_sound = False
        try:
            await connection.send_command(*command)
            answer = await connection.read_response()
            is_sound = True
        except DRIVER_ERRORS as error:
            is_sound = not must_reconnect(error)
            raise
        else:
            return answer
        finally:
            # Also when the task is cancelled: an answer that is still to come is for nobody else.
            if is_sound:
                self._idle.append(connection)
            else:
                await connection.disconnect(nowait=True)

    async def _connected(self) -> Connection:
        """A connection that works, as far as one can tell without asking the server."""
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_connected and not await _has_ended(connection):
                    return connection
                await connection.disconnect(nowait=True)
            connection = self.make_connection()
            await connection.connect()  # type: ignore[no-untyped-call] # the driver's
        except DRIVER_ERRORS as error:
            raise translate(error, self._settings.label, NOTHING_WRITTEN) from error
        return connection

    async def _follow(self, moved: MovedError) -> None:
        self._factory.connection_kwargs.update(host=moved.host, port=moved.port)
        self._idle, left = [], self._idle
        for connection in left:
            await connection.disconnect(nowait=True)


async def _has_ended(connection: Connection) -> bool:
    """Whether the server has closed the connection, or said something that nobody asked for."""
    try:
        return bool(await connection.can_read())
    except DRIVER_ERRORS:
        return True


def make_factory(settings: RedisSettings) -> ConnectionPool:
    """What makes connections as the address says."""
    return ConnectionPool.from_url(settings.url, **connection_options(settings, Retry))


def connection_options(
    settings: RedisSettings, retry: type[Retry] | type[PatientRetry]
) -> dict[str, Any]:
    """What every connection has in common, whichever side of the driver makes it.

    The driver would send a command again when its answer is lost, whatever the command does.
    """
    return {
        "protocol": 2,
        "retry": retry(NoBackoff(), 0),
        "socket_connect_timeout": settings.connect_for.total_seconds(),
        "socket_timeout": settings.answer_for.total_seconds(),
        **({} if settings.url.startswith("unix") else {"socket_keepalive": True}),
    }
