"""Wake-ups between processes, by LISTEN and NOTIFY, or by polling through a pooler.

A NOTIFY inside every transaction would make all commits of the server wait for each other. So the
process that wrote jobs notifies once it has committed, and combines what it writes meanwhile. Only
a single job at a quiet moment is notified in its own commit, which is the fastest way. A lost
message costs the time until the other process polls.

A pooler in transaction mode passes NOTIFY on, but keeps no LISTEN. A process behind one listens at
the direct address that its store was given. Without one, workers look for jobs at their own pace,
and for callers that await the end of jobs the store asks several times a second.
"""

import asyncio
from asyncio import Event, Task, get_running_loop
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from secrets import token_hex
from typing import Any

import msgspec
from asyncpg import Connection, Record

from rota.clock.loop import in_flight
from rota.errors import StoreError
from rota.jobs import Job, JobId
from rota.stores.kernel.unit import Partition
from rota.stores.postgres.address import Pooling, PostgresSettings, read_address
from rota.stores.postgres.connections import DRIVER_ERRORS, Database, Session
from rota.stores.postgres.dialling import connect
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.rows import known_ids
from rota.stores.protocol import Listener
from rota.stores.wakeups import EndsPoller, Place, Wakeups, wait_for

LONGEST_MESSAGE = 7_900
"""Bytes; the server takes up to 8,000."""

MOST_ENDS = 100
"""As many ids fit into a message; ``complete_jobs`` has the same number."""

LONGEST_PAUSE = 5.0
"""Seconds between attempts to reach the server; the first pause is a tenth of a second."""

POLL_EVERY = 0.25
"""Seconds between two questions whether awaited jobs have ended, where nothing can be heard."""

LONGEST_CHANNEL = 63

LONGEST_COMMIT = 0.01
"""Seconds. Where commits that notify mostly take longer, they wait for each other."""

NOTIFIED_LATER = 100
"""Then this many single jobs are notified after their commit, until the fast way is retried."""


class Message(msgspec.Struct, frozen=True, array_like=True):
    """Where jobs are READY, and which watched jobs have ended; None for any.

    The sender has woken its own listeners for what is READY.
    """

    sender: str
    places: list[Place] | None = None
    ends: list[JobId] | None = []


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


@lru_cache(maxsize=32)
def channel_of(schema: str) -> str:
    """The channel of all stores in a schema."""
    plain = f"rota_jobs_{schema}"
    digest = sha256(schema.encode()).hexdigest()[:32]
    return plain if len(plain) <= LONGEST_CHANNEL else f"rota_jobs_{digest}"


def write_message(sender: str, places: Collection[Place]) -> str:
    """A message about these places or, if that is too long, about all."""
    message = _encode(Message(sender, sorted(places)))
    if len(message) > LONGEST_MESSAGE:
        message = _encode(Message(sender))
    return message.decode()


def write_ends(job_ids: Collection[JobId]) -> str:
    """A message about the end of these jobs or, if that is too long, of any."""
    named = sorted(job_ids) if len(job_ids) <= MOST_ENDS else None
    return _encode(Message("", [], named)).decode()


def settings_to_listen(settings: PostgresSettings) -> PostgresSettings | None:
    """The way to a connection that can listen; None where only a pooler can be reached."""
    if settings.listen_url is not None:
        direct = read_address(settings.listen_url)
        return replace(settings, url=direct.url, places=direct.places, pooling=Pooling.NONE)
    return None if settings.pooling.is_pooled else settings


@lru_cache(maxsize=256)
def _write_about_one(sender: str, place: Place) -> str:
    return write_message(sender, [place])


class CommitPace:
    """Decides whether a single job is notified in its own commit, or after it."""

    def __init__(self) -> None:
        self.left_out_count = 0
        self._is_taken = False
        self._started_at = 0.0
        self._average = 0.0

    def try_within(self, *, is_quiet: bool) -> bool:
        """Whether to notify within the commit that begins now; ``end`` it then."""
        if not is_quiet or self._is_taken or self.left_out_count:
            self.left_out_count = max(0, self.left_out_count - 1)
            return False
        self._is_taken, self._started_at = True, get_running_loop().time()
        return True

    def end(self) -> None:
        """The commit that notifies is over."""
        self._is_taken = False
        self.note(get_running_loop().time() - self._started_at)

    def note(self, seconds: float) -> None:
        """Record how long a commit took. A slow disk makes a few slow commits; contention, many."""
        self._average += (min(seconds, 2 * LONGEST_COMMIT) - self._average) / 8
        if self._average > LONGEST_COMMIT:
            self._average, self.left_out_count = 0.0, NOTIFIED_LATER


