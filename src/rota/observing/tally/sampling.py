"""Looks once a minute how full the queues of each tenant are."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from typing import Protocol

from rota.clock.protocol import Clock
from rota.errors import RotaError
from rota.events import Event, JobDeferred, JobSettled, JobStalled
from rota.observing.counters import Journal
from rota.observing.tally.keeping import Tally
from rota.observing.tally.minute import DepthSample
from rota.stores.jobs import QueueDepth

SAMPLED_EVERY = timedelta(minutes=1)
MOST_TENANTS = 100
"""Of so many tenants at most is the depth looked at: those that were active last."""

Tenants = Callable[[], Awaitable[Iterable[str]]]
"""Who else is to be looked at, beside those of whom workers tell."""


class Surveyed(Protocol):
    """The one verb of a store that is needed."""

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]: ...


class DepthSampler:
    """Notes in a tally, minute by minute, how many jobs of a tenant were due and how many ran.

    ``sampler.follow(worker.events)`` for any number of workers, and ``await sampler.run()`` beside
    the tally. One for each server is enough; of several the highest number counts.
    """

    def __init__(self, store: Surveyed, clock: Clock, tally: Tally, tenants: Tenants) -> None:
        self._store = store
        self._clock = clock
        self._tally = tally
        self._find_tenants = tenants
        self._lock = Lock()
        self._active: dict[str, None] = {}

    def follow(self, journal: Journal) -> Callable[[], None]:
        """Look from now on at the tenants that are told of there; the function ends that."""
        return journal.subscribe(self.observe)

    def observe(self, event: Event) -> None:
        """Remember whose job it was."""
        if isinstance(event, (JobSettled, JobDeferred, JobStalled)):
            self._note_active(event.tenant)

    async def run(self) -> None:
        """Look in every minute, until cancelled; a store that is at fault is asked again later."""
        while True:
            with suppress(RotaError):
                await self.sample()
            await self._clock.sleep(SAMPLED_EVERY)

    async def sample(self) -> None:
        """Look once, at every tenant that is known; what the store raises is passed on."""
        others = await self._find_tenants()
        with self._lock:
            known = [*(it for it in others if it not in self._active), *self._active]
        for tenant in known[-MOST_TENANTS:]:
            depths = await self._store.survey(self._clock.now(), tenant)
            due, running = (
                sum(it.due_count for it in depths),
                sum(it.running_count for it in depths),
            )
            self._tally.note_depth(tenant, DepthSample(due, running))

    def _note_active(self, tenant: str) -> None:
        """The last one is the most recent. Workers may tell of it in threads of their own."""
        with self._lock:
            self._active.pop(tenant, None)
            self._active[tenant] = None
            if len(self._active) > MOST_TENANTS:
                del self._active[next(iter(self._active))]
