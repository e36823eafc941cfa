"""Fault injection for stores: fail, delay or lose a chosen call."""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from random import Random
from threading import Lock
from typing import Any, NamedTuple, Self, TypeVar

from rota.clock.protocol import Clock
from rota.errors import StoreUnavailableError
from rota.jobs import Attempt, Change, Job, JobFilter, JobId, Page
from rota.jobs.retention import Expiry
from rota.stores.protocol import (
    Applied,
    Document,
    DocumentStore,
    DocumentWrite,
    EndedPlace,
    HeldLease,
    Inserted,
    JobStore,
    LeaseKeeper,
    LeaseRequest,
    Listener,
    Pruned,
    QueueDepth,
    Reach,
    TransactionalStore,
)


class Failure(Enum):
    """When a call fails, and what its caller learns.

    ``BEFORE`` anything was done, and the error says so. ``AFTER`` everything was done, or ``LOST``
    on the way with nothing done: these two look alike, because the outcome is unknown.
    """

    BEFORE = "before it was carried out"
    AFTER = "after it was carried out"
    LOST = "on its way, and is not carried out"

    @property
    def outcome(self) -> str:
        """The error's ``details["outcome"]``."""
        return "nothing was written" if self is Failure.BEFORE else "unknown"


@dataclass(frozen=True, slots=True)
class Fault:
    """The faults of one call: a late start, a late answer, a failure, or several."""

    failure: Failure | None = None
    delay_for: timedelta = timedelta(0)
    answer_delay_for: timedelta = timedelta(0)


class StoreCall(NamedTuple):
    """One call of a store, counted from 1; each page of a scan is a call."""

    number: int
    verb: str


Faults = Callable[[StoreCall], Fault | None]
"""Called once for each call, in order; returns its fault, if any."""


def scripted_faults(faults: Mapping[int, Fault]) -> Faults:
    """Faults for the calls with these numbers, of any verb."""
    return lambda call: faults.get(call.number)


def faults_on(verbs: Collection[str], faults: Faults) -> Faults:
    """Faults for calls of these verbs, counted from 1 by themselves."""
    met = 0

    def draw(call: StoreCall) -> Fault | None:
        nonlocal met
        if call.verb not in verbs:
            return None
        met += 1
        return faults(StoreCall(met, call.verb))

    return draw


def seeded_faults(
    seed: int,
    *,
    fault_share: float,
    failures: Sequence[Failure | None] = (Failure.BEFORE, Failure.AFTER, None),
    longest_delay: timedelta = timedelta(0),
) -> Faults:
    """Faults for about ``fault_share`` of all calls (0 to 1), the same for the same seed.

    Each is drawn from ``failures``, where None is a call that succeeds, with delays of up to
    ``longest_delay`` before the call and before its answer.
    """
    random = Random(seed)  # noqa: S311 - must be repeatable, not secret

    def draw(_: StoreCall) -> Fault | None:
        is_struck = random.random() < fault_share
        fault = Fault(
            random.choice(failures),
            random.random() * longest_delay,
            random.random() * longest_delay,
        )
        return fault if is_struck else None

    return draw


Result = TypeVar("Result")


class Striker:
    """Counts the calls and applies each call's fault."""

    def __init__(self, clock: Clock, faults: Faults) -> None:
        self.call_count = 0
        self.injected: list[tuple[StoreCall, Fault]] = []
        self._clock = clock
        self._faults = faults
        self._lock = Lock()  # a lease keeper calls from another thread

    async def suffer(self, verb: str, act: Callable[[], Awaitable[Result]]) -> Result:
        """Make a call with its fault."""
        call, fault = self.meet(verb)
        await self._wait(fault.delay_for)
        _fail_if(fault, call, Failure.BEFORE, Failure.LOST)
        result = await act()
        await self._wait(fault.answer_delay_for)
        _fail_if(fault, call, Failure.AFTER)
        return result

    def suffer_at_once(self, verb: str, act: Callable[[], Result]) -> Result:
        """The same in a thread without an event loop, without delays."""
        call, fault = self.meet(verb)
        _fail_if(fault, call, Failure.BEFORE, Failure.LOST)
        result = act()
        _fail_if(fault, call, Failure.AFTER)
        return result

    def meet(self, verb: str) -> tuple[StoreCall, Fault]:
        """Count one more call and return its fault, if any."""
        with self._lock:
            self.call_count += 1
            call = StoreCall(self.call_count, verb)
            fault = self._faults(call)
            if fault is not None:
                self.injected.append((call, fault))
        return call, fault or Fault()

    async def _wait(self, duration: timedelta) -> None:
        if duration:
            await self._clock.sleep(duration)


def _fail_if(fault: Fault, call: StoreCall, *moments: Failure) -> None:
    if fault.failure in moments:
        raise StoreUnavailableError(
            f"Injected fault: call {call.number} ({call.verb}) fails {fault.failure.value}",
            {"call": call.number, "verb": call.verb, "outcome": fault.failure.outcome},
        )


