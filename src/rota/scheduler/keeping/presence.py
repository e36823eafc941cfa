"""Which scheduler instances are alive: what tells an interrupted task from one that is running.

Within a process the instances know each other. On one host the operating system tells whether a
process still exists. Beyond that an instance says so itself, again and again, and is taken for dead
when it has been silent for too long.
"""

import os
import socket
from asyncio import Task
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rota.clock.protocol import Clock
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach

INSTANCES = "scheduler.instances"
LONG_SILENCE = 10
"""So many times the usual patience, and an instance is dead whatever the clocks say."""

_alive_here: "dict[str, tuple[Task[Any], Presence]]" = {}
"""The instances of this process, each with the task that is its life: done means dead."""


class Announcement(msgspec.Struct, frozen=True, rename="camel"):
    """Who an instance is and when it was last heard of."""

    host: str
    process_id: int
    process_started: str
    seen_at: Annotated[datetime, msgspec.Meta(tz=True)]


class Presence:
    """Announces one instance and tells which others are alive."""

    def __init__(
        self, store: DocumentStore, clock: Clock, identifier: str, silent_for: timedelta
    ) -> None:
        self._store = store
        self._clock = clock
        self.identifier = identifier
        self._silent_for = silent_for
        self._version: int | None = None
        self._is_listed = True
        self._has_strangers = False
        self._dead: list[DocumentWrite] = []
        self._heard: dict[str, tuple[datetime, datetime]] = {}
        self._on_departure: Callable[[], object] | None = None

    @property
    def has_peers_elsewhere(self) -> bool:
        """Whether instances outside this process may use the same store."""
        return self._store.reach is not Reach.PROCESS

    def live_as(self, life: Task[Any]) -> None:
        """From now on the instance is alive for as long as this task is not done."""
        _alive_here[self.identifier] = (life, self)
        life.add_done_callback(self._depart)

    def on_departure(self, listener: Callable[[], object]) -> None:
        """Have ``listener`` called soon after another instance in this process left the store."""
        self._on_departure = listener

    def hear_departure(self, store: DocumentStore) -> None:
        if store is self._store and self._on_departure is not None:
            self._on_departure()

    async def announce(self) -> None:
        """Say that this instance is alive, for those who cannot see its process."""
        if not self.has_peers_elsewhere:
            return
        body = msgspec.json.encode(
            Announcement(_HOST, os.getpid(), _process_started(os.getpid()), self._clock.now())
        )
        write = DocumentWrite(INSTANCES, self.identifier, self._version, body)
        (version,) = await self._store.write_each([write])
        if version is None:
            # Others took this instance for dead while the host was asleep, or a reply was lost.
            found = await self._store.read(INSTANCES, [self.identifier])
            version = found[self.identifier].version if found else None
            write = write._replace(expected=version)
            (version,) = await self._store.write_each([write])
        self._version = version

    async def keep_alive(self) -> None:
        """Announce again where others go by it: beyond this host, or when the first one is gone."""
        if self._store.reach is Reach.NETWORK or self._has_strangers or not self._is_listed:
            await self.announce()

    async def withdraw(self) -> None:
        """Say goodbye, so that others take over at once."""
        if _alive_here.pop(self.identifier, None) is not None:
            self._tell_departure()
        if self._version is not None:
            write = DocumentWrite(INSTANCES, self.identifier, self._version, None)
            self._version = None
            await self._store.write_each([write])

    async def find_living(self) -> frozenset[str]:
        """The identifiers of all living instances. Only reads."""
        _forget_the_dead()
        living = set(_alive_here)
        if self.has_peers_elsewhere:
            living.update(await self._survey())
        return frozenset(living)

    async def bury_the_dead(self) -> None:
        """Clear away what those announced who were found dead."""
        dead, self._dead = self._dead, []
        if dead:
            await self._store.write_each(dead)

    async def _survey(self) -> set[str]:
        living = set()
        dead = []
        self._is_listed = self._has_strangers = False
        async for page in self._store.scan(INSTANCES):
            for document in page:
                if self._is_alive(document):
                    living.add(document.key)
                else:
                    dead.append(DocumentWrite(INSTANCES, document.key, document.version, None))
                self._is_listed |= document.key == self.identifier
        self._dead = dead
        return living

    def _depart(self, life: Task[Any]) -> None:
        if (resident := _alive_here.get(self.identifier)) is not None and resident[0] is life:
            del _alive_here[self.identifier]
            self._tell_departure()

    def _tell_departure(self) -> None:
        """Instances elsewhere find out by themselves; those in here need not wait so long."""
        for life, peer in list(_alive_here.values()):
            with suppress(RuntimeError):  # its loop was closed in this very moment
                life.get_loop().call_soon_threadsafe(peer.hear_departure, self._store)

    def _is_alive(self, document: Document) -> bool:
        try:
            told = msgspec.json.decode(document.body, type=Announcement)
        except msgspec.DecodeError:
            return False
        if told.host == _HOST:
            if told.process_id == os.getpid():
                _forget_the_dead()
                return document.key in _alive_here
            return told.process_started == _process_started(told.process_id)
        self._has_strangers = True
        return self._is_heard(document.key, told.seen_at)

    def _is_heard(self, identifier: str, seen_at: datetime) -> bool:
        """Whether an instance whose process cannot be seen still makes itself heard.

        Silence is measured by this instance's own clock, from when it first heard the last word, so
        clocks that differ do no harm. Only a very long silence is believed at once.
        """
        now = self._clock.now()
        if self._store.reach is Reach.NETWORK and now - seen_at > LONG_SILENCE * self._silent_for:
            return False
        last_word = self._heard.get(identifier)
        if last_word is None or last_word[0] != seen_at:
            self._heard[identifier] = (seen_at, now)
            return True
        return now - last_word[1] < self._silent_for


def _name_host() -> str:
    """This host, and on it the namespace in which process ids mean anything."""
    namespace = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()} {namespace.readlink() if namespace.is_symlink() else ''}"


_HOST = _name_host()


def _process_started(process_id: int) -> str:
    """A mark that differs when a process id is used again; "gone" when there is no such process."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_bytes()
    except OSError:
        return "running" if not Path("/proc/self/stat").exists() and _exists(process_id) else "gone"
    state, *fields = status.rpartition(b") ")[2].split()
    return "gone" if state in b"ZX" else fields[18].decode()


def _exists(process_id: int) -> bool:
    """For hosts without /proc: whether a signal could be sent."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _forget_the_dead() -> None:
    for name, (life, _) in list(_alive_here.items()):
        if life.done() or life.get_loop().is_closed():
            _alive_here.pop(name, None)
