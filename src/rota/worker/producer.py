"""Leases jobs and passes them to the executor: soon enough, and not too many."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from rota.clock.protocol import keeps_real_time
from rota.errors import RotaError, StoreClosedError, StoreError
from rota.events import JobsLeased
from rota.fleet.outage import StoreRetry
from rota.jobs import Job, begin_beside
from rota.policy.watch import LeasedUnderLimits
from rota.stores.protocol import LeaseRequest, ParkingStore
from rota.worker.attempts import Attempt, Flow, Stage
from rota.worker.context import CancelReason
from rota.worker.executor import Executor
from rota.worker.heartbeat import Heartbeat
from rota.worker.parking import Parking
from rota.worker.quarantine import Quarantine
from rota.worker.rest import Rest
from rota.worker.settings import Resources

_UNANSWERED_KEPT = 1_000
_NO_TIME = timedelta(0)
_NOTHING = LeasedUnderLimits(())


class Pace(NamedTuple):
    """How fast things go: jobs finished since the last lease, and how long ago that was.

    ``asking_for`` is how long the store took to answer it.
    """

    finished_count: int = 0
    since_for: timedelta = _NO_TIME
    asking_for: timedelta = _NO_TIME


def choose_limit(free_count: int, pace: Pace, batch: int) -> int:
    """How many jobs to ask for: one for each free slot, and for each that will soon be free.

    ``free_count`` is negative when jobs are waiting already. Jobs that probably end while the store
    answers are leased ahead, times two, so that a worker held up by its leases gets faster. Jobs
    that take long are not leased ahead: other workers could run them meanwhile.
    """
    expected = 0.0
    if pace.since_for > _NO_TIME:
        share = min(pace.asking_for / pace.since_for, 1.0)
        expected = 2 * pace.finished_count * max(share, 0.0)
    return max(0, min(batch, free_count + int(expected)))


@dataclass(slots=True)
class LastLease:
    """What the next lease must know of the last one.

    ``reach`` is how many jobs to ask for at most: half as many after each failure, so that a slow
    store can answer in time, and twice as many after each answer.
    """

    asked_at: datetime
    found_at: datetime
    reach: int
    asked_count: int = 0
    asking_for: timedelta = _NO_TIME
    finished_count: int = 0
    after_tenant: str = ""
    result: LeasedUnderLimits = _NOTHING


class Producer:
    """Keeps the executor supplied until stopped.

    ``unanswered`` are the ends of leases that the store may have carried out although the answer
    was lost: this worker holds those jobs without knowing them.
    """

    def __init__(
        self, resources: Resources, flow: Flow, executor: Executor, heartbeat: Heartbeat
    ) -> None:
        self.unanswered: deque[datetime] = deque(maxlen=_UNANSWERED_KEPT)
        self._resources = resources
        self._flow = flow
        self._executor = executor
        self._heartbeat = heartbeat
        self._quarantine = Quarantine(resources, flow)
        now = resources.clock.now()
        self._last = LastLease(now, now, resources.settings.batch)
        self._stopping = asyncio.Event()
        self._parking: Parking | None = None
        store = resources.store
        if isinstance(store, ParkingStore) and keeps_real_time(resources.clock):
            self._parking = Parking(store, resources, flow, executor, self._hold_given)

    async def run(self) -> None:
        """Lease until stopped."""
        resources, flow, last = self._resources, self._flow, self._last
        retry = StoreRetry(
            resources.outage, resources.clock, resources.random, hurried=self._stopping
        )
        rest = Rest(resources, retry, flow.called)
        while not self._stopping.is_set():
            limit = self._choose_limit()
            if not limit:
                flow.changed.clear()
                await flow.changed.wait()
                continue
            flow.called.clear()  # this lease finds what the calls until now were about
            try:
                found_count = await self._lease_within_reach(limit)
            except StoreClosedError:
                raise
            except StoreError as error:
                await retry.wait(error)
                continue
            retry.note_answer()
            if self._stopping.is_set():
                self._executor.hand_back_ready()
            elif found_count < last.asked_count:
                await self._rest(rest, limit - found_count)
            else:
                await rest.refresh_ahead()
        if self._parking is not None:
            await self._parking.close()

    async def _rest(self, rest: Rest, free_count: int) -> None:
        """Rest; meanwhile the store may give jobs that are inserted, unless there are limits."""
        result, found_at = self._last.result, self._last.found_at
        if self._parking is None or result.is_limited or free_count <= 0:
            await rest.rest(result, found_at)
            return
        async with self._parking.parked(self._make_request(free_count)):
            await rest.rest(result, found_at)

    def stop(self) -> None:
        """Lease nothing more, and hand back what has not started.

        What the store is about to hand out is handed back when it arrives.
        """
        self._stopping.set()
        if self._parking is not None:
            self._parking.stop()
        self._flow.called.set()
        self._flow.changed.set()
        self._executor.hand_back_ready()

    async def lease(self, limit: int) -> int:
        """Lease up to ``limit`` jobs and pass them to the executor; returns how many."""
        resources, last = self._resources, self._last
        lease_for, clock = resources.settings.lease_for, resources.clock
        try:  # before anything is held, so that a store that hangs costs no lease
            await resources.gate.refresh(clock.now())
        except StoreError:
            raise
        except RotaError:
            pass  # the last verdict still applies
        request, now = self._make_request(limit), clock.now()
        last.finished_count, last.asked_at = self._flow.finished_count, now
        try:
            result = await resources.limits.lease(request, now)
        except (StoreError, asyncio.CancelledError):
            self.unanswered.append(now + lease_for)
            raise
        jobs, self._flow.is_limited = result.jobs, result.is_limited
        last.result = result._replace(jobs=())
        last.asking_for = clock.now() - now
        if jobs:
            last.after_tenant, last.found_at = jobs[-1].tenant, now
        await self._pass_on(jobs, now + lease_for)
        return len(jobs)

    def _make_request(self, limit: int) -> LeaseRequest:
        resources, settings = self._resources, self._resources.settings
        return LeaseRequest(
            worker=resources.name,
            limit=limit,
            lease_for=settings.lease_for,
            queues=settings.queues,
            tenants=settings.tenants,
            after_tenant=self._last.after_tenant,
            kinds=None if settings.takes_any_kind else resources.handlers.keys(),
            labels=settings.labels,
        )

    async def _lease_within_reach(self, limit: int) -> int:
        last = self._last
        last.asked_count = min(limit, last.reach)
        try:
            count = await self.lease(last.asked_count)
        except StoreError:
            last.reach = max(1, last.asked_count // 2)
            raise
        last.reach = min(2 * last.reach, self._resources.settings.batch)
        return count

    def _hold(self, jobs: Sequence[Job], until: datetime) -> list[Attempt]:
        """Note that these jobs are leased until then."""
        resources = self._resources
        attempts = [Attempt(job, until) for job in jobs]
        self._flow.held.update(attempts)
        if jobs:
            self._heartbeat.note_leases(until)
            if resources.events.wants(JobsLeased):
                resources.events.emit(JobsLeased(worker=resources.name, count=len(jobs)))
        return attempts

    def _hold_given(self, job: Job | None, until: datetime) -> list[Attempt]:
        """Note that the store has given this job, or one that is not known."""
        if job is None:
            self.unanswered.append(until)
            return []
        return self._hold([job], until)

    async def _pass_on(self, jobs: Sequence[Job], until: datetime) -> None:
        resources, flow = self._resources, self._flow
        attempts = self._hold(jobs, until)
        recurring = [job for job in jobs if job.recurrence is not None]
        if recurring:
            await self._begin_beside(recurring)
        now = resources.clock.now()
        # The store may have taken longer to answer than the leases last.
        for attempt in [it for it in (*flow.ready, *attempts) if it.lease_until <= now]:
            self._executor.cancel(attempt, CancelReason.LAPSED)
        waiting: Sequence[Attempt] = [it for it in attempts if it.stage is Stage.WAITING]
        if any([job.loss_count for job in jobs]):  # noqa: C419 - a list is made faster
            waiting = self._quarantine.admit(waiting)
        self._executor.submit(waiting)

    async def _begin_beside(self, recurring: Sequence[Job]) -> None:
        """Create the next occurrence now for series whose occurrences may overlap."""
        now = self._resources.clock.now()
        beside = [change for job in recurring if (change := begin_beside(job, now)) is not None]
        if beside:
            with suppress(RotaError):  # otherwise the end of the job creates it
                await self._resources.store.apply(beside, now)

    def _choose_limit(self) -> int:
        flow, last, settings = self._flow, self._last, self._resources.settings
        given_count = 0 if self._parking is None else self._parking.undecided_count
        free = settings.concurrency - flow.running_count - len(flow.ready) - given_count
        finished_count = flow.finished_count - last.finished_count
        since_for = self._resources.clock.now() - last.asked_at
        return choose_limit(free, Pace(finished_count, since_for, last.asking_for), settings.batch)


async def listen(resources: Resources, flow: Flow) -> None:
    """Call the producer whenever the store says that there may be a job; only a hint."""
    settings, store = resources.settings, resources.store
    retry = StoreRetry(resources.outage, resources.clock, resources.random)

    async def hear() -> None:
        async with store.listen(settings.queues, settings.tenants) as listener:
            retry.note_answer()
            flow.called.set()
            while True:
                await listener.wait()
                flow.called.set()

    await retry.call(hear)
