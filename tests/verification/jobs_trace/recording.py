"""A store that writes down what is asked of it and what it answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any, Self, TypeVar

from tests.verification.jobs_trace.facts import (
    describe_answer,
    describe_grant,
    describe_job,
    describe_kept,
    describe_move,
)
from tests.verification.jobs_trace.passing import PassedDocuments, PassedQuestions
from tests.verification.jobs_trace.records import (
    AmendCalled,
    ApplyAnswered,
    ApplyCalled,
    DeleteCalled,
    ExtendAnswered,
    ExtendCalled,
    Grant,
    InsertAnswered,
    InsertCalled,
    JobEntry,
    LeaseAnswered,
    LeaseCalled,
    PruneAnswered,
    PruneCalled,
    Refused,
)

from rota.clock.protocol import Clock
from rota.errors import RotaError, StoreError
from rota.jobs import Change, Job, JobId
from rota.jobs.retention import Expiry
from rota.stores.protocol import (
    Applied,
    EndedPlace,
    HeldLease,
    Inserted,
    LeaseKeeper,
    LeaseRequest,
    Parked,
    ParkingStore,
    Pruned,
)

Sink = Callable[[JobEntry], object]
"""Is given each record as it is made; a call waits for it."""

Answer = TypeVar("Answer")
Entry = TypeVar("Entry", bound=JobEntry)


class Scribe:
    """Makes records, each with its time and the name of the process."""

    def __init__(self, clock: Clock, sink: Sink, instance: str = "") -> None:
        self._clock = clock
        self._sink = sink
        self._instance = instance
        self._calls = count(1)

    def next_call(self) -> int:
        return next(self._calls)

    def write(self, kind: Callable[..., Entry], **fields: Any) -> None:
        """Write down a record of that kind."""
        self._sink(kind(at=self._clock.now(), instance=self._instance, **fields))

    async def refuse_or_raise(self, call: int, work: Awaitable[Answer]) -> Answer:
        """The result of the call. A refusal is recorded; after any other error it is unknown."""
        try:
            return await work
        except RotaError as error:
            if not isinstance(error, StoreError):
                self.write(Refused, call=call, error=type(error).__name__)
            raise


class RecordedJobs:
    """The verbs that write, each with a record before and after."""

    _store: Any
    _scribe: Scribe

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        scribe, call = self._scribe, self._scribe.next_call()
        scribe.write(InsertCalled, call=call, jobs=tuple(map(describe_job, jobs)))
        work = self._store.insert(jobs, now)
        inserted: list[Inserted] = await scribe.refuse_or_raise(call, work)
        scribe.write(InsertAnswered, call=call, jobs=tuple(map(describe_kept, inserted)))
        return inserted

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """Recorded as called only: what it comes to is decided when the caller commits."""
        call = self._scribe.next_call()
        self._scribe.write(InsertCalled, call=call, jobs=tuple(map(describe_job, jobs)))
        work = self._store.insert_within(connection, jobs, now)
        inserted: list[Inserted] = await self._scribe.refuse_or_raise(call, work)
        return inserted

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        scribe, call = self._scribe, self._scribe.next_call()
        scribe.write(LeaseCalled, call=call, worker=request.worker, now=now)
        leased: list[Job] = await scribe.refuse_or_raise(call, self._store.lease(request, now))
        scribe.write(LeaseAnswered, call=call, grants=tuple(map(describe_grant, leased)))
        return leased

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        scribe, call = self._scribe, self._scribe.next_call()
        scribe.write(ExtendCalled, call=call, held=tuple(map(tuple, held)), until=until, now=now)
        work = self._store.extend(held, until, now)
        kept: list[bool] = await scribe.refuse_or_raise(call, work)
        scribe.write(ExtendAnswered, call=call, kept=tuple(kept))
        return kept

    def make_keeper(self) -> LeaseKeeper:
        """The store's own keeper, recorded as well."""
        return _RecordedKeeper(self._store.make_keeper(), self._scribe)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        scribe, call = self._scribe, self._scribe.next_call()
        scribe.write(ApplyCalled, call=call, moves=tuple(map(describe_move, changes)), now=now)
        work = self._store.apply(changes, now)
        applied: list[Applied] = await scribe.refuse_or_raise(call, work)
        scribe.write(ApplyAnswered, call=call, answers=tuple(map(describe_answer, applied)))
        return applied

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        scribe, call = self._scribe, self._scribe.next_call()
        scribe.write(AmendCalled, call=call, job_id=job_id, fields=tuple(fields))
        work = self._store.amend(tenant, job_id, fields, now)
        amended: Job = await scribe.refuse_or_raise(call, work)
        return amended

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        scribe, call = self._scribe, self._scribe.next_call()
        scribe.write(DeleteCalled, call=call, job_id=job_id)
        deleted: Job = await scribe.refuse_or_raise(call, self._store.delete(tenant, job_id))
        return deleted

    async def prune(
        self,
        ended_before: datetime,
        limit: int,
        expiry: Expiry | None = None,
        after: EndedPlace | None = None,
    ) -> Pruned:
        scribe, call = self._scribe, self._scribe.next_call()
        scribe.write(PruneCalled, call=call, limit=limit)
        work = self._store.prune(ended_before, limit, expiry, after)
        pruned: Pruned = await scribe.refuse_or_raise(call, work)
        scribe.write(PruneAnswered, call=call, count=pruned.removed)
        return pruned


