"""Leases for workers that speak HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from random import Random

import msgspec

from rota.clock.protocol import Clock
from rota.clock.timeout import timeout_after
from rota.errors import InvalidInputError, RotaError
from rota.fleet.workers import SHOWN_EVERY, WORKERS, WorkerPresence, sweep_workers
from rota.jobs import Interrupted, Job, JobId, Lost, Outcome, begin_beside
from rota.jobs.fields import read_name, read_queue, read_word
from rota.ops.reasons import ANY_KIND
from rota.policy.gates import Closed
from rota.policy.watch import GateWatch, LeasedUnderLimits, LimitWatch
from rota.rail.jobs import RailStore
from rota.stores.protocol import DocumentStore, DocumentWrite, HeldLease, LeaseRequest, Listener
from rota.worker.completer import decide
from rota.worker.rescuer import PAGE_SIZE
from rota.worker.rest import choose_due_for, choose_rest

MOST_LEASED = 100
LONGEST_LEASE = timedelta(hours=1)
SHORTEST_LEASE = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=30)
_NO_TIME = timedelta(0)


class HttpLeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A lease request from an HTTP worker.

    ``wait_for`` is how long to wait for a job. Quiet hours hold back kinds in ``notifies``.
    ``kinds`` is shown to operators; queues alone decide which jobs the worker gets.
    """

    worker: str
    limit: int = 1
    lease_for: timedelta = timedelta(seconds=60)
    wait_for: timedelta = _NO_TIME
    queues: tuple[str, ...] | None = None
    notifies: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        read_name(self.worker, "worker")
        if type(self.limit) is not int or not 1 <= self.limit <= MOST_LEASED:
            raise refuse("limit", f"must be an integer from 1 to {MOST_LEASED}, got {self.limit}")
        check_lease(self.lease_for, "lease_seconds")
        if not _NO_TIME <= self.wait_for <= LONGEST_WAIT:
            most = LONGEST_WAIT // timedelta(seconds=1)
            raise refuse("wait_seconds", f"must be from 0 to {most}")
        if self.queues is not None and not self.queues:
            raise refuse("queues", "must name at least one queue, or be left out for all")
        for queue in self.queues or ():
            read_queue(queue)
        for kind in (*self.notifies, *self.kinds):
            read_word(kind, "kinds" if kind in self.kinds else "notifies")


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one job, as its worker reports it."""

    held: HeldLease
    outcome: Outcome


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What was written for one job. ``is_stale``: nothing, because the worker lost the lease."""

    job_id: JobId
    is_stale: bool
    job: Job | None = None


def check_lease(lease_for: timedelta, field: str) -> None:
    """Refuse a lease that is too short to keep or too long to wait out."""
    if not SHORTEST_LEASE <= lease_for <= LONGEST_LEASE:
        most = LONGEST_LEASE // timedelta(seconds=1)
        raise refuse(field, f"must be from 1 to {most}")


def refuse(field: str, reason: str) -> InvalidInputError:
    """Refuse a value and name its field."""
    return InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})


HTTP = "http"
"""The host and version shown for an HTTP worker, which reports neither."""

_MOST_KNOWN = 10_000
_LONGEST_KEY = 255


