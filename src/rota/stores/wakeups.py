"""Wake-ups inside one process."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from typing import TypeAlias

from rota.errors import StoreClosedError
from rota.jobs import Job
from rota.stores.kernel.unit import Partition
from rota.stores.protocol import check_choice, is_chosen

Place: TypeAlias = tuple[str, str]
"""A queue and a tenant."""


class Wakeups:
    """Wakes listeners, each for the queues and tenants it has chosen."""

    def __init__(self) -> None:
        self._listeners: set[_Listener] = set()

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AsyncIterator["_Listener"]:
        """A listener, while the context lasts."""
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")
        listener = _Listener(queues, tenants)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def ring(self, jobs: Iterable[Job]) -> None:
        """These jobs have become READY, or READY at another time."""
        self.ring_at({(job.queue, job.tenant) for job in jobs})

    def ring_partitions(self, partitions: Iterable[Partition]) -> None:
        """There may be jobs to lease in these partitions."""
        self.ring_at((queue, tenant) for tenant, queue in partitions)

    def ring_at(self, places: Iterable[Place]) -> None:
        """There may be jobs to lease in these places."""
        named = list(places)
        for listener in self._listeners:
            if any(listener.cares(queue, tenant) for queue, tenant in named):
                listener.wake()

    def ring_everywhere(self) -> None:
        """There may be jobs to lease in any partition."""
        for listener in self._listeners:
            listener.wake()

    def close(self) -> None:
        """End all waits with StoreClosedError; nothing rings any more."""
        for listener in self._listeners:
            listener.end()


class _Listener:
    """Waits until it is woken; a wake-up between two waits is not lost."""

    def __init__(self, queues: Collection[str] | None, tenants: Collection[str] | None) -> None:
        self._queues = queues
        self._tenants = tenants
        self._is_ended = False
        self._called = asyncio.Event()

    def cares(self, queue: str, tenant: str) -> bool:
        return is_chosen(queue, self._queues) and is_chosen(tenant, self._tenants)

    def wake(self) -> None:
        self._called.set()

    def end(self) -> None:
        self._is_ended = True
        self._called.set()

    async def wait(self) -> None:
        """See ``Listener.wait``."""
        await self._called.wait()
        if self._is_ended:
            raise StoreClosedError
        self._called.clear()