class DocumentVerbs:
    """As the inner store, with faults."""

    _striker: Striker
    _documents: TransactionalStore

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """The inner store's pages, each as a call of its own."""
        pages = self._documents.scan(collection)
        while page := await self._striker.suffer("scan", lambda: _next_page(pages)):
            yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        return await self._striker.suffer("read", lambda: self._documents.read(collection, keys))

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        return await self._striker.suffer("write_each", lambda: self._documents.write_each(writes))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        await self._striker.suffer("write_all", lambda: self._documents.write_all(writes))

    async def read_within(
        self, connection: Any, collection: str, keys: Sequence[str]
    ) -> dict[str, Document]:
        return await self._striker.suffer(
            "read_within", lambda: self._documents.read_within(connection, collection, keys)
        )

    async def write_within(self, connection: Any, writes: Sequence[DocumentWrite]) -> None:
        await self._striker.suffer(
            "write_within", lambda: self._documents.write_within(connection, writes)
        )


async def _next_page(pages: AsyncIterator[Sequence[Document]]) -> Sequence[Document]:
    async for page in pages:
        return page
    return ()


class JobVerbs:
    """As the inner store, with faults."""

    _striker: Striker
    _jobs: JobStore

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        return await self._striker.suffer("insert", lambda: self._jobs.insert(jobs, now))

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        return await self._striker.suffer(
            "insert_within", lambda: self._jobs.insert_within(connection, jobs, now)
        )

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        return await self._striker.suffer("lease", lambda: self._jobs.lease(request, now))

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        return await self._striker.suffer("extend", lambda: self._jobs.extend(held, until, now))

    def make_keeper(self) -> LeaseKeeper:
        """The inner store's keeper; its ``extend`` is the verb ``keep``."""
        return _FaultyKeeper(self._jobs.make_keeper(), self._striker)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        return await self._striker.suffer("apply", lambda: self._jobs.apply(changes, now))

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        return await self._striker.suffer(
            "amend", lambda: self._jobs.amend(tenant, job_id, fields, now)
        )

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        return await self._striker.suffer("delete", lambda: self._jobs.delete(tenant, job_id))

    async def prune(
        self,
        ended_before: datetime,
        limit: int,
        expiry: Expiry | None = None,
        after: EndedPlace | None = None,
    ) -> Pruned:
        return await self._striker.suffer(
            "prune", lambda: self._jobs.prune(ended_before, limit, expiry, after)
        )


class JobQuestions:
    """As the inner store, with faults."""

    _striker: Striker
    _jobs: JobStore

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        return await self._striker.suffer(
            "find_expired", lambda: self._jobs.find_expired(now, limit, after)
        )

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        return await self._striker.suffer(
            "next_due_at", lambda: self._jobs.next_due_at(now, queues, tenants)
        )

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AsyncIterator[Listener]:
        """The inner store's listener. A wake-up is a call ``wake``; a failing one is lost."""
        async with self._jobs.listen(queues, tenants) as listener:
            yield _FaultyListener(listener, self._striker)

    @asynccontextmanager
    async def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AsyncIterator[Listener]:
        """As ``listen``, for the end of jobs."""
        async with self._jobs.listen_for_end(tenant, job_ids) as listener:
            yield _FaultyListener(listener, self._striker)

    async def results(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
        return await self._striker.suffer("results", lambda: self._jobs.results(tenant, job_ids))

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        return await self._striker.suffer("get", lambda: self._jobs.get(tenant, job_ids))

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        return await self._striker.suffer(
            "find", lambda: self._jobs.find(tenant, wanted, cursor, limit)
        )

    async def count(
        self, tenant: str, wanted: JobFilter | None = None, limit: int | None = None
    ) -> int:
        return await self._striker.suffer("count", lambda: self._jobs.count(tenant, wanted, limit))

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        return await self._striker.suffer("attempts", lambda: self._jobs.attempts(tenant, job_id))

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        return await self._striker.suffer(
            "find_dependents", lambda: self._jobs.find_dependents(tenant, job_ids, limit)
        )

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        return await self._striker.suffer("survey", lambda: self._jobs.survey(now, tenant))


class _FaultyKeeper:
    def __init__(self, keeper: LeaseKeeper, striker: Striker) -> None:
        self._keeper = keeper
        self._striker = striker

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        return self._striker.suffer_at_once("keep", lambda: self._keeper.extend(held, until, now))

    def close(self) -> None:
        self._keeper.close()


class _FaultyListener:
    def __init__(self, listener: Listener, striker: Striker) -> None:
        self._listener = listener
        self._striker = striker

    async def wait(self) -> None:
        """Wait for a wake-up without a fault."""
        is_lost = True
        while is_lost:
            await self._listener.wait()
            _, fault = self._striker.meet("wake")
            is_lost = fault.failure is not None


class FaultyStore(DocumentVerbs, JobVerbs, JobQuestions):
    """A store with injected faults. Closing never fails, and closes the inner store.

    It has the verbs of the inner store: documents, and jobs and shared transactions where it has
    them. Delays use ``clock``. ``call_count`` is the number of calls and ``injected`` the faults
    that were applied, so that a test can show that its faults were reached.
    """

    def __init__(self, store: DocumentStore, clock: Clock, faults: Faults) -> None:
        self.reach: Reach = store.reach
        self._striker = Striker(clock, faults)
        whole: Any = store  # a store with fewer verbs is not asked for them
        self._documents = self._jobs = self._whole = whole

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def call_count(self) -> int:
        return self._striker.call_count

    @property
    def injected(self) -> list[tuple[StoreCall, Fault]]:
        return self._striker.injected

    async def read_clock(self) -> datetime | None:
        """As the inner store, with faults."""
        shown: datetime | None = await self._striker.suffer("read_clock", self._whole.read_clock)
        return shown

    async def close(self) -> None:
        """Close the inner store."""
        await self._documents.close()
