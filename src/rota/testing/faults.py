"""Fault injection for stores: fail, delay or lose a chosen call."""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import wraps
from random import Random
from threading import Lock
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar

from rota.clock.protocol import Clock
from rota.errors import StoreUnavailableError
from rota.jobs import JobId
from rota.stores.opened import OpenStore
from rota.stores.protocol import (
    Document,
    DocumentStore,
    HeldLease,
    JobStore,
    LeaseKeeper,
    Listener,
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
Arguments = ParamSpec("Arguments")


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


Verb: TypeAlias = Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]]
"""A coroutine method with these arguments."""


def _with_faults(verb: Verb[Arguments, Result]) -> Verb[Arguments, Result]:
    """A method that calls the same verb of the inner store, with its fault."""
    name = verb.__name__

    @wraps(verb)
    async def call(self: Any, /, *given: Arguments.args, **named: Arguments.kwargs) -> Result:
        inner: Callable[Arguments, Awaitable[Result]] = getattr(self._inner, name)
        struck: Result = await self._striker.suffer(name, lambda: inner(*given, **named))
        return struck

    return call


async def _next_page(pages: AsyncIterator[Sequence[Document]]) -> Sequence[Document]:
    async for page in pages:
        return page
    return ()


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


class FaultyStore:
    """A store with injected faults. Closing never fails, and closes the inner store.

    It has the verbs of the inner store: documents, and jobs and shared transactions where it has
    them. Delays use ``clock``. ``call_count`` is the number of calls and ``injected`` the faults
    that were applied, so that a test can show that its faults were reached.
    """

    def __init__(self, store: DocumentStore, clock: Clock, faults: Faults) -> None:
        self.reach: Reach = store.reach
        self._striker = Striker(clock, faults)
        self._inner: Any = store  # a store with fewer verbs is not asked for them

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

    read = _with_faults(DocumentStore.read)
    write_each = _with_faults(DocumentStore.write_each)
    write_all = _with_faults(DocumentStore.write_all)
    read_within = _with_faults(TransactionalStore.read_within)
    write_within = _with_faults(TransactionalStore.write_within)
    read_clock = _with_faults(OpenStore.read_clock)
    insert = _with_faults(JobStore.insert)
    insert_within = _with_faults(JobStore.insert_within)
    lease = _with_faults(JobStore.lease)
    extend = _with_faults(JobStore.extend)
    apply = _with_faults(JobStore.apply)
    amend = _with_faults(JobStore.amend)
    delete = _with_faults(JobStore.delete)
    prune = _with_faults(JobStore.prune)
    find_expired = _with_faults(JobStore.find_expired)
    next_due_at = _with_faults(JobStore.next_due_at)
    results = _with_faults(JobStore.results)
    get = _with_faults(JobStore.get)
    find = _with_faults(JobStore.find)
    count = _with_faults(JobStore.count)
    attempts = _with_faults(JobStore.attempts)
    find_dependents = _with_faults(JobStore.find_dependents)
    survey = _with_faults(JobStore.survey)

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """The inner store's pages, each as a call of its own."""
        pages = self._inner.scan(collection)
        while page := await self._striker.suffer("scan", lambda: _next_page(pages)):
            yield page

    def make_keeper(self) -> LeaseKeeper:
        """The inner store's keeper; its ``extend`` is the verb ``keep``."""
        return _FaultyKeeper(self._inner.make_keeper(), self._striker)

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AsyncIterator[Listener]:
        """The inner store's listener. A wake-up is a call ``wake``; a failing one is lost."""
        async with self._inner.listen(queues, tenants) as listener:
            yield _FaultyListener(listener, self._striker)

    @asynccontextmanager
    async def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AsyncIterator[Listener]:
        """As ``listen``, for the end of jobs."""
        async with self._inner.listen_for_end(tenant, job_ids) as listener:
            yield _FaultyListener(listener, self._striker)

    async def close(self) -> None:
        """Close the inner store."""
        await self._inner.close()