class HttpWorkerPresence:
    """Records the presence of HTTP workers. A failure to record is ignored."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._shown_at: dict[str, datetime] = {}

    async def show(self, tenant: str, wish: HttpLeaseRequest, now: datetime) -> None:
        """Record that the worker was seen, unless it was recorded a moment ago."""
        key = f"{HTTP}:{tenant}:{wish.worker}"[:_LONGEST_KEY]
        shown_at = self._shown_at.get(key)
        if shown_at is not None and shown_at <= now < shown_at + SHOWN_EVERY:
            return
        if len(self._shown_at) >= _MOST_KNOWN:
            self._shown_at.clear()
        self._shown_at[key] = now
        with suppress(RotaError):  # the call that needs the store reports the failure
            await self._write(key, tenant, wish, now)
            if shown_at is None:
                await sweep_workers(self._store, now)

    async def _write(self, key: str, tenant: str, wish: HttpLeaseRequest, now: datetime) -> None:
        document = (await self._store.read(WORKERS, [key])).get(key)
        presence = WorkerPresence(
            id=wish.worker,
            host=HTTP,
            pid=0,
            queues=None if wish.queues is None else tuple(sorted(wish.queues)),
            tenants=(tenant,),
            kinds=tuple(sorted(wish.kinds)) or (ANY_KIND,),
            concurrency=wish.limit,
            version=HTTP,
            started_at=_since(None if document is None else document.body, now),
            seen_at=now,
        )
        expected = None if document is None else document.version
        body = msgspec.json.encode(presence)
        await self._store.write_each([DocumentWrite(WORKERS, key, expected, body)])


def _since(body: bytes | None, now: datetime) -> datetime:
    """When the worker was first seen in its current presence."""
    if body is None:
        return now
    try:
        known = msgspec.json.decode(body, type=WorkerPresence)
    except msgspec.DecodeError:
        return now
    return now if known.is_gone(now) else known.started_at


POLL_FOR = timedelta(seconds=1)
"""How often a waiting request polls for jobs."""

SWEEP_FOR = timedelta(seconds=5)
"""How often, at most, expired leases are rescued."""

MOST_ROUNDS = 5
"""How often one call leases again when gates held back every leased job."""

Disconnected = Callable[[], Awaitable[None]]
"""Returns when the caller has disconnected."""


class HttpLeases:
    """Leases for HTTP workers; one per server. Holds no state that it cannot rebuild."""

    def __init__(self, store: RailStore, clock: Clock, random: Random | None = None) -> None:
        self._store = store
        self._clock = clock
        self._random = random or Random()  # noqa: S311 - jitter is not a secret
        self._gate = GateWatch(store)
        self._limits = LimitWatch(store)
        self._visibility = HttpWorkerPresence(store)
        self._swept_at: datetime | None = None
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End every wait. Waiting requests get an empty answer."""
        self._closing.set()

    async def lease(
        self, tenant: str, wish: HttpLeaseRequest, hung_up: Disconnected | None = None
    ) -> list[Job]:
        """Lease up to ``wish.limit`` of the tenant's jobs to the worker.

        Waits up to ``wish.wait_for`` for the first job. When the caller disconnects meanwhile, the
        jobs are released at once and none is returned.
        """
        deadline = self._clock.now() + wish.wait_for
        async with _noticing(hung_up) as gone, self._listening(tenant, wish) as listener:
            calls = _Calls(listener, gone, deadline)
            jobs = await self._take_or_wait(tenant, wish, calls)
            if jobs and gone.is_set():
                await self._hand_back(jobs)
                return []
            return jobs

    async def extend(
        self, tenant: str, worker: str, held: Sequence[HeldLease], lease_for: timedelta
    ) -> list[bool]:
        """Extend leases from now.

        False for each lease the worker has lost: it must stop that job.
        """
        check_lease(lease_for, "lease_seconds")
        now = self._clock.now()
        own = await self._find_held(tenant, worker, [each.job_id for each in held])
        kept = [each for each in held if _token(own.get(each.job_id)) == each.token]
        answers = await self._store.extend(kept, now + lease_for, now) if kept else []
        lasting = {each for each, is_held in zip(kept, answers, strict=True) if is_held}
        return [each in lasting for each in held]

    async def settle(
        self, tenant: str, worker: str, settlements: Sequence[Settlement]
    ) -> list[Settled]:
        """Apply outcomes in one call. A stale outcome writes nothing."""
        now = self._clock.now()
        ids = [each.held.job_id for each in settlements]
        own = await self._find_held(tenant, worker, ids)
        current = [
            each for each in settlements if _token(own.get(each.held.job_id)) == each.held.token
        ]
        changes = [
            decide(own[each.held.job_id], each.outcome, now, self._random.random())
            for each in current
        ]
        applied = await self._store.apply(changes, now) if changes else []
        written = {
            id(each): answer.job
            for each, answer in zip(current, applied, strict=True)
            if answer.job is not None
        }
        return [
            Settled(
                job_id=each.held.job_id, is_stale=id(each) not in written, job=written.get(id(each))
            )
            for each in settlements
        ]

    async def sweep(self) -> int:
        """Rescue jobs of all tenants whose lease has expired. Returns how many."""
        now, after, count = self._clock.now(), None, 0
        while True:
            page = await self._store.find_expired(now, PAGE_SIZE, after)
            if not page:
                return count
            changes = [decide(job, Lost(), now, self._random.random()) for job in page]
            count += sum(not it.is_stale for it in await self._store.apply(changes, now))
            if len(page) < PAGE_SIZE:
                return count
            after = page[-1]

    async def _take_or_wait(
        self, tenant: str, wish: HttpLeaseRequest, calls: "_Calls"
    ) -> list[Job]:
        while not calls.gone.is_set():
            allotment = await self._take(tenant, wish)
            is_over = self._clock.now() >= calls.deadline or self._closing.is_set()
            if allotment.jobs or is_over:
                return [*allotment.jobs]
            await self._rest(tenant, wish, allotment, calls)
        return []

    @asynccontextmanager
    async def _listening(
        self, tenant: str, wish: HttpLeaseRequest
    ) -> AsyncIterator[Listener | None]:
        """A listener for a request that waits."""
        if not wish.wait_for:
            yield None
            return
        async with self._store.listen(wish.queues, [tenant]) as listener:
            yield listener

    async def _take(self, tenant: str, wish: HttpLeaseRequest) -> LeasedUnderLimits:
        """Lease jobs and let the gates hold some back."""
        await self._sweep_now_and_then()
        await self._visibility.show(tenant, wish, self._clock.now())
        request = LeaseRequest(
            worker=wish.worker,
            limit=wish.limit,
            lease_for=wish.lease_for,
            queues=wish.queues,
            tenants=[tenant],
        )
        allotment = LeasedUnderLimits(())
        for _ in range(MOST_ROUNDS):
            await self._gate.refresh(self._clock.now())
            allotment = await self._limits.lease(request, self._clock.now())
            passed = await self._pass_gates(allotment.jobs, wish)
            if passed or not allotment.jobs:
                return allotment._replace(jobs=passed)
        return allotment._replace(jobs=())

    async def _pass_gates(self, jobs: Sequence[Job], wish: HttpLeaseRequest) -> list[Job]:
        now = self._clock.now()
        judged = [
            (job, self._gate.judge(job, now, notifies=job.kind in wish.notifies)) for job in jobs
        ]
        deferrals = [decide(job, it, now, 0.0) for job, it in judged if isinstance(it, Closed)]
        if deferrals:
            await self._store.apply(deferrals, now)
        passed = [job for job, verdict in judged if not isinstance(verdict, Closed)]
        beside = [after for job in passed if (after := begin_beside(job, now)) is not None]
        if beside:
            with suppress(RotaError):  # its end also creates the next job of the series
                await self._store.insert(beside, now)
        return passed

    async def _hand_back(self, jobs: Sequence[Job]) -> None:
        now = self._clock.now()
        await self._store.apply([decide(job, Interrupted(), now, 0.0) for job in jobs], now)

    async def _find_held(
        self, tenant: str, worker: str, job_ids: Sequence[JobId]
    ) -> dict[JobId, Job]:
        """The tenant's jobs that this worker holds."""
        found = await self._store.get(tenant, job_ids)
        return {
            job_id: job
            for job_id, job in found.items()
            if job.lease is not None and job.lease.worker == worker
        }

    async def _sweep_now_and_then(self) -> None:
        now = self._clock.now()
        if self._swept_at is not None and self._swept_at <= now < self._swept_at + SWEEP_FOR:
            return
        self._swept_at = now
        await self.sweep()

    async def _rest(
        self, tenant: str, wish: HttpLeaseRequest, held_back: LeasedUnderLimits, calls: "_Calls"
    ) -> None:
        """Wait for a wake-up, the next due job, or the next poll."""
        now = self._clock.now()
        due_at = await self._store.next_due_at(now, wish.queues, [tenant])
        due_for = choose_due_for(due_at, held_back, now)
        rest = choose_rest(POLL_FOR, due_for, self._random.random())
        rest = max(min(rest, calls.deadline - now), timedelta(0))
        waits: list[asyncio.Future[object]] = [
            asyncio.ensure_future(calls.gone.wait()),
            asyncio.ensure_future(self._closing.wait()),
        ]
        if calls.listener is not None:
            waits.append(asyncio.ensure_future(_hear(calls.listener)))
        try:
            with suppress(TimeoutError):
                async with timeout_after(self._clock, rest):
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


async def _hear(listener: Listener) -> None:
    """Return on a wake-up.

    When the listener fails, wait for the poll instead: returning at once would query the store in a
    tight loop.
    """
    try:
        await listener.wait()
    except RotaError:
        await asyncio.Event().wait()


class _Calls:
    """What ends a wait early, and the deadline of all waiting."""

    def __init__(self, listener: Listener | None, gone: asyncio.Event, deadline: datetime) -> None:
        self.listener = listener
        self.gone = gone
        self.deadline = deadline


@asynccontextmanager
async def _noticing(hung_up: Disconnected | None) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the caller has disconnected."""
    gone = asyncio.Event()
    if hung_up is None:
        yield gone
        return

    async def notice() -> None:
        await hung_up()
        gone.set()

    noticing = asyncio.create_task(notice())
    try:
        yield gone
    finally:
        noticing.cancel()
        await asyncio.gather(noticing, return_exceptions=True)


def _token(job: Job | None) -> int | None:
    return None if job is None or job.lease is None else job.lease.token
