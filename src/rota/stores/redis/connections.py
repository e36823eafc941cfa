"""Connections to the server, each used by one call at a time.

A server may fall silent. A call waits for an answer, or for a new connection, only for the time in
the settings; calls that wait for its connection then fail at once. So every call ends within the
time for connecting and answering together, however many there are.
"""

import asyncio
import socket
from asyncio import Lock, Semaphore
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hiredis import pack_command
from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError, MovedError, NoScriptError, TryAgainError

from rota.errors import InvalidInputError
from rota.stores.redis.address import DEFAULT_PORT, Place, RedisSettings
from rota.stores.redis.scripts import Script
from rota.stores.redis.sentinel import Lookout, following_options, hang_up
from rota.stores.redis.translation import (
    DRIVER_ERRORS,
    LOST_CONNECTION,
    NOTHING_WRITTEN,
    SILENCE,
    UNKNOWN,
    must_reconnect,
    translate,
    unavailable,
)

MOST_TRIES = 5
"""How often a call is made while a cluster redirects it."""

MOST_ARGUMENTS = 1_000_000
"""A server hangs up on a command with more than 1,048,576 parts."""

_DOUBTFUL = (*LOST_CONNECTION, ClusterDownError)
"""After one of these another node of a cluster may know better."""

Examine = Callable[[Callable[..., Awaitable[Any]]], Awaitable[None]]
"""Is given a way to send commands to a server; raises if the server must not be used."""

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds, seconds and number of the probes by which the system finds a dead connection."""


class _Call(NamedTuple):
    """A command, the text of its script for a server that does not know it, and its kind.

    One that writes is done when enough replicas have the write.
    """

    command: tuple[Any, ...]
    text: str
    is_repeatable: bool
    is_writing: bool = False

    def with_text(self) -> "_Call":
        """The long form, which makes the server remember the script."""
        return self._replace(command=("EVAL", self.text, *self.command[2:]))


class Connections:
    """A limited number of connections; one that a call has failed on is not used again.

    On a cluster all keys of a store are on one server. If the cluster names another server, later
    connections go there; if that cannot be reached, the servers of the address are asked in turn.
    With Sentinels, connections lead to the primary that they name.

    Each server is examined before its first call.
    """

    def __init__(self, settings: RedisSettings, examine: Examine | None = None) -> None:
        self._settings = settings
        self._factory = ConnectionPool.from_url(settings.url, **_connection_options(settings))
        self._homes = settings.nodes or (_read_place(self._factory.connection_kwargs),)
        self._idle: list[Connection] = []
        self._free = Semaphore(settings.connection_count)
        self._silence_count = 0
        """How often the server did not answer in time."""
        self._lookout: Lookout | None = self._factory.connection_kwargs.get("lookout")
        self._examine = examine
        self._examining = Lock()
        self._examined: tuple[Any, ...] | None = None
        """Where the last server is that has passed the examination."""

    async def call(self, *command: Any) -> Any:
        """The server's answer to a command that may be sent twice."""
        return await self._run(_Call(command, "", is_repeatable=True))

    async def run_script(self, script: Script, arguments: Sequence[Any]) -> Any:
        """A script's answer. ``arguments`` begin with the number of keys.

        Raises StoreUnavailableError.
        """
        if len(arguments) > MOST_ARGUMENTS:
            raise InvalidInputError(
                f"Redis takes up to {MOST_ARGUMENTS:,} parts in one call, and {script.name} would "
                f"need {len(arguments):,}: ask for less at once",
                {"field": "arguments", "script": script.name},
            )
        command = ("EVALSHA", script.digest, *arguments)
        return await self._run(_Call(command, script.text, script.is_repeatable, script.is_writing))

    async def close(self) -> None:
        """Close all connections; no call may be under way."""
        while self._idle:
            with suppress(*DRIVER_ERRORS):
                await hang_up(self._idle.pop())

    async def connect(self) -> Connection:
        """A new connection for the caller alone; raises one of DRIVER_ERRORS."""
        connection: Connection = self._factory.make_connection()  # type: ignore[no-untyped-call] # the driver's
        try:
            seconds = self._settings.connect_for.total_seconds()
            async with asyncio.timeout(seconds / len(self._homes)):
                await connection.connect()  # type: ignore[no-untyped-call] # the driver's
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def _run(self, call: _Call) -> Any:
        silence_count = self._silence_count
        async with self._free:
            if self._silence_count != silence_count:  # the call before got no answer
                raise translate(TimeoutError(), self._settings.label, NOTHING_WRITTEN)
            for _ in range(MOST_TRIES):
                try:
                    return await self._ask(call)
                except DRIVER_ERRORS as error:
                    call = await self._recover(call, error)
        raise translate(TryAgainError(), self._settings.label)

    async def _recover(self, call: _Call, error: Exception) -> _Call:
        """How to repeat the call; raises the translated error if it must not be repeated."""
        if isinstance(error, NoScriptError):
            return call.with_text()
        if isinstance(error, MovedError):
            place = {"port": error.port} | ({"host": error.host} if error.host else {})
            self._factory.connection_kwargs.update(place)
            await self._drop_idle()
            return call
        if must_reconnect(error):  # the other connections are probably lost too
            await self._drop_idle()
        if self._settings.nodes and isinstance(error, _DOUBTFUL):
            await self._ask_next_home()
        if isinstance(error, SILENCE):
            self._silence_count += 1
        elif isinstance(error, LOST_CONNECTION) and call.is_repeatable:
            return call._replace(is_repeatable=False)
        raise translate(error, self._settings.label) from error

    async def _ask(self, call: _Call) -> Any:
        connection = await self._connected()
        is_sound = False
        try:
            async with asyncio.timeout(self._settings.answer_for.total_seconds()):
                if self._examine is not None and self._examined != _place_of(connection):
                    await self._examine_server(connection, self._examine)
                # The driver would pack a long command in Python, which takes ten times as long.
                await connection.send_packed_command(pack_command(call.command), check_health=False)
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
            # Also if the task is cancelled: a late answer must not reach another call.
            if is_sound:
                self._idle.append(connection)
            else:
                await connection.disconnect(nowait=True)

    async def _examine_server(self, connection: Connection, examine: Examine) -> None:
        async def ask(*command: Any) -> Any:
            await connection.send_command(*command)
            return await connection.read_response()

        async with self._examining:
            if self._examined != _place_of(connection):  # else another call has done it meanwhile
                await examine(ask)
                self._examined = _place_of(connection)

    async def _await_replicas(self, connection: Connection) -> None:
        """Return when enough replicas have everything that was written on this connection."""
        wanted = self._settings.replica_count
        wait_ms = int(self._settings.answer_for.total_seconds() * 500)  # half of the time there is
        await connection.send_command("WAIT", wanted, wait_ms)
        count = int(await connection.read_response())
        if count < wanted:
            reason = f"only {count} of {wanted} replicas have what was written"
            raise unavailable(self._settings.label, reason, UNKNOWN)

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
            return False  # a former primary may not know yet that it was replaced
        return bool(connection.is_connected)

    async def _connect_or_go_home(self) -> Connection:
        """Connect to the server that was named last, or else to the first home that answers."""
        is_home = _read_place(self._factory.connection_kwargs) in self._homes
        for _ in range(len(self._homes) - is_home):
            with suppress(*DRIVER_ERRORS):
                return await self.connect()
            await self._ask_next_home()
        return await self.connect()

    async def _ask_next_home(self) -> None:
        """Later connections lead to the next server of the address."""
        place, index = _read_place(self._factory.connection_kwargs), 0
        if place in self._homes:
            index = (self._homes.index(place) + 1) % len(self._homes)
        self._factory.connection_kwargs.update(self._homes[index]._asdict())
        await self._drop_idle()

    async def _drop_idle(self) -> None:
        self._idle, left = [], self._idle
        for connection in left:
            await connection.disconnect(nowait=True)