class Receiver:
    """Listens on a channel for ever, on one connection after the other."""

    def __init__(
        self, settings: PostgresSettings, channel: str, receive: Callable[[str | None], None]
    ) -> None:
        """``receive`` gets each message, and None after a time in which some may be lost."""
        self._settings = settings
        self._channel = channel
        self._receive = receive
        self._has_tried = Event()
        self._lost = Event()
        self._task: Task[None] | None = None

    @property
    def is_started(self) -> bool:
        return self._task is not None

    async def start(self) -> None:
        """Listen, unless it does already; returns after the first attempt to connect."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen())
        with in_flight():
            await self._has_tried.wait()

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _listen(self) -> None:
        pause = 0.1
        while True:
            with suppress(*DRIVER_ERRORS):
                async with self._connected() as connection:
                    pause = 0.1
                    await self._stay_connected(connection)
            await wait_for(Event(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator["Connection[Record]"]:
        self._lost = Event()
        is_first = not self._has_tried.is_set()
        patience = self._settings.connect_for.total_seconds()
        try:
            connection = await connect(self._settings)
            connection.add_termination_listener(lambda _: self._lost.set())
            listening = connection.add_listener(self._channel, self._hear)
            await asyncio.wait_for(listening, patience)
        finally:
            self._has_tried.set()
        if not is_first:
            self._receive(None)
        try:
            yield connection
        finally:
            connection.terminate()

    async def _stay_connected(self, connection: "Connection[Record]") -> None:
        """Return when the connection is lost; ping, or a silent loss goes unnoticed."""
        patience = self._settings.answer_for.total_seconds()
        while not await wait_for(self._lost, patience):
            await asyncio.wait_for(connection.execute(QUERIES.ping), patience)

    def _hear(self, _connection: Any, _process_id: int, _channel: str, payload: Any) -> None:
        self._receive(payload)


class Notices:
    """Wakes the listeners of this process, and notifies other processes."""

    def __init__(self, database: Database, settings: PostgresSettings) -> None:
        self.pace = CommitPace()
        self.channel = channel_of(settings.schema)
        direct = settings_to_listen(settings)
        self.receiver = None if direct is None else Receiver(direct, self.channel, self._receive)
        self.sending: Task[None] | None = None
        self._database = database
        self._name = token_hex(8)
        self._wakeups = Wakeups()
        self._poller = EndsPoller(self._wakeups, self._find_unended, POLL_EVERY)
        self._unsent: set[Place] = set()

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> AsyncIterator[Listener]:
        """A listener; it hears other processes from the beginning if the server is reachable."""
        async with self._wakeups.listen(queues, tenants) as listener:
            if self.receiver is not None:
                await self.receiver.start()
            yield listener

    @asynccontextmanager
    async def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AsyncIterator[Listener]:
        """A listener; it hears the server, which every process that ends a watched job notifies."""
        wanted = known_ids(job_ids)
        async with self._wakeups.listen_for_end(job_ids) as listener:
            if self.receiver is None:
                with self._poller.awaiting(wanted):
                    yield listener
                return
            await self.receiver.start()
            if wanted:
                await self._database.run_repeatably(
                    lambda session: session.fetch(QUERIES.mark_watched, tenant, wanted)
                )
            yield listener

    def notify_within(self, jobs: Sequence[Job]) -> tuple[str, str] | None:
        """Channel and message for the statement that stores one job; None to notify afterwards.

        With them, ``pace.end`` follows the statement.
        """
        if len(jobs) != 1 or not self.pace.try_within(is_quiet=self.sending is None):
            return None
        return self.channel, _write_about_one(self._name, (jobs[0].queue, jobs[0].tenant))

    def notify(self, partitions: Collection[Partition], *, is_sent: bool = False) -> None:
        """Jobs there are READY, or due at another time, and that is committed."""
        places = {(queue, tenant) for tenant, queue in partitions}
        if not places:
            return
        self._wakeups.ring_at(places)
        if is_sent:
            return
        self._unsent |= places
        if self.sending is None:
            self.sending = asyncio.create_task(self._send_all())

    def message_about(self, partitions: Collection[Partition]) -> tuple[str, str]:
        """Channel and message for the caller's transaction: no listener is woken yet."""
        return self.channel, write_message("", {(queue, tenant) for tenant, queue in partitions})

    async def close(self) -> None:
        """Send what is unsent; listeners learn that the store is closed."""
        self._wakeups.close()
        if self.sending is not None:
            await self.sending
        await self._poller.close()
        if self.receiver is not None:
            await self.receiver.close()

    async def _send_all(self) -> None:
        while self._unsent:
            places, self._unsent = self._unsent, set()
            message = write_message(self._name, places)

            async def send(session: Session, message: str = message) -> None:
                await session.fetch(QUERIES.notify, self.channel, message)

            with suppress(StoreError):  # others poll
                await self._database.run(send)
        self.sending = None

    async def _find_unended(self, job_ids: Sequence[JobId]) -> list[Any]:
        return await self._database.run(
            lambda session: session.fetch(QUERIES.find_unended, job_ids)
        )

    def _receive(self, payload: str | None) -> None:
        try:
            message = Message("") if payload is None else _decode(payload)
        except msgspec.MsgspecError:  # of a later version, or of another program
            message = Message("")
        if message.sender == self._name:
            return
        if message.places is None or message.ends is None:
            self._wakeups.ring_everywhere()
        else:
            self._wakeups.ring_at(message.places)
            self._wakeups.ring_ends(message.ends)
