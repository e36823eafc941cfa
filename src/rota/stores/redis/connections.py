"""Connections to the server, each used by one call at a time.

A server may fall silent. A call waits for an answer, or for a new connection, only for the time in
the settings; calls that wait for its connection then fail at once. So every call ends within the
time for connecting and answering together, however many there are.
"""

import asyncio
import socket
from asyncio import Lock, Semaphore, Task, get_running_loop
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError, MovedError, NoScriptError, TryAgainError

from rota.errors import InvalidInputError
from rota.stores.calls import Calls
from rota.stores.redis.address import DEFAULT_PORT, Place, RedisSettings
from rota.stores.redis.line import Line
from rota.stores.redis.scripts import Script
from rota.stores.redis.sentinel import Lookout, following_options
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
    """A command, and the script that it runs; one that writes is done when replicas have it."""

    arguments: tuple[Any, ...]
    script: Script | None
    is_repeatable: bool


@dataclass(slots=True)
class _Server:
    """Where the last server is that has passed the examination, and which scripts it was sent."""

    place: tuple[Any, ...] | None = None
    scripts: set[str] = field(default_factory=set)
    examining: Lock = field(default_factory=Lock)


class Connections:
    """A limited number of connections; one that a call has failed on is not used again.

    On a cluster all keys of a store are on one server. If the cluster names another server, later
    connections go there; if that cannot be reached, the servers of the address are asked in turn.
    With Sentinels, connections lead to the primary that they name.

    Each server is examined before its first call.
    """

    def __init__(self, settings: RedisSettings, examine: Examine | None = None) -> None:
        self.calls = Calls()
        self._settings = settings
        self._factory = ConnectionPool.from_url(settings.url, **_connection_options(settings))
        self._homes = settings.nodes or (_read_place(self._factory.connection_kwargs),)
        self._idle: list[Line] = []
        self._free = Semaphore(settings.connection_count)
        self._left: Line | None = None
        """The line of the call whose turn is ending, if its answer is still due."""
        self._silence_count = 0
        """How often the server did not answer in time."""
        self._examine = examine
        self._server = _Server()

    @property
    def number(self) -> int:
        """Of the database on the server."""
        return int(self._factory.connection_kwargs.get("db") or 0)

    @property
    def _lookout(self) -> Lookout | None:
        lookout: Lookout | None = self._factory.connection_kwargs.get("lookout")
        return lookout

    @property
    def _answer_for(self) -> float:
        return self._settings.answer_for.total_seconds()

    async def call(self, *command: Any) -> Any:
        """The server's answer to a command that may be sent twice."""
        return await self._run(_Call(command, None, is_repeatable=True))

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
        return await self._run(_Call(tuple(arguments), script, script.is_repeatable))

    async def close(self) -> None:
        """Close all connections, once the calls under way are done."""
        count = self._settings.connection_count
        for _ in range(count):
            await self._free.acquire()
        await self.calls.finish()
        self._drop_idle()
        for _ in range(count):
            self._free.release()

    async def connect(self) -> Line:
        """A new connection for the caller alone; raises one of DRIVER_ERRORS."""
        connection: Connection = self._factory.make_connection()  # type: ignore[no-untyped-call] # the driver's
        try:
            seconds = self._settings.connect_for.total_seconds()
            async with asyncio.timeout(seconds / len(self._homes)):
                await connection.connect()  # type: ignore[no-untyped-call] # the driver's
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return Line(connection)

    async def _run(self, call: _Call) -> Any:
        silence_count = self._silence_count
        await self._free.acquire()
        try:
            if self._silence_count != silence_count:  # the call before got no answer
                raise translate(TimeoutError(), self._settings.label, NOTHING_WRITTEN)
            for _ in range(MOST_TRIES):
                try:
                    return await self._ask(call)
                except DRIVER_ERRORS as error:
                    call = await self._recover(call, error)
        finally:
            self._end_turn()
        raise translate(TryAgainError(), self._settings.label)

    def _end_turn(self) -> None:
        """Let the next call begin, once the line of this one is free or closed."""
        line, self._left = self._left, None
        if line is None:
            self._free.release()
        else:  # its caller was cancelled: the answer must reach no other call
            settling = self.calls.start(line.settle)
            settling.add_done_callback(lambda done: self._end_settling(line, done))

    def _end_settling(self, line: Line, settling: "Task[None]") -> None:
        if settling.cancelled():
            line.close()
        elif line.is_free:
            self._idle.append(line)
        self._free.release()

    async def _recover(self, call: _Call, error: Exception) -> _Call:
        """How to repeat the call; raises the translated error if it must not be repeated."""
        if isinstance(error, NoScriptError):
            self._server.scripts.clear()
            return call
        if isinstance(error, MovedError):
            place = {"port": error.port} | ({"host": error.host} if error.host else {})
            self._factory.connection_kwargs.update(place)
            self._drop_idle()
            return call
        if must_reconnect(error):  # the other connections are probably lost too
            self._drop_idle()
        if self._settings.nodes and isinstance(error, _DOUBTFUL):
            await self._ask_next_home()
        if isinstance(error, SILENCE):
            self._silence_count += 1
        elif isinstance(error, LOST_CONNECTION) and call.is_repeatable:
            return call._replace(is_repeatable=False)
        raise translate(error, self._settings.label) from error

    async def _ask(self, call: _Call) -> Any:
        line = await self._connected()
        deadline = get_running_loop().time() + self._answer_for
        try:
            if self._examine is not None and self._server.place != line.place:
                await self._examine_server(line, partial(line.ask, deadline))
            if call.script is None:
                return await line.ask(deadline, *call.arguments)
            answer = await self._run_on(line, deadline, call.script, call.arguments)
            if call.script.is_writing and self._settings.replica_count:
                await self._await_replicas(line, deadline)
        except DRIVER_ERRORS as error:
            if must_reconnect(error):
                line.close()
            raise
        else:
            return answer
        finally:
            self._take_back(line)

    async def _run_on(
        self, line: Line, deadline: float, script: Script, arguments: Sequence[Any]
    ) -> Any:
        """The script's answer. The server remembers it when it has been sent once."""
        if script.digest in self._server.scripts:
            return await line.ask(deadline, "EVALSHA", script.digest, *arguments)
        answer = await line.ask(deadline, "EVAL", script.text, *arguments)
        self._server.scripts.add(script.digest)
        return answer

    def _take_back(self, line: Line) -> None:
        if line.is_free:
            self._idle.append(line)
        elif not line.lost.done():
            self._left = line

    async def _examine_server(self, line: Line, ask: Callable[..., Awaitable[Any]]) -> None:
        async with self._server.examining:
            # Else another call has done it meanwhile.
            if self._examine is not None and self._server.place != line.place:
                async with asyncio.timeout(self._answer_for):
                    await self._examine(ask)
                self._server.place, self._server.scripts = line.place, set()

    async def _await_replicas(self, line: Line, deadline: float) -> None:
        """Return when enough replicas have everything that was written on this connection."""
        wanted = self._settings.replica_count
        wait_ms = int(self._answer_for * 500)  # half of the time there is
        count = int(await line.ask(deadline, "WAIT", wanted, wait_ms))
        if count < wanted:
            reason = f"only {count} of {wanted} replicas have what was written"
            raise unavailable(self._settings.label, reason, UNKNOWN)

    async def _connected(self) -> Line:
        """A connection that works, as far as one can tell without asking the server."""
        if self._lookout is not None:
            await self._lookout.look_again()
        while self._idle:
            line = self._idle.pop()
            if line.is_free and (self._lookout is None or self._lookout.primary == line.place):
                return line
            line.close()  # a former primary may not know yet that it was replaced
        try:
            return await self._connect_or_go_home()
        except DRIVER_ERRORS as error:
            self._silence_count += isinstance(error, SILENCE)
            raise translate(error, self._settings.label, NOTHING_WRITTEN) from error

    async def _connect_or_go_home(self) -> Line:
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
        self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _read_place(options: Mapping[str, Any]) -> Place:
    """Where the driver's options lead."""
    return Place(options.get("host", "localhost"), options.get("port", DEFAULT_PORT))


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