def _read_place(options: Mapping[str, Any]) -> Place:
    """Where the driver's options lead."""
    return Place(options.get("host", "localhost"), options.get("port", DEFAULT_PORT))


def _place_of(connection: Any) -> tuple[Any, ...]:
    """Where a connection leads; all sockets of this machine are one place."""
    return (getattr(connection, "host", None), getattr(connection, "port", None))


async def _has_ended(connection: Connection) -> bool:
    """Whether the server has closed the connection, or sent something unasked."""
    try:
        return bool(await connection.can_read())
    except DRIVER_ERRORS:
        return True


def _connection_options(settings: RedisSettings) -> dict[str, Any]:
    """Options of the driver. It must not repeat a command by itself when its answer is lost."""
    ask_for = settings.connect_for.total_seconds() / 2
    return {
        **({} if settings.sentinels is None else following_options(settings.sentinels, ask_for)),
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": settings.connect_for.total_seconds(),
        "socket_timeout": None,  # each call says how long it waits
        **({} if settings.url.startswith("unix") else _keepalive_options()),
    }


def _keepalive_options() -> dict[str, Any]:
    names = [name for name in _KEEPALIVE if hasattr(socket, name)]  # not every system has all
    probes = {getattr(socket, name): _KEEPALIVE[name] for name in names}
    return {"socket_keepalive": True, "socket_keepalive_options": probes}
