"""Leases for workers that speak HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

import msgspec

from rota.clock.protocol import Clock
from rota.clock.system import timeout_after
from rota.errors import RotaError, invalid
from rota.events import EventEmitter, JobsLeased
from rota.fleet.presence import SHOWN_EVERY, WORKERS, WorkerPresence, sweep_gone
from rota.jobs import (
    Interrupted,
    Job,
    JobId,
    Lost,
    Outcome,
    Skipped,
    begin_beside,
    is_missed,
)
from rota.jobs.fields import read_name, read_queue, read_word
from rota.jobs.recurrence import MISSED
from rota.ops.kinds import ANY_KIND, Catalogue
from rota.policy.gates import Closed
from rota.policy.watch import GateWatch, LeasedUnderLimits, LimitWatch
from rota.rail.jobs import RailStore
from rota.stores.documents import decode_body, find_document
from rota.stores.protocol import (
    Document,
    DocumentStore,
    DocumentWrite,
    HeldLease,
    LeaseRequest,
    Listener,
)
from rota.worker import WorkerSettings, attempts
from rota.worker.completer import decide, emit_settled
from rota.worker.job_events import job_stalled
from rota.worker.rescuer import PAGE_SIZE
from rota.worker.rest import DueJobs, choose_due_for, choose_rest

MOST_LEASED = 100
LONGEST_LEASE = timedelta(hours=1)
SHORTEST_LEASE = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=30)
_NO_TIME = timedelta(0)
_MILLISECOND = timedelta(milliseconds=1)

HTTP = "http"
"""The host and version shown for an HTTP worker, which reports neither."""

SWEEP_FOR = timedelta(seconds=5)
"""How often, at most, expired leases are rescued."""

MOST_ROUNDS = 5
"""How often one call leases again when gates held back every leased job."""

_MOST_KNOWN = 10_000
_LONGEST_KEY = 255


class HttpLeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A lease request from an HTTP worker.

    ``wait_for`` is how long to wait for a job. Quiet hours hold back kinds in ``notifies``, unless
    a job or the store says otherwise. The worker gets only jobs of its ``kinds``, if it names any,
    and of those with a version label only jobs whose label is among ``labels``. ``concurrency`` is
    how many jobs it says it runs at once; None for as many as one request leases.
    """

    worker: str
    limit: int = 1
    lease_for: timedelta = timedelta(seconds=60)
    wait_for: timedelta = _NO_TIME
    queues: tuple[str, ...] | None = None
    notifies: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    concurrency: int | None = None

    def __post_init__(self) -> None:
        read_name(self.worker, "worker")
        if type(self.limit) is not int or not 1 <= self.limit <= MOST_LEASED:
            raise invalid("limit", f"must be an integer from 1 to {MOST_LEASED}, got {self.limit}")
        check_lease(self.lease_for, "lease_seconds")
        if not _NO_TIME <= self.wait_for <= LONGEST_WAIT:
            most = LONGEST_WAIT // timedelta(seconds=1)
            raise invalid("wait_seconds", f"must be from 0 to {most}")
        if self.queues is not None and not self.queues:
            raise invalid("queues", "must name at least one queue, or be left out for all")
        for queue in self.queues or ():
            read_queue(queue)
        for kind in (*self.notifies, *self.kinds):
            read_word(kind, "kinds" if kind in self.kinds else "notifies")
        for label in self.labels:
            read_word(label, "labels")


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one job, as its worker reports it. ``error_code`` is for logs."""

    held: HeldLease
    outcome: Outcome
    error_code: str = ""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What was written for one job. ``is_stale``: nothing, because the worker lost the lease."""

    job_id: JobId
    is_stale: bool
    job: Job | None = None


def check_lease(lease_for: timedelta, field: str) -> None:
    """Refuse a lease that is too short to keep or too long to wait out."""
    if not SHORTEST_LEASE <= lease_for <= LONGEST_LEASE:
        most = LONGEST_LEASE // timedelta(seconds=1)
        raise invalid(field, f"must be from 1 to {most}")


