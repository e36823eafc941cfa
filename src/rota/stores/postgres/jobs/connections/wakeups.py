"""Wake-ups between processes: whoever listens hears of READY jobs through the server.

A NOTIFY inside every transaction would make all commits of the server wait for each other. Instead
the process that wrote tells once it has committed, and tells once of all that it has written while
it was telling. Only a single job at a quiet moment is told of in the commit that keeps it, which is
the quickest way there is. A message that is lost costs the time until somebody looks by himself.
"""

import asyncio
from asyncio import Event, Task, get_running_loop
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import lru_cache, partial
from hashlib import sha256
from secrets import token_hex
from typing import Any

import asyncpg
import msgspec
from asyncpg import Connection, Record

from rota.clock.idle import in_flight
from rota.errors import StoreError
from rota.jobs import Job
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.database import Database, session_settings
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.session import Session
from rota.stores.postgres.translation import DRIVER_ERRORS
from rota.stores.protocol import Listener
from rota.stores.wakeups import Place, Wakeups

LONGEST_MESSAGE = 7_900
"""Bytes; the server takes no more than 8,000."""

LONGEST_PAUSE = 5.0
"""Seconds between attempts to reach a server that cannot be reached; at first a tenth of one."""

LONGEST_CHANNEL = 63

LONGEST_COMMIT = 0.01
"""Seconds. Where commits that tell mostly take longer than this, they wait for each other."""

TOLD_APART = 100
"""So many jobs are told of after their commit then, before the quicker way is tried again."""


class Message(msgspec.Struct, frozen=True, array_like=True):
    """Where jobs are READY; no places are all places. The sender has told its own listeners."""

    sender: str
    places: list[Place] | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


def channel_of(schema: str) -> str:
    """The channel on which the stores of a schema tell each other."""
    plain = f"rota_jobs_{schema}"
    return plain if len(plain) <= LONGEST_CHANNEL else f"rota_jobs_{_digest(schema)}"


def write_message(sender: str, places: Collection[Place]) -> str:
    """A message about these places or, where that would be too long, about all."""
    message = _encode(Message(sender, sorted(places)))
    if len(message) > LONGEST_MESSAGE:
        message = _encode(Message(sender))
    return message.decode()


@lru_cache(maxsize=256)
def write_about_one(sender: str, place: Place) -> str:
    """A message about one place, of which there are few and much is told."""
    return write_message(sender, [place])


class Notices:
    """The listeners of this process, and the way to those of others."""

    def __init__(self, database: Database, settings: PostgresSettings) -> None:
        self._database = database
        self._settings = settings
        self._name = token_hex(8)
        self._wakeups = Wakeups()
        self._channel = channel_of(settings.schema)
        self._untold: set[Place] = set()
        self._telling: Task[None] | None = None
        self._is_telling_within = False
        self._commit_for = 0.0
        self._told_apart_count = 0
        self._hearing: Task[None] | None = None
        self._has_tried = Event()
        self._lost = Event()

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

    @contextmanager
    def telling_within(self, job: Job) -> Iterator[tuple[str, str] | None]:
        """Channel and message for the statement that keeps a job; None if it is told of later."""
        if self._telling is not None or self._is_telling_within or self._told_apart_count:
            self._told_apart_count = max(0, self._told_apart_count - 1)
            yield None
            return
        read_time = get_running_loop().time
        self._is_telling_within, begun = True, read_time()
        try:
            yield self._channel, write_about_one(self._name, (job.queue, job.tenant))
        finally:
            self._is_telling_within = False
            self._note_commit(read_time() - begun)

    def _note_commit(self, seconds: float) -> None:
        """A few slow commits are the disk's; it takes five in a row, or every other one of many."""
        self._commit_for += (min(seconds, 2 * LONGEST_COMMIT) - self._commit_for) / 8
        if self._commit_for > LONGEST_COMMIT:
            self._commit_for, self._told_apart_count = 0.0, TOLD_APART

    def tell(self, jobs: Iterable[Job], *, is_known_elsewhere: bool = False) -> None:
        """These jobs have become READY, or are due at another time, and that is committed."""
        places = {(job.queue, job.tenant) for job in jobs}
        if not places:
            return
        self._wakeups.ring_at(places)
        if is_known_elsewhere:
            return
        self._untold |= places
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_others())

    def message_about(self, jobs: Iterable[Job]) -> tuple[str, str]:
        """Channel and message for a transaction of the caller's: nobody has been told yet."""
        return self._channel, write_message("", {(job.queue, job.tenant) for job in jobs})

    async def close(self) -> None:
        """Tell what is left to tell; whoever waits learns that nothing more will come."""
        self._wakeups.close()
        if self._telling is not None:
            await self._telling
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait([self._hearing])

    async def _tell_others(self) -> None:
        while self._untold:
            places, self._untold = self._untold, set()
            message = write_message(self._name, places)
            with suppress(StoreError):  # who is not told looks by himself
                await self._database.run(partial(self._send, message))
        self._telling = None

    async def _send(self, message: str, session: Session) -> None:
        await session.fetch(QUERIES.notify, self._channel, message)

    async def _hear(self) -> None:
        """Listen for ever, on one connection after the other."""
        pause = 0.1
        while True:
            with suppress(*DRIVER_ERRORS):
                async with self._connected() as connection:
                    pause = 0.1
                    await self._stay_connected(connection)
            await _wait_for(Event(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator["Connection[Record]"]:
        self._lost = Event()
        is_first = not self._has_tried.is_set()
        patience = self._settings.connect_for.total_seconds()
        try:
            connection: Connection[Record] = await asyncpg.connect(
                self._settings.url,
                timeout=patience,
                server_settings=session_settings(self._settings),
            )
            connection.add_termination_listener(lambda _: self._lost.set())
            await asyncio.wait_for(connection.add_listener(self._channel, self._receive), patience)
        finally:
            self._has_tried.set()
        if not is_first:  # nobody knows what was told meanwhile
            self._wakeups.ring_everywhere()
        try:
            yield connection
        finally:
            connection.terminate()

    async def _stay_connected(self, connection: "Connection[Record]") -> None:
        """Return when the connection is lost; ask now and then, or a silent loss is not noticed."""
        patience = self._settings.answer_for.total_seconds()
        while not await _wait_for(self._lost, patience):
            await asyncio.wait_for(connection.execute(QUERIES.ping), patience)

    def _receive(self, _connection: Any, _process_id: int, _channel: str, payload: Any) -> None:
        try:
            message = _decode(payload)
        except msgspec.MsgspecError:  # of a later version, or of somebody else
            message = Message("")
        if message.sender == self._name:
            return
        if message.places is None:
            self._wakeups.ring_everywhere()
        else:
            self._wakeups.ring_at(message.places)


async def _wait_for(event: Event, seconds: float) -> bool:
    """Whether it happened within so many seconds of real time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