class RecordingStore(RecordedJobs, PassedQuestions, PassedDocuments):
    """Another store, of which every write to jobs goes into a history; closing it closes that.

    The scribe's sink is given each record before the call goes on. One that ends the process there
    makes a fail point right before or right after a write.
    """

    def __init__(self, store: Any, scribe: Scribe) -> None:
        self.reach = store.reach
        self._store = store
        self._scribe = scribe
        if isinstance(store, ParkingStore):
            self.park = self._park

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the other store."""
        await self._store.close()

    async def _park(
        self, request: LeaseRequest, now: datetime, receive: Callable[[Job | None], None]
    ) -> Parked | None:
        """A parked worker asks for leases until it has left: each job that comes is an answer."""
        leases = _ParkedLeases(request, now, self._scribe, receive)
        parked = await self._store.park(request, now, leases.receive)
        leases.parked = parked
        if parked is None:
            leases.end()
        return None if parked is None else leases


class _ParkedLeases:
    """What a parked worker asks and is given, as calls of ``lease``.

    There is always one call more than there are jobs. It stays without an answer if a job may have
    been lost on the way.
    """

    parked: Parked

    def __init__(
        self,
        request: LeaseRequest,
        now: datetime,
        scribe: Scribe,
        receive: Callable[[Job | None], None],
    ) -> None:
        self._request = request
        self._now = now
        self._scribe = scribe
        self._receive = receive
        self._has_ended = False
        self._ask()

    def receive(self, job: Job | None) -> None:
        if job is not None:  # else a job may be lost, and the call stays without an answer
            self._answer((describe_grant(job),))
        self._ask()
        self._receive(job)

    @property
    def is_over(self) -> bool:
        if self.parked.is_over:
            self.end()
        return self.parked.is_over

    def leave(self) -> None:
        self.parked.leave()

    async def left(self, seconds: float) -> None:
        await self.parked.left(seconds)
        self.end()

    def end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._answer(())

    def _ask(self) -> None:
        self._call = self._scribe.next_call()
        worker = self._request.worker
        self._scribe.write(LeaseCalled, call=self._call, worker=worker, now=self._now)

    def _answer(self, grants: tuple[Grant, ...]) -> None:
        self._scribe.write(LeaseAnswered, call=self._call, grants=grants)


class _RecordedKeeper:
    def __init__(self, keeper: LeaseKeeper, scribe: Scribe) -> None:
        self._keeper = keeper
        self._scribe = scribe

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        scribe, call = self._scribe, self._scribe.next_call()
        scribe.write(ExtendCalled, call=call, held=tuple(map(tuple, held)), until=until, now=now)
        kept = self._keeper.extend(held, until, now)
        scribe.write(ExtendAnswered, call=call, kept=tuple(kept))
        return kept

    def close(self) -> None:
        self._keeper.close()
