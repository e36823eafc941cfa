"""Wake-ups inside one process, and what the ways to other processes have in common."""

import asyncio
from asyncio import Event, Task
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias

from rota.errors import StoreClosedError, StoreError
from rota.jobs import JobId
from rota.stores.kernel.unit import Committed, Partition
from rota.stores.protocol import check_choice, is_chosen

Place: TypeAlias = tuple[str, str]
"""A queue and a tenant."""


class Wakeups:
    """Wakes listeners, each for its queues and tenants, or for the end of its jobs.

    They wake in the order in which they came: a simulation can be repeated.
    """

    def __init__(self) -> None:
        self.listeners: dict[_Listener, None] = {}
        """Who listens for jobs to lease. Any thread may ask whether there is one."""
        self.awaited: dict[JobId, dict[_Bell, None]] = {}
        """Who listens for the end of which job."""
        self._bells: dict[_Bell, None] = {}

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AsyncIterator["_Listener"]:
        """A listener, while the context lasts."""
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")
        listener = _Listener(queues, tenants)
        self.listeners[listener] = None
        try:
            yield listener
        finally:
            self.listeners.pop(listener, None)

    @asynccontextmanager
    async def listen_for_end(self, job_ids: Collection[JobId]) -> AsyncIterator["_Bell"]:
        """A listener for the end of these jobs, while the context lasts."""
        check_choice(job_ids, "job_ids")
        bell, wanted = _Bell(), dict.fromkeys(job_ids)
        self._bells[bell] = None
        for job_id in wanted:
            self.awaited.setdefault(job_id, {})[bell] = None
        try:
            yield bell
        finally:
            self._bells.pop(bell, None)
            for job_id in wanted:
                self._leave(job_id, bell)

    def ring(self, committed: Committed[Any]) -> None:
        """There may be jobs to lease, and jobs have ended, as this commit says."""
        if self.listeners:
            self.ring_partitions(committed.ready)
        self.ring_ends(committed.ended)

    def ring_partitions(self, partitions: Iterable[Partition]) -> None:
        """There may be jobs to lease in these partitions."""
        self.ring_at((queue, tenant) for tenant, queue in partitions)

    def ring_at(self, places: Iterable[Place]) -> None:
        """There may be jobs to lease in these places."""
        named = list(places)
        for listener in self.listeners:
            if any(listener.cares(queue, tenant) for queue, tenant in named):
                listener.wake()

    def ring_ends(self, job_ids: Iterable[JobId]) -> None:
        """These jobs have ended, or are gone."""
        if self.awaited:
            for job_id in job_ids:
                for bell in self.awaited.get(job_id, ()):
                    bell.wake()

    def ring_everywhere(self) -> None:
        """There may be jobs to lease in any partition, and any job may have ended."""
        for bell in (*self.listeners, *self._bells):
            bell.wake()

    def close(self) -> None:
        """End all waits with StoreClosedError; nothing rings any more."""
        for bell in (*self.listeners, *self._bells):
            bell.end()

    def _leave(self, job_id: JobId, bell: "_Bell") -> None:
        bells = self.awaited[job_id]
        bells.pop(bell, None)
        if not bells:
            del self.awaited[job_id]


class EndsPoller:
    """Asks which of the awaited jobs have ended, while there are any and no message would come."""

    def __init__(
        self,
        wakeups: Wakeups,
        find_unended: Callable[[list[JobId]], Awaitable[Iterable[Sequence[Any]]]],
        every: float,
    ) -> None:
        """Between two questions pass ``every`` seconds."""
        self._wakeups = wakeups
        self._find_unended = find_unended
        self._every = every
        self._awaited: Counter[JobId] = Counter()
        self._task: Task[None] | None = None

    @contextmanager
    def awaiting(self, job_ids: Collection[JobId]) -> Iterator[None]:
        """Ask for these jobs too, while the context lasts."""
        self._awaited.update(job_ids)
        if self._task is None and self._awaited:
            self._task = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            self._awaited.subtract(job_ids)
            self._awaited = +self._awaited

    async def close(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _poll(self) -> None:
        while self._awaited:
            await wait_for(Event(), self._every)
            wanted = sorted(self._awaited)
            with suppress(StoreError):  # the next question may be answered
                unended = {job_id for (job_id,) in await self._find_unended(wanted)}
                self._wakeups.ring_ends(set(wanted) - unended)
        self._task = None


async def wait_for(event: Event, seconds: float) -> bool:
    """Whether it happened within this time, in real seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


class _Bell:
    """Waits until it is woken; a wake-up between two waits is not lost."""

    def __init__(self) -> None:
        self._is_ended = False
        self._called = Event()

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


class _Listener(_Bell):
    """Wakes for the queues and tenants it has chosen."""

    def __init__(self, queues: Collection[str] | None, tenants: Collection[str] | None) -> None:
        super().__init__()
        self._queues = queues
        self._tenants = tenants

    def cares(self, queue: str, tenant: str) -> bool:
        return is_chosen(queue, self._queues) and is_chosen(tenant, self._tenants)
