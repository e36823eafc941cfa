"""A worker on a store in memory, under virtual time, with everything it tells written down."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from rota.errors import StoreUnavailableError
from rota.events import Event
from rota.jobs import Attempt, Change, Job, JobStatus
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Applied, HeldLease, Inserted, LeaseRequest
from rota.testing import VirtualClock, a_job
from rota.worker import StopReport, Worker, WorkerSettings
from rota.worker.registry import Work
from rota.worker.settings import WorkerStore

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

AnyEvent = TypeVar("AnyEvent", bound=Event)
Hook = Callable[[], Awaitable[None]]


class HookedStore(MemoryStore):
    """A store in memory on which a test may act before and after a verb.

    A hook is called each time; what it raises is what the caller of the verb sees. It does not show
    its version, as a store of which not everything is heard: workers poll it in virtual time too.
    """

    read_version: Any = None  # a store without it is not Watchable

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Hook] = {}
        self.after: dict[str, Hook] = {}
        self.calls: list[tuple[str, int]] = []

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        await self._meet(self.before, "lease")
        jobs = await super().lease(request, now)
        self.calls.append(("lease", len(jobs)))
        await self._meet(self.after, "lease")
        return jobs

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        await self._meet(self.before, "insert")
        return await super().insert(jobs, now)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        self.calls.append(("apply", len(changes)))
        await self._meet(self.before, "apply")
        answers = await super().apply(changes, now)
        await self._meet(self.after, "apply")
        return answers

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        self.calls.append(("extend", len(held)))
        await self._meet(self.before, "extend")
        return await super().extend(held, until, now)

    def sizes(self, verb: str) -> list[int]:
        """How many jobs each call of the verb was about."""
        return [count for called, count in self.calls if called == verb]

    async def _meet(self, hooks: dict[str, Hook], verb: str) -> None:
        if verb in hooks:
            await hooks[verb]()


async def be_down() -> None:
    """A hook: the store cannot be reached."""
    raise StoreUnavailableError("the store is away")


def once(hook: Hook) -> Hook:
    """The hook, the first time; afterwards nothing."""
    left = [hook]

    async def meet() -> None:
        if left:
            await left.pop()()

    return meet


class Workshop:
    """Puts jobs in, runs workers and looks at what became of both."""

    def __init__(self, store: WorkerStore | None = None) -> None:
        self.clock = VirtualClock(NOW)
        self.hooked = HookedStore()
        self.store: WorkerStore = store or self.hooked
        self.events: list[Event] = []
        self.worker = self.make_worker({})
        self._runs: list[asyncio.Task[StopReport]] = []

    def make_worker(
        self, handlers: dict[str, Work], settings: WorkerSettings | None = None, **options: Any
    ) -> Worker:
        """A worker of this workshop, and the one that the verbs below are about."""
        self.worker = Worker(self.store, handlers, clock=self.clock, settings=settings, **options)
        self.worker.random = Random(1)
        self.worker.events.subscribe(self.events.append)
        return self.worker

    async def add(self, kind: str = "work", **fields: Any) -> Job:
        at = fields.pop("created_at", self.clock.now())
        job = a_job(kind=kind, created_at=at, **fields)
        await self.store.insert([job], self.clock.now())
        return job

    async def add_many(self, count: int, kind: str = "work", **fields: Any) -> list[Job]:
        return [await self.add(kind, **fields) for _ in range(count)]

    async def look(self, job: Job) -> Job:
        """The job as it is kept now."""
        return (await self.store.get(job.tenant, [job.id]))[job.id]

    async def attempts(self, job: Job) -> list[Attempt]:
        """Those that did not succeed."""
        found = await self.store.attempts(job.tenant, job.id)
        return [each for each in found if each.outcome != "succeeded"]

    def start(self, worker: Worker | None = None) -> "asyncio.Task[StopReport]":
        run = asyncio.create_task((worker or self.worker).run())
        self._runs.append(run)
        return run

    async def pass_time(self, duration: timedelta = timedelta(0)) -> None:
        await self.clock.advance(duration)

    async def finish(self) -> StopReport:
        """Stop the worker and wait for its end."""
        self.worker.stop()
        return await self.clock.run(self._runs[-1])

    async def close(self) -> None:
        """End whatever a test has left running."""
        for run in self._runs:
            run.cancel()
        if self._runs:
            await self.clock.run(asyncio.wait(self._runs))

    def told(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        return [event for event in self.events if isinstance(event, kind)]


async def succeed(_: object) -> None:
    """A handler with nothing to do."""


async def starts(shop: Workshop, job: Job) -> timedelta:
    """How long after its insertion the job is leased."""
    at = shop.clock.now()
    await shop.clock.run(_until_taken(shop, job))
    return shop.clock.now() - at


async def _until_taken(shop: Workshop, job: Job) -> None:
    while (await shop.look(job)).status is JobStatus.READY:
        await shop.clock.sleep(timedelta(milliseconds=1))
