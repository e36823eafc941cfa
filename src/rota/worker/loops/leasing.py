"""Takes jobs from the store, in good time and not too many."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rota.errors import RotaError, StoreError
from rota.events import JobsLeased
from rota.fleet.outage import Outage, StoreRetry
from rota.jobs import Job, begin_beside
from rota.policy.gates import Refreshed
from rota.policy.limit_watch import LeasedUnderLimits
from rota.stores.protocol import LeaseRequest
from rota.worker.loops.resting import Resting
from rota.worker.loops.settling import Settler
from rota.worker.running.crew import Crew
from rota.worker.running.held import Held
from rota.worker.surroundings import Surroundings

_UNANSWERED_KEPT = 1_000
_NO_TIME = timedelta(0)


class Pace(NamedTuple):
    """How fast things go: jobs finished since the last lease was asked for, and how long ago."""

    finished_count: int = 0
    since_for: timedelta = _NO_TIME
    asking_for: timedelta = _NO_TIME
    """How long the store took to answer the last time."""


def choose_limit(free_count: int, pace: Pace, batch: int) -> int:
    """How many jobs to ask for: as many as there are free places, and what will soon be done.

    ``free_count`` is below zero when jobs wait already. What is expected to end while the store is
    asked is leased ahead, twice that so that a worker which is held up by its leases gets faster.
    Jobs that take long are not leased ahead: others could run them meanwhile.
    """
    expected = 0.0
    if pace.since_for > _NO_TIME:
        share = min(pace.asking_for / pace.since_for, 1.0)
        expected = 2 * pace.finished_count * max(share, 0.0)
    return max(0, min(batch, free_count + int(expected)))


class Leaser:
    """Keeps a crew supplied until it is told to stop.

    ``unanswered`` are the instants of calls that the store may have carried out without saying so:
    what was leased then is held by this worker, and nobody here knows of it.
    """

    def __init__(
        self, surroundings: Surroundings, outage: Outage, crew: Crew, settler: Settler
    ) -> None:
        self.unanswered: deque[datetime] = deque(maxlen=_UNANSWERED_KEPT)
        self._surroundings = surroundings
        self._crew = crew
        self._settler = settler
        self._retry = StoreRetry(outage, surroundings.clock, surroundings.random)
        self._after_tenant = ""
        self._called = asyncio.Event()
        self._resting = Resting(surroundings, self._retry, self._called)
        self._taken_at = surroundings.clock.now()
        self._reach = self._asked_count = surroundings.settings.batch
        self._is_short_of_room = False
        self._is_asking = False
        self._is_stopping = False
        self._task: asyncio.Task[Any] | None = None
        self._ended = asyncio.Event()
        self._asked_at: datetime | None = None
        self._asking_for = _NO_TIME
        self._finished_count = 0
        self._held_back = LeasedUnderLimits(())
        gate: object = surroundings.settings.gate
        self._refreshed = gate if isinstance(gate, Refreshed) else None
        settler.on_written = self._note_place

    async def run(self) -> None:
        """Lease until told to stop."""
        self._task = asyncio.current_task()
        try:
            await self._lease_on()
        finally:
            self._ended.set()

    def stop(self) -> None:
        """Ask for nothing more. What the store is just about to hand out is handed back."""
        self._is_stopping = True
        self._retry.hurry()  # a store that fails now is not waited for
        if self._task is not None and not self._is_asking:
            self._task.cancel()

    async def ended(self) -> None:
        """Return when the store is not being asked any more."""
        if self._task is not None:
            await self._ended.wait()

    def wake(self) -> None:
        """There may be something to lease."""
        self._called.set()

    def note_room(self) -> None:
        """A job has ended here; called for each, and cheap."""
        if self._is_short_of_room:
            self._is_short_of_room = False
            self._called.set()

    async def lease_once(self, limit: int) -> Sequence[Held]:
        """Up to so many jobs, in this worker's hands from now on."""
        settings, clock = self._surroundings.settings, self._surroundings.clock
        request = LeaseRequest(
            worker=self._surroundings.owner,
            limit=limit,
            lease_for=settings.lease_for,
            queues=settings.queues,
            tenants=settings.tenants,
            after_tenant=self._after_tenant,
        )
        await self._refresh_gate()
        now = clock.now()
        self._finished_count, self._asked_at = self._crew.finished_count, now
        try:
            jobs = await self._take(request, now)
        except (StoreError, asyncio.CancelledError):
            self.unanswered.append(now)
            raise
        self._asking_for = clock.now() - now
        if not jobs:
            return ()
        self._after_tenant, self._taken_at = jobs[-1].tenant, now
        if self._surroundings.journal.wants(JobsLeased):
            owner = self._surroundings.owner
            self._surroundings.journal.emit(JobsLeased(worker=owner, count=len(jobs)))
        until = now + settings.lease_for
        held = [Held(job, until) for job in jobs]
        self._settler.in_hand.update(held)
        await self._begin_beside(jobs)
        return held

    async def _take(self, request: LeaseRequest, now: datetime) -> Sequence[Job]:
        limits = self._surroundings.settings.limits
        if limits is None:
            return await self._surroundings.store.lease(request, now)
        allotment = await limits.lease(request, now)
        self._held_back = allotment._replace(jobs=())
        return allotment.jobs

    def _note_place(self) -> None:
        """Some jobs do not run any more: under limits, others may have their places."""
        self._crew.solitude.check()
        if self._held_back.is_limited:
            self._called.set()

    async def _refresh_gate(self) -> None:
        """Before anything is held: a store that hangs now costs no lease.

        One that cannot be read is waited for, and not passed by: what the gate knows may be as old
        as the last job.
        """
        if self._refreshed is None:
            return
        try:
            await self._refreshed.refresh(self._surroundings.clock.now())
        except StoreError:
            raise
        except RotaError:
            return  # then its verdict is what it was

    async def _begin_beside(self, jobs: Sequence[Job]) -> None:
        """Where the occurrences of a series may overlap, the next one comes into being now."""
        now = self._surroundings.clock.now()
        beside = [
            after
            for job in jobs
            if job.recurrence is not None and (after := begin_beside(job, now)) is not None
        ]
        if beside:
            with suppress(RotaError):  # its end brings the next one about as well
                await self._surroundings.store.insert(beside, now)

    async def _lease_on(self) -> None:
        while not self._is_stopping:
            limit = self._choose_limit()
            if limit:
                await self._lease(limit)
            else:
                self._is_short_of_room = True
                await self._called.wait()
                self._called.clear()

    def _choose_limit(self) -> int:
        crew, settings = self._crew, self._surroundings.settings
        if crew.solitude.is_claimed:
            return 0
        batch = min(settings.batch, crew.solitude.allowance)
        free = settings.concurrency - crew.running_count - crew.waiting_count
        if self._asked_at is None:
            return choose_limit(free, Pace(), batch)
        finished = crew.finished_count - self._finished_count
        since_for = self._surroundings.clock.now() - self._asked_at
        return choose_limit(free, Pace(finished, since_for, self._asking_for), batch)

    async def _lease(self, limit: int) -> None:
        self._called.clear()  # whatever was rung for until now, this lease will find
        held = await self._retry.call(lambda: self._ask(limit))
        self._crew.put(held)
        if self._is_stopping:
            self._crew.hand_back_waiting()
        elif len(held) < self._asked_count:
            await self._resting.rest(self._held_back, self._taken_at)

    async def _ask(self, limit: int) -> Sequence[Held]:
        """Of a store that did not answer half as many are asked for, then twice as many again.

        An answer that takes longer than it is waited for would be handed back and leased for ever.
        """
        if self._is_stopping:
            return ()
        self._is_asking = True
        self._asked_count = min(limit, self._reach)
        try:
            held = await self.lease_once(self._asked_count)
        except StoreError:
            self._reach = max(1, self._asked_count // 2)
            raise
        finally:
            self._is_asking = False
        self._reach = min(2 * self._reach, self._surroundings.settings.batch)
        return held


async def listen(surroundings: Surroundings, outage: Outage, wake: Leaser) -> None:
    """Wake the leaser whenever the store says that there may be something; only a hint."""
    settings, store = surroundings.settings, surroundings.store
    retry = StoreRetry(outage, surroundings.clock, surroundings.random)

    async def hear() -> None:
        async with store.listen(settings.queues, settings.tenants) as listener:
            retry.note_answer()
            wake.wake()
            while True:
                await listener.wait()
                wake.wake()

    await retry.call(hear)
