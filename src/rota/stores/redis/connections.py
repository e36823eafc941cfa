"""Connections to the server, each used by one call at a time.

A server may fall silent without a word. Whoever has a connection waits for an answer, or for a new
connection, only so long; whoever waits for one of those is told at once when it comes to that. So
however many call, each knows within the time for connecting and answering together.
"""

import asyncio
import socket
from asyncio import Lock, Semaphore
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hiredis import pack_command
from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import MovedError, NoScriptError, TryAgainError
from redis.retry import Retry as PatientRetry

from rota.errors import InvalidInputError, StoreUnavailableError
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.scripts import Script
from rota.stores.redis.sentinel.connections import following_options, patient_following_options
from rota.stores.redis.sentinel.lookout import Lookout
from rota.stores.redis.translation import (
    DRIVER_ERRORS,
    LOST_CONNECTION,
    NOTHING_WRITTEN,
    SILENCE,
    UNKNOWN,
    must_reconnect,
    translate,
)

MOST_TRIES = 5
"""How often a call is made, while a cluster sends it from one server to the next."""

MOST_ARGUMENTS = 1_000_000
"""A server hangs up on a command with more than 1,048,576 parts."""

Examine = Callable[[Callable[..., Awaitable[Any]]], Awaitable[None]]
"""Asks a server what it is, by the commands it is handed a way to send; raises if it is no good."""

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds, seconds and number of the signs of life by which the system finds a dead connection."""


class _Call(NamedTuple):
    """A command, the whole of it if the server may not know it, and whether it may be repeated.

    A script that may not writes: it is done when enough replicas have it.
    """

    command: tuple[Any, ...]
    whole: tuple[Any, ...]
    is_repeatable: bool
    is_writing: bool = False


class Connections:
    """Up to so many connections; one that a call is in doubt about is not used again.

    On a cluster all keys of a store are on one server. When the cluster says that it is another
    one, that is where every later connection goes; when nobody is there any more, the server of
    the address is asked again. With Sentinels, connections lead to the primary that they name.

    A server is examined before it is asked for anything, and so is each that comes in its place.
    """

    def __init__(self, settings: RedisSettings, examine: Examine | None = None) -> None:
        self._settings = settings
        self._factory = make_factory(settings)
        self._home = dict(self._factory.connection_kwargs)
        self._idle: list[Connection] = []
        self._free = Semaphore(settings.connection_count)
        self._silence_count = 0
        """How often the server was waited for in vain."""
        self._lookout: Lookout | None = self._factory.connection_kwargs.get("lookout")
        self._examine = examine
        self._examining = Lock()
        self._examined: tuple[Any, ...] | None = None
        """Where the server is that was found to be good."""

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
        if len(arguments) > MOST_ARGUMENTS:
            raise InvalidInputError(
                f"Redis takes up to {MOST_ARGUMENTS:,} parts in one call, and {script.name} would "
                f"need {len(arguments):,}: ask for less at once",
                {"field": "arguments", "script": script.name},
            )
        short = ("EVALSHA", script.digest, *arguments)
        whole = ("EVAL", script.text, *arguments)
        return await self._run(_Call(short, whole, is_repeatable, not is_repeatable))

    async def close(self) -> None:
        """Let all connections go; no call is under way any more."""
        while self._idle:
            with suppress(*DRIVER_ERRORS):
                await self._idle.pop().disconnect()

    async def connect(self) -> Connection:
        """A new connection, apart from the others; raises one of DRIVER_ERRORS."""
        connection: Connection = self._factory.make_connection()  # type: ignore[no-untyped-call] # the driver's
        try:
            async with asyncio.timeout(self._settings.connect_for.total_seconds()):
                await connection.connect()  # type: ignore[no-untyped-call] # the driver's
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def _run(self, call: "_Call") -> Any:
        silence_count = self._silence_count
        async with self._free:
            if self._silence_count != silence_count:  # whoever had the connection waited in vain
                raise translate(TimeoutError(), self._settings.label, NOTHING_WRITTEN)
            for _ in range(MOST_TRIES):
                try:
                    return await self._ask(call)
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
        if must_reconnect(error):  # what befell one connection has befallen the others
            await self._let_idle_go()
        if isinstance(error, SILENCE):
            self._silence_count += 1
        elif isinstance(error, LOST_CONNECTION) and call.is_repeatable:
            return call._replace(is_repeatable=False)
        raise translate(error, self._settings.label) from error

    async def _ask(self, call: "_Call") -> Any:
        connection = await self._connected()
        is_sound = False
        try:
            async with asyncio.timeout(self._settings.answer_for.total_seconds()):
                if self._examine is not None and self._examined != _place_of(connection):
                    await self._examine_server(connection, self._examine)
                # The driver would write a long command in Python, which takes ten times as long.
                await connection.send_packed_command(pack_command(call.command))
                answer = await connection.read_response()
                if call.is_writing and self._settings.replica_count:
                    await self._await_replicas(connection)
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

    async def _examine_server(self, connection: Connection, examine: Examine) -> None:
        async def ask(*command: Any) -> Any:
            await connection.send_command(*command)
            return await connection.read_response()

        async with self._examining:  # whoever waited here need not ask again
            if self._examined != _place_of(connection):
                await examine(ask)
                self._examined = _place_of(connection)

    async def _await_replicas(self, connection: Connection) -> None:
        """Return when enough replicas have all that was written here."""
        settings = self._settings
        patience = int(settings.answer_for.total_seconds() * 500)  # ms: half of what there is
        await connection.send_command("WAIT", settings.replica_count, patience)
        count = int(await connection.read_response())
        if count < settings.replica_count:
            reason = f"only {count} of {settings.replica_count} replicas have what was written"
            raise StoreUnavailableError(
                f"The store {settings.label} is not available: {reason}",
                {"store": settings.label, "reason": reason, "outcome": UNKNOWN},
            )

    async def _connected(self) -> Connection:
        """A connection that works, as far as one can tell without asking the server."""
        if self._lookout is not None:
            await self._lookout.look_again()
        while self._idle:
            connection = self._idle.pop()
            if self._may_be_used(connection) and not await _has_ended(connection):
                return connection
            await connection.disconnect(nowait=True)
        try:
            return await self._connect_or_go_home()
        except DRIVER_ERRORS as error:
            self._silence_count += isinstance(error, SILENCE)
            raise translate(error, self._settings.label, NOTHING_WRITTEN) from error

    def _may_be_used(self, connection: Connection) -> bool:
        if self._lookout is not None and self._lookout.primary != _place_of(connection):
            return False  # a primary of yesterday may not know yet that he was replaced
        return bool(connection.is_connected)

    async def _connect_or_go_home(self) -> Connection:
        try:
            return await self.connect()
        except DRIVER_ERRORS:
            if self._factory.connection_kwargs == self._home:
                raise
        self._factory.connection_kwargs.update(self._home)
        return await self.connect()

    async def _follow(self, moved: MovedError) -> None:
        place = {"port": moved.port} | ({"host": moved.host} if moved.host else {})
        self._factory.connection_kwargs.update(place)
        await self._let_idle_go()

    async def _let_idle_go(self) -> None:
        self._idle, left = [], self._idle
        for connection in left:
            await connection.disconnect(nowait=True)


def _place_of(connection: Any) -> tuple[Any, ...]:
    """Where a connection leads; all sockets of this machine are one place."""
    return (getattr(connection, "host", None), getattr(connection, "port", None))


async def _has_ended(connection: Connection) -> bool:
    """Whether the server has closed the connection, or said something that nobody asked for."""
    try:
        return bool(await connection.can_read())
    except DRIVER_ERRORS:
        return True


def make_factory(settings: RedisSettings) -> ConnectionPool:
    """What makes connections as the address says. How long to wait is for their user to say."""
    options = connection_options(settings, Retry) | {"socket_timeout": None}
    return ConnectionPool.from_url(settings.url, **options)


def connection_options(
    settings: RedisSettings, retry: type[Retry] | type[PatientRetry]
) -> dict[str, Any]:
    """What every connection has in common, whichever side of the driver makes it.

    The driver would send a command again when its answer is lost, whatever the command does.
    """
    return {
        **_following_options(settings, is_patient=retry is PatientRetry),
        "protocol": 2,
        "retry": retry(NoBackoff(), 0),
        "socket_connect_timeout": settings.connect_for.total_seconds(),
        "socket_timeout": settings.answer_for.total_seconds(),
        **({} if settings.url.startswith("unix") else _keepalive_options()),
    }


def _following_options(settings: RedisSettings, *, is_patient: bool) -> dict[str, Any]:
    if settings.sentinels is None:
        return {}
    ask_for = settings.connect_for.total_seconds() / 2
    options = patient_following_options if is_patient else following_options
    return options(settings.sentinels, ask_for)


def _keepalive_options() -> dict[str, Any]:
    names = [name for name in _KEEPALIVE if hasattr(socket, name)]  # not every system has all
    signs = {getattr(socket, name): _KEEPALIVE[name] for name in names}
    return {"socket_keepalive": True, "socket_keepalive_options": signs}
