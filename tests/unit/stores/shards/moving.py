"""A busy sharded store for tests of moves, and a judge that knows nothing of stores.

Producers and workers are processes of their own: each has its own view of the placement. The judge
sees only what they were told: which inserts were acknowledged, and who ran which job when.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple, TypeVar

from rota.clock.protocol import Clock
from rota.errors import StoreUnavailableError
from rota.jobs import Job, JobId, JobStatus, Recurrence, decide_complete
from rota.stores.opened import OpenStore
from rota.stores.protocol import HeldLease, KeptJob, LeaseRequest
from rota.stores.shards.members import Members
from rota.stores.shards.placement import Placement
from rota.stores.shards.store import ShardedStore
from rota.stores.shards.view import PlacementView, Timing, join
from rota.testing import VirtualClock
from rota.testing.builders import a_job
from rota.testing.portable_store_contract import dump_all

START = datetime.fromisoformat("2026-01-01T12:00:00+00:00")
NAMES = ("one", "two", "three")
MOVING = "a"
TENANTS = ("a", "b", "c")
SOURCE = Placement(NAMES).locate(MOVING)
TARGET = next(name for name in NAMES[::-1] if name != SOURCE)
SECOND = timedelta(seconds=1)
LEASE_FOR = timedelta(seconds=20)

Answer = TypeVar("Answer")


class Killed(BaseException):
    """The process ends at this call."""


class Death:
    """Ends a process at one of its calls to stores, before or after the call is carried out."""

    def __init__(self, at: int | None = None, *, is_after: bool = False) -> None:
        self.call_count = 0
        self._at = at
        self._is_after = is_after

    async def around(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        self.call_count += 1
        is_last = self.call_count == self._at
        if is_last and not self._is_after:
            raise Killed
        answer = await call()
        if is_last:
            raise Killed
        return answer


class Mortal:
    """A store as a process sees it that will be killed."""

    def __init__(self, store: OpenStore, death: Death) -> None:
        self._store = store
        self._death = death

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found
        return lambda *given: self._death.around(lambda: found(*given))


class Execution(NamedTuple):
    """One run of a job: who, when, and whether its end was written."""

    job_id: JobId
    worker: str
    began_at: datetime
    ended_at: datetime
    is_written: bool


class World:
    """Stores, processes on them, and all that the processes were told."""

    def __init__(
        self,
        stores: Mapping[str, OpenStore],
        clock: Clock,
        timing: Timing | None = None,
        second: timedelta = SECOND,
    ) -> None:
        """``second`` is how long a second of the processes takes: less in real time."""
        self.stores = stores
        self.clock = clock
        self.timing = timing
        self.second = second
        self.random = Random(1)
        self.acknowledged: dict[JobId, str] = {}
        self.successors: set[JobId] = set()
        self.executions: list[Execution] = []
        self.is_over = False

    async def open(self, death: Death | None = None) -> ShardedStore:
        """The store, as one more process opens it."""
        stores: Mapping[str, Any] = self.stores
        if death is not None:
            stores = {name: Mortal(store, death) for name, store in self.stores.items()}
        view = PlacementView(stores["one"], self.clock, await join(stores), self.timing)
        return ShardedStore(Members(stores), view)

    async def run(self, awaitable: Awaitable[Answer]) -> Answer:
        """Let virtual time flow until it is done."""
        assert isinstance(self.clock, VirtualClock)
        return await self.clock.run(awaitable)

    async def produce(self, rounds: int) -> None:
        """Insert jobs of all tenants, some with dependencies; repeat what is not acknowledged."""
        store = await self.open()
        for number in range(rounds):
            for tenant in TENANTS:
                first = a_job(tenant=tenant, idempotency_key=f"{number}", created_at=START)
                second = a_job(tenant=tenant, dependencies=[first.id], created_at=START)
                await self.insist(lambda: store.insert([first, second], self.clock.now()))  # noqa: B023 - awaited at once
                self.acknowledged |= {first.id: tenant, second.id: tenant}
            await self.clock.sleep(self.second)

    async def start_series(self, count: int = 12) -> None:
        """One series of the tenant that moves, with an occurrence every four seconds."""
        store, now = await self.open(), self.clock.now()
        rule = Recurrence(interval="4s", start=now, count=count)
        first = a_job(tenant=MOVING, recurrence=rule, occurrence_at=now, due_at=now)
        await store.insert([first], now)
        self.acknowledged[first.id] = MOVING

    async def work(self, name: str) -> None:
        """Lease, run and settle until the world is over."""
        store = await self.open()
        last = ""
        while not self.is_over:
            request = LeaseRequest(worker=name, limit=4, lease_for=LEASE_FOR, after_tenant=last)
            leased = await self.insist(lambda: store.lease(request, self.clock.now()))  # noqa: B023 - awaited at once
            last = leased[-1].tenant if leased else last
            await asyncio.gather(*(self._run(store, name, job) for job in leased))
            if not leased:
                await self.clock.sleep(self.second)

    async def _run(self, store: ShardedStore, worker: str, job: Job) -> None:
        began_at, held = self.clock.now(), HeldLease(job.id, job.last_token)
        for _ in range(self.random.choice((1, 1, 2, 15))):
            await self.clock.sleep(self.random.random() * self.second)
            until = self.clock.now() + LEASE_FOR
            (is_held,) = await self.insist(lambda: store.extend([held], until, self.clock.now()))  # noqa: B023 - awaited at once
            assert is_held, f"{worker} lost {job.id}"
        ended_at = self.clock.now()
        change = decide_complete(job, ended_at)
        (applied,) = await self.insist(lambda: store.apply([change], self.clock.now()))
        if applied.successor is not None:
            self.successors.add(applied.successor.id)
            self.acknowledged[applied.successor.id] = job.tenant
        self.executions.append(Execution(job.id, worker, began_at, ended_at, not applied.is_stale))

    async def insist(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        while True:
            try:
                return await call()
            except StoreUnavailableError:
                await self.clock.sleep(self.second / 3)

    async def rest(self) -> None:
        """Let the workers finish everything, then end."""
        store = await self.open()
        while True:
            statuses = [
                (await store.get(tenant, [job_id]))[job_id].status
                for job_id, tenant in list(self.acknowledged.items())
            ]
            if all(status is JobStatus.COMPLETED for status in statuses):
                break
            await self.clock.sleep(self.second)
        self.is_over = True

    async def judge(self, where: str) -> None:
        """Every acknowledged job ran once and is there once; the tenant lies where it should."""
        runs = Counter(each.job_id for each in self.executions)
        assert runs == dict.fromkeys(self.acknowledged, 1)
        assert all(each.is_written for each in self.executions)
        found: Counter[JobId] = Counter()
        for name, store in self.stores.items():
            jobs = [each.job for each in await dump_all(store) if isinstance(each, KeptJob)]
            found.update(job.id for job in jobs)
            strangers = [job for job in jobs if job.tenant == MOVING and name != where]
            assert not strangers, f"{len(strangers)} jobs of {MOVING} are on {name}"
            assert all(job.status is JobStatus.COMPLETED for job in jobs)
        assert found == dict.fromkeys(self.acknowledged, 1)
