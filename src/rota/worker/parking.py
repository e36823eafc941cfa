"""Takes jobs that the store leases to this worker as they are inserted, while the worker rests."""

import asyncio
from asyncio import Task
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any

from rota.errors import RotaError, StoreError
from rota.jobs import Job
from rota.policy.watch import RENEW_AFTER
from rota.stores.protocol import LeaseRequest, Parked, ParkingStore
from rota.worker.attempts import HANDED_BACK, Attempt, Flow, Stage
from rota.worker.executor import Executor
from rota.worker.settings import Resources

LEFT_WITHIN = 2.0
"""Seconds that the store may take to answer a withdrawal at the end."""

Hold = Callable[[Job | None, datetime], Sequence[Attempt]]


class Parking:
    """Parks a worker with its store, by the machine's time.

    A job that is given goes to the executor at once, without a lease and its turns of the event
    loop. But limits may have been set since the last lease. If they were read too long ago they are
    read again first, and a job that they concern is handed back, to be leased under them.

    ``hold`` notes that a job is leased until then; None if it is not known which.
    """

    def __init__(
        self,
        store: ParkingStore,
        resources: Resources,
        flow: Flow,
        executor: Executor,
        hold: Hold,
    ) -> None:
        self._store = store
        self._resources = resources
        self._flow = flow
        self._executor = executor
        self._hold = hold
        self._parked: Parked | None = None
        self._is_stopping = False
        self._until_idle: Task[None] | None = None
        self._tasks: set[Task[None]] = set()
        self.undecided_count = 0
        """Jobs that were given and wait until it is known whether a limit concerns them."""

    @asynccontextmanager
    async def parked(self, request: LeaseRequest) -> AsyncIterator[None]:
        """Be given a job while the context lasts, and what else comes a moment longer.

        Only an idle worker is parked: a handler may block the event loop, and then jobs would wait
        although other workers are free. Once it is idle it leases again, and is parked.
        """
        parked = None
        if self._flow.is_busy or not (self._parked is None or self._parked.is_over):
            self._lease_when_idle()
        else:
            now = self._resources.clock.now()
            receive = partial(self._receive, request, now + request.lease_for)
            with suppress(StoreError):
                parked = self._parked = await self._store.park(request, now, receive)
        try:
            yield
        finally:
            if parked is not None:
                parked.leave()

    def stop(self) -> None:
        """Withdraw, and hand back what still comes."""
        self._is_stopping = True
        if self._parked is not None:
            self._parked.leave()

    async def close(self) -> None:
        """Return when no more jobs will come."""
        self.stop()
        if self._parked is not None:
            await self._parked.left(LEFT_WITHIN)
        for task in self._tasks:
            task.cancel()  # the store may be away
        if self._until_idle is not None:
            self._until_idle.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _receive(self, request: LeaseRequest, until: datetime, job: Job | None) -> None:
        attempts, resources = self._hold(job, until), self._resources
        if not attempts:
            return
        now = resources.clock.now()
        if self._is_stopping:
            self._hand_back(attempts)
        elif self._is_up_to_date(now) and not resources.limits.apply_to(request):
            self._submit(attempts)
            if not (self._tasks or resources.gate.is_recent(now, RENEW_AFTER)):
                self._start(self._refresh_gates())
        else:
            self.undecided_count += len(attempts)
            self._start(self._submit_unless_limited(request, attempts))

    def _is_up_to_date(self, now: datetime) -> bool:
        """Whether a lease would read nothing before."""
        gate, limits = self._resources.gate, self._resources.limits
        return limits.is_trusted(now) and not gate.has_more_to_refresh

    def _submit(self, attempts: Sequence[Attempt]) -> None:
        self._executor.submit(attempts)
        if self._parked is not None:
            self._parked.leave()
        self._lease_when_idle()

    def _lease_when_idle(self) -> None:
        if self._until_idle is None or self._until_idle.done():
            self._until_idle = asyncio.create_task(self._call_when_idle())

    async def _call_when_idle(self) -> None:
        if self._parked is not None:
            await self._parked.left(LEFT_WITHIN)
        await self._flow.wait_while(lambda: self._flow.is_busy)
        self._flow.called.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _refresh_gates(self) -> None:
        """While no job waits for that."""
        with suppress(RotaError):  # the next job reads them in any case
            await self._resources.gate.refresh_ahead(self._resources.clock.now())

    async def _submit_unless_limited(
        self, request: LeaseRequest, attempts: Sequence[Attempt]
    ) -> None:
        is_limited = True
        # Then nothing may be leased: what a gate raises reaches the next lease too.
        with suppress(Exception, asyncio.CancelledError):
            is_limited = await self._is_limited(request)
        self.undecided_count -= len(attempts)
        self._flow.changed.set()
        if is_limited or self._is_stopping:
            self._flow.called.set()  # leave, and lease under the limits
            self._hand_back(attempts)
        else:
            self._submit([each for each in attempts if each.stage is Stage.WAITING])

    async def _is_limited(self, request: LeaseRequest) -> bool:
        """Read what a lease would read first."""
        gate, limits, clock = self._resources.gate, self._resources.limits, self._resources.clock
        try:
            await gate.refresh(clock.now())
        except StoreError:
            raise
        except RotaError:
            pass  # the last verdict still applies
        await limits.refresh(clock.now())
        return limits.apply_to(request)

    def _hand_back(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            if attempt.stage is Stage.WAITING:  # its lease may have been lost meanwhile
                self._flow.end(attempt, HANDED_BACK, self._resources.clock.now())
                self._flow.finished_count -= 1  # else the next lease would ask for more, as it ran