class HttpWorkerPresence:
    """Records the presence of HTTP workers. A failure to record is ignored.

    ``poll_for`` is how often the server looks for jobs while a request waits.
    """

    def __init__(self, store: DocumentStore, poll_for: timedelta) -> None:
        self._store = store
        self._poll_for = poll_for
        self._shown_at: dict[str, datetime] = {}

    async def show(self, tenant: str, request: HttpLeaseRequest, now: datetime) -> None:
        """Record that the worker was seen, unless it was recorded a moment ago."""
        key = f"{HTTP}:{tenant}:{request.worker}"[:_LONGEST_KEY]
        shown_at = self._shown_at.get(key)
        if shown_at is not None and shown_at <= now < shown_at + SHOWN_EVERY:
            return
        if len(self._shown_at) >= _MOST_KNOWN:
            self._shown_at.clear()
        self._shown_at[key] = now
        with suppress(RotaError):  # the call that needs the store reports the failure
            await self._write(key, tenant, request, now)
            if shown_at is None:
                await sweep_gone(self._store, WORKERS, now)

    async def _write(self, key: str, tenant: str, request: HttpLeaseRequest, now: datetime) -> None:
        document = await find_document(self._store, WORKERS, key)
        presence = WorkerPresence(
            id=request.worker,
            host=HTTP,
            pid=0,
            queues=None if request.queues is None else tuple(sorted(request.queues)),
            tenants=(tenant,),
            kinds=tuple(sorted(request.kinds)) or (ANY_KIND,),
            labels=tuple(sorted(request.labels)),
            notifying=tuple(sorted(request.notifies)),
            concurrency=request.concurrency or request.limit,
            batch=request.limit,
            poll_ms=self._poll_for // _MILLISECOND if request.wait_for else None,
            lease_ms=request.lease_for // _MILLISECOND,
            version=HTTP,
            started_at=_since(document, now),
            seen_at=now,
        )
        expected = None if document is None else document.version
        body = msgspec.json.encode(presence)
        await self._store.write_each([DocumentWrite(WORKERS, key, expected, body)])


def _since(document: Document | None, now: datetime) -> datetime:
    """When the worker was first seen in its current presence."""
    known = decode_body(document, WorkerPresence, None)
    return now if known is None or known.is_gone(now) else known.started_at


class HttpGate(GateWatch):
    """The gates for HTTP workers, which know little about the kinds they run."""

    def __init__(self, store: DocumentStore) -> None:
        super().__init__(store)
        self._catalogue = Catalogue(store)

    async def read(self, now: datetime) -> frozenset[str]:
        """Read the gates, and return the kinds that notify people as apps say."""
        await self.renew(now)
        return await self._catalogue.list_notifying(now)


Disconnected = Callable[[], Awaitable[None]]
"""Returns when the caller has disconnected."""


