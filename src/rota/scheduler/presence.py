"""Which scheduler instances are alive, and so which claimed tasks are interrupted.

Instances in one process know each other. On one host the operating system says whether a process
exists. Beyond that, an instance announces itself regularly, and counts as dead when it has been
silent for too long.
"""

import os
from asyncio import Task
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

import msgspec

from rota.clock.protocol import Clock
from rota.fleet.identity import HOST, process_started
from rota.fleet.presence import SignOfLife
from rota.stores.documents import decode_body
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach

INSTANCES = "scheduler.instances"
LONG_SILENCE = 10
"""After this many times ``silent_for`` an instance is dead, even if clocks differ."""


class LocalInstance(NamedTuple):
    """An instance of this process. It lives until its asyncio task is done."""

    life: Task[Any]
    store: DocumentStore
    notice_change: Callable[[], object] | None


_local_instances: dict[str, LocalInstance] = {}


class Announcement(msgspec.Struct, frozen=True, rename="camel"):
    """Which process an instance runs in, and when it last announced itself."""

    host: str
    process_id: int
    process_started: str
    seen_at: Annotated[datetime, msgspec.Meta(tz=True)]


class Presence:
    """Announces one instance and finds the others."""

    def __init__(
        self, store: DocumentStore, clock: Clock, identifier: str, silent_for: timedelta
    ) -> None:
        self.identifier = identifier
        self._store = store
        self._clock = clock
        self._silent_for = silent_for
        self._sign = SignOfLife(store, INSTANCES, identifier)
        self._is_listed = True
        self._has_other_hosts = False
        self._dead: list[DocumentWrite] = []
        self._heard: dict[str, tuple[datetime, datetime]] = {}

    @property
    def has_peers_elsewhere(self) -> bool:
        """Whether instances outside this process may use the same store."""
        return self._store.reach is not Reach.PROCESS

    def live_as(self, life: Task[Any], notice_change: Callable[[], object] | None = None) -> None:
        """The instance is alive until this asyncio task is done.

        ``notice_change`` is called soon after another instance of this process left the store, or
        after an operator asked for something in this process.
        """
        _local_instances[self.identifier] = LocalInstance(life, self._store, notice_change)
        life.add_done_callback(self._depart)

    async def announce(self) -> None:
        """Say that this instance is alive, for those that cannot see its process."""
        if not self.has_peers_elsewhere:
            return
        process_id = os.getpid()
        announcement = Announcement(
            HOST, process_id, process_started(process_id), self._clock.now()
        )
        await self._sign.show(msgspec.json.encode(announcement))

    async def keep_alive(self) -> None:
        """Announce again where it matters: to other hosts, or when the announcement is gone."""
        if self._store.reach is Reach.NETWORK or self._has_other_hosts or not self._is_listed:
            await self.announce()

    async def withdraw(self) -> None:
        """Leave, so that others take over at once."""
        if _local_instances.pop(self.identifier, None) is not None:
            wake_local_instances(self._store)
        await self._sign.withdraw()

    async def find_living(self) -> frozenset[str]:
        """The identifiers of all living instances. Only reads."""
        _forget_ended()
        living = set(_local_instances)
        if self.has_peers_elsewhere:
            living.update(await self._survey())
        return frozenset(living)

    async def remove_dead(self) -> None:
        """Remove the announcements of the instances that were found dead."""
        dead, self._dead = self._dead, []
        if dead:
            await self._store.write_each(dead)

    async def _survey(self) -> set[str]:
        living = set()
        dead = []
        self._is_listed = self._has_other_hosts = False
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
        local = _local_instances.get(self.identifier)
        if local is not None and local.life is life:
            del _local_instances[self.identifier]
            wake_local_instances(self._store)

    def _is_alive(self, document: Document) -> bool:
        announced = decode_body(document, Announcement, None)
        if announced is None:
            return False
        if announced.host == HOST:
            if announced.process_id == os.getpid():
                _forget_ended()
                return document.key in _local_instances
            return announced.process_started == process_started(announced.process_id)
        self._has_other_hosts = True
        return self._is_heard(document.key, announced.seen_at)

    def _is_heard(self, identifier: str, seen_at: datetime) -> bool:
        """Whether an instance on another host still announces itself.

        Silence is measured by this instance's clock, from when it first saw the last announcement,
        so different clocks do no harm. Only a very long silence counts at once.
        """
        now = self._clock.now()
        if self._store.reach is Reach.NETWORK and now - seen_at > LONG_SILENCE * self._silent_for:
            return False
        last = self._heard.get(identifier)
        if last is None or last[0] != seen_at:
            self._heard[identifier] = (seen_at, now)
            return True
        return now - last[1] < self._silent_for


def wake_local_instances(store: DocumentStore) -> None:
    """Something changed on this store. Other processes find out; this one need not wait."""
    for instance in list(_local_instances.values()):
        if instance.store is store and instance.notice_change is not None:
            with suppress(RuntimeError):  # its event loop has just been closed
                instance.life.get_loop().call_soon_threadsafe(instance.notice_change)


def _forget_ended() -> None:
    for identifier, local in list(_local_instances.items()):
        if local.life.done() or local.life.get_loop().is_closed():
            _local_instances.pop(identifier, None)