class HttpLeases:
    """Leases for HTTP workers; one per server. Holds no state that it cannot rebuild.

    ``events`` are those that a worker in this process would emit. ``settings`` say how often a
    waiting request polls, and how long a lease lasts whose request does not say it.
    """

    def __init__(
        self,
        store: RailStore,
        clock: Clock,
        random: Random | None = None,
        settings: WorkerSettings | None = None,
    ) -> None:
        self.events = EventEmitter("rota.worker")
        self._settings = settings or WorkerSettings()
        self._store = store
        self._clock = clock
        self._random = random or Random()  # noqa: S311 - jitter is not a secret
        self._gate = HttpGate(store)
        self._limits = LimitWatch(store)
        self._presence = HttpWorkerPresence(store, self._settings.poll_for)
        self._swept_at: datetime | None = None
        self._closing = asyncio.Event()

    @property
    def lease_for(self) -> timedelta:
        """How long a lease lasts whose request does not say it."""
        return min(self._settings.lease_for, LONGEST_LEASE)

    def close(self) -> None:
        """End every wait. Waiting requests get an empty answer."""
        self._closing.set()

    async def lease(
        self, tenant: str, request: HttpLeaseRequest, disconnected: Disconnected | None = None
    ) -> list[Job]:
        """Lease up to ``limit`` of the tenant's jobs to the worker.

        Waits up to ``wait_for`` for the first job. When the caller disconnects meanwhile, the jobs
        are released at once, and none is returned.
        """
        deadline = self._clock.now() + request.wait_for
        async with _watching(disconnected) as gone, self._listening(tenant, request) as listener:
            ends = _WaitEnds(listener, gone, deadline)
            jobs = await self._take_or_wait(tenant, request, ends)
            if jobs and gone.is_set():
                await self._release(jobs)
                return []
            return jobs

    async def extend(
        self,
        tenant: str,
        worker: str,
        held: Sequence[HeldLease],
        lease_for: timedelta,
        queues: Collection[str] | None = None,
    ) -> list[bool]:
        """Extend leases from now.

        False for each lease the worker has lost: it must stop that job. With ``queues``, jobs of
        other queues are not the worker's.
        """
        check_lease(lease_for, "lease_seconds")
        now = self._clock.now()
        own = await self._find_held(tenant, worker, [each.job_id for each in held], queues)
        kept = [each for each in held if _token(own.get(each.job_id)) == each.token]
        answers = await self._store.extend(kept, now + lease_for, now) if kept else []
        lasting = {each for each, is_held in zip(kept, answers, strict=True) if is_held}
        return [each in lasting for each in held]

    async def settle(
        self,
        tenant: str,
        worker: str,
        settlements: Sequence[Settlement],
        queues: Collection[str] | None = None,
    ) -> list[Settled]:
        """Apply outcomes in one call. A stale outcome writes nothing.

        With ``queues``, jobs of other queues are not the worker's.
        """
        now = self._clock.now()
        ids = [each.held.job_id for each in settlements]
        own = await self._find_held(tenant, worker, ids, queues)
        current = [
            each for each in settlements if _token(own.get(each.held.job_id)) == each.held.token
        ]
        ended = [
            (own[each.held.job_id], attempts.Result(each.outcome, each.error_code))
            for each in current
        ]
        applied = await self._apply(ended, now)
        written = {
            id(each): job for each, job in zip(current, applied, strict=True) if job is not None
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
            answers = await self._store.apply(changes, now)
            for job, change, answer in zip(page, changes, answers, strict=True):
                if job.lease is not None and not answer.is_stale:
                    count += 1
                    self.events.emit(job_stalled(job, job.lease, change.job))
            if len(page) < PAGE_SIZE:
                return count
            after = page[-1]

    async def _apply(
        self, ended: Sequence[tuple[Job, attempts.Result]], now: datetime
    ) -> list[Job | None]:
        """Write the results of attempts and emit them; None for each that is stale."""
        settlements = []
        for job, result in ended:
            settlement = attempts.Settlement(_make_attempt(job, now), result)
            settlement.change = decide(job, result.outcome, now, self._random.random())
            settlements.append(settlement)
        changes = [it.change for it in settlements if it.change is not None]
        answers = await self._store.apply(changes, now) if changes else []
        for settlement, answer in zip(settlements, answers, strict=True):
            settlement.is_stale = answer.is_stale
        emit_settled(self.events, settlements)
        return [answer.job for answer in answers]

    async def _take_or_wait(
        self, tenant: str, request: HttpLeaseRequest, ends: "_WaitEnds"
    ) -> list[Job]:
        due = DueJobs()
        while not ends.gone.is_set():
            leased = await self._take(tenant, request)
            now = self._clock.now()
            if leased.jobs or now >= ends.deadline or self._closing.is_set():
                return [*leased.jobs]
            due_at = await self._store.next_due_at(now, request.queues, [tenant])
            is_due = due_at is not None and due_at <= now
            due.begin(ends.deadline)
            held_back = due.judge(leased, is_due=is_due)
            await self._rest(choose_due_for(due_at, held_back, now), ends)
        return []

    @asynccontextmanager
    async def _listening(
        self, tenant: str, request: HttpLeaseRequest
    ) -> AsyncIterator[Listener | None]:
        """A listener for a request that waits."""
        if not request.wait_for:
            yield None
            return
        async with self._store.listen(request.queues, [tenant]) as listener:
            yield listener

    async def _take(self, tenant: str, request: HttpLeaseRequest) -> LeasedUnderLimits:
        """Lease jobs and let the gates hold some back."""
        await self._sweep_if_due()
        await self._presence.show(tenant, request, self._clock.now())
        wanted = LeaseRequest(
            worker=request.worker,
            limit=request.limit,
            lease_for=request.lease_for,
            queues=request.queues,
            tenants=[tenant],
            kinds=request.kinds or None,
            labels=request.labels,
        )
        leased = LeasedUnderLimits(())
        for _ in range(MOST_ROUNDS):
            await self._gate.refresh(self._clock.now())
            leased = await self._limits.lease(wanted, self._clock.now())
            if leased.jobs:
                self.events.emit(JobsLeased(worker=request.worker, count=len(leased.jobs)))
            passed = await self._pass_gates(leased.jobs, request)
            if passed or not leased.jobs:
                return leased._replace(jobs=passed)
        return leased._replace(jobs=())

    async def _pass_gates(self, jobs: Sequence[Job], request: HttpLeaseRequest) -> list[Job]:
        if not jobs:
            return []
        notifying = request.notifies | await self._read_gates(jobs)
        now = self._clock.now()
        judged = [
            (job, self._gate.judge(job, now, notifies=job.kind in notifying))
            for job in await self._skip_missed(jobs, now)
        ]
        held_back = [(job, attempts.Result(it)) for job, it in judged if isinstance(it, Closed)]
        await self._apply(held_back, now)
        passed = [job for job, verdict in judged if not isinstance(verdict, Closed)]
        beside = [change for job in passed if (change := begin_beside(job, now)) is not None]
        if beside:
            with suppress(RotaError):  # otherwise the end of the job creates it
                await self._store.apply(beside, now)
        return passed

    async def _read_gates(self, leased: Sequence[Job]) -> frozenset[str]:
        """Read the gates as they are after the lease, and return the kinds that notify people."""
        try:
            return await self._gate.read(self._clock.now())
        except RotaError:
            with suppress(RotaError):  # their leases expire
                await self._release(leased)
            raise

    async def _skip_missed(self, jobs: Sequence[Job], now: datetime) -> list[Job]:
        """The jobs that may still start; occurrences that their series skips end."""
        skipped = attempts.Result(Skipped(MISSED))
        await self._apply([(job, skipped) for job in jobs if is_missed(job, now)], now)
        return [job for job in jobs if not is_missed(job, now)]

    async def _release(self, jobs: Sequence[Job]) -> None:
        handed_back = attempts.Result(Interrupted())
        await self._apply([(job, handed_back) for job in jobs], self._clock.now())

    async def _find_held(
        self,
        tenant: str,
        worker: str,
        job_ids: Sequence[JobId],
        queues: Collection[str] | None,
    ) -> dict[JobId, Job]:
        """The tenant's jobs that this worker holds, in these queues."""
        found = await self._store.get(tenant, job_ids)
        return {
            job_id: job
            for job_id, job in found.items()
            if job.lease is not None
            and job.lease.worker == worker
            and (queues is None or job.queue in queues)
        }

    async def _sweep_if_due(self) -> None:
        now = self._clock.now()
        if self._swept_at is not None and self._swept_at <= now < self._swept_at + SWEEP_FOR:
            return
        self._swept_at = now
        await self.sweep()

    async def _rest(self, due_for: timedelta | None, ends: "_WaitEnds") -> None:
        """Wait for a wake-up, the next due job, or the next poll."""
        rest = choose_rest(self._settings.poll_for, due_for, self._random.random())
        rest = max(min(rest, ends.deadline - self._clock.now()), timedelta(0))
        waits: list[asyncio.Future[object]] = [
            asyncio.ensure_future(ends.gone.wait()),
            asyncio.ensure_future(self._closing.wait()),
        ]
        if ends.listener is not None:
            waits.append(asyncio.ensure_future(_wait_for_wakeup(ends.listener)))
        try:
            with suppress(TimeoutError):
                async with timeout_after(self._clock, rest):
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


async def _wait_for_wakeup(listener: Listener) -> None:
    """Return on a wake-up.

    When the listener fails, wait for the poll instead: returning at once would query the store in a
    tight loop.
    """
    try:
        await listener.wait()
    except RotaError:
        await asyncio.Event().wait()


class _WaitEnds(NamedTuple):
    """What ends a wait early, and its deadline."""

    listener: Listener | None
    gone: asyncio.Event
    deadline: datetime


@asynccontextmanager
async def _watching(disconnected: Disconnected | None) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the caller has disconnected."""
    gone = asyncio.Event()
    if disconnected is None:
        yield gone
        return

    async def watch() -> None:
        await disconnected()
        gone.set()

    watching = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _make_attempt(job: Job, now: datetime) -> attempts.Attempt:
    """The attempt of an HTTP worker, as far as the server knows it: it began with the lease."""
    lease_until = now if job.lease is None else job.lease.until
    attempt = attempts.Attempt(job, lease_until)
    attempt.started_at = now if job.lease is None else job.lease.taken_at
    attempt.ended_at = now
    return attempt


def _token(job: Job | None) -> int | None:
    return None if job is None or job.lease is None else job.lease.token
