"""An app under test: on a store in memory, in virtual time, with a worker that runs on request."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Protocol, TypeVar

import msgspec

from rota.clock.duration import Duration, read_duration
from rota.clock.virtual import VirtualClock
from rota.errors import invalid
from rota.events import Event, JobDeferred, JobSettled
from rota.jobs import Job, JobId, JobStatus
from rota.jobs.fields import read_instant
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Inserted, KeptJob, LeaseRequest
from rota.testing.faults import Failure, Fault, Faults, FaultyStore, StoreCall
from rota.worker import StopReport, Worker

MONDAY = datetime(2027, 3, 1, 9, tzinfo=UTC)
"""When a test starts that does not say when."""

Value = TypeVar("Value")


class AppUnderTest(Protocol):
    """An app, as far as a test needs it."""

    def serving(self, store: Any, clock: VirtualClock) -> AbstractAsyncContextManager[Any]:
        """Open the app on this store, as a process that runs it."""
        ...

    def worker(self) -> Worker:
        """A worker for all tasks, on the open app."""
        ...


class PausedStore(FaultyStore):
    """A store that leases no jobs while it is paused, and fails on request.

    It shows its version, so that an idle worker does not have to poll it.
    """

    def __init__(self, inner: MemoryStore, clock: VirtualClock) -> None:
        super().__init__(inner, clock, self._choose_fault)
        self.inner = inner
        self.faults: Faults | None = None
        self.inserted: dict[JobId, int] = {}
        self._is_paused = True
        self._pause_count = 0

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Lease jobs while the context lasts."""
        self._is_paused = False
        self._pause_count += 1  # a new version: workers look again
        try:
            yield
        finally:
            self._is_paused = True

    def read_version(self) -> int | None:
        """See ``Watchable``."""
        version = self.inner.read_version()
        return None if version is None else version + self._pause_count

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """As the inner store; the order of the jobs is noted."""
        answers = await super().insert(jobs, now)
        for answer in answers:
            self.inserted.setdefault(answer.job.id, len(self.inserted))
        return answers

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """As the inner store; nothing while paused."""
        return [] if self._is_paused else await super().lease(request, now)

    async def next_due_at(self, now: datetime, *chosen: Any) -> datetime | None:
        """As the inner store; unknown while paused."""
        return None if self._is_paused else await super().next_due_at(now, *chosen)

    def _choose_fault(self, call: StoreCall) -> Fault | None:
        return None if self.faults is None else self.faults(call)


class VirtualApp:
    """What ``app.testing()`` gives a test.

    Jobs run in ``run_all`` and ``advance`` only, so that a test sees what was enqueued before it
    ran. Both return when everything has happened that can happen until then.
    """

    def __init__(self, store: PausedStore, clock: VirtualClock, worker: Worker) -> None:
        self.clock = clock
        self.store = store
        self.events: list[Event] = []
        self._worker = worker
        self._run: asyncio.Task[StopReport] | None = None
        worker.events.subscribe(self.events.append)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def advance(self, duration: Duration) -> list[Job]:
        """Let this much time pass, with everything that happens meanwhile at its own instant.

        Returns the jobs that ran, as they are now, in the order in which their attempts ended.
        """
        return await self.advance_to(self.now + read_duration(duration, "duration"))

    async def advance_to(self, instant: datetime | str) -> list[Job]:
        """As ``advance``, until an instant."""
        target = read_instant(instant, "instant")
        return await self._drive(lambda: self.clock.advance_to(target))

    async def run_all(self) -> list[Job]:
        """Run every job that is due, and what those enqueue, until none is due.

        Time stands still, unless a handler waits for it. Returns the jobs that ran.
        """
        return await self._drive(self._run_due)

    async def run(self, awaitable: Awaitable[Value]) -> Value:
        """Wait for this while jobs run and time passes as fast as it can: ``run(job.result())``."""
        with self.store.resumed():
            return await self.clock.run(awaitable)

    def enqueued(self, task: Any, **arguments: Any) -> list[Job]:
        """The jobs of a task that were enqueued so far, in any state, in order.

        ``task`` is a task or a name. With arguments, only the jobs that have these values.
        """
        kind = task if isinstance(task, str) else _read_task(task, arguments)
        wanted = {name: _as_json(name, value) for name, value in arguments.items()}
        found = [job for job in self._all_jobs() if job.kind == kind and _has(job, wanted)]
        order, last = self.store.inserted, len(self.store.inserted)
        return sorted(found, key=lambda job: (order.get(job.id, last), job.created_at, job.id))

    @contextmanager
    def faults(self, *verbs: str, script: Faults | None = None) -> Iterator[None]:
        """Let calls of the store fail while the context lasts: these verbs, or all of them.

        ``script`` decides about each call instead; ``rota.testing.faults`` has some.
        """
        for verb in verbs:
            if not hasattr(self.store.inner, verb):
                raise invalid("verbs", f"has no {verb!r:.40} of the store")

        def fail(call: StoreCall) -> Fault | None:
            return Fault(Failure.BEFORE) if not verbs or call.verb in verbs else None

        before, self.store.faults = self.store.faults, script or fail
        try:
            yield
        finally:
            self.store.faults = before

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The worker runs while the context lasts. Its errors are raised at the end."""
        run = self._run = asyncio.create_task(self._worker.run(), name="rota worker")
        try:
            await self._drive(lambda: self.clock.advance(timedelta(0)), resumes=False)
            yield
        finally:
            self._worker.stop()
            with self.store.resumed():
                await self.clock.run(asyncio.wait({run}))
        run.result()

    async def _drive(
        self, move: Callable[[], Awaitable[None]], *, resumes: bool = True
    ) -> list[Job]:
        seen_count = len(self.events)
        if resumes:
            with self.store.resumed():
                await move()
        else:
            await move()
        if self._run is not None and self._run.done():
            self._run.result()  # the worker has failed
        return self._find_settled(self.events[seen_count:])

    async def _run_due(self) -> None:
        await self.clock.advance(timedelta(0))
        while self._is_running() and (at := self.clock.next_timer_at) is not None:
            await self.clock.advance_to(at)

    def _is_running(self) -> bool:
        return any(job.status is JobStatus.RUNNING for job in self._all_jobs())

    def _find_settled(self, events: list[Event]) -> list[Job]:
        ended = [it for it in events if isinstance(it, JobSettled | JobDeferred)]
        ids: dict[JobId, None] = dict.fromkeys(it.job_id for it in ended)
        jobs = {job.id: job for job in self._all_jobs()}
        return [jobs[job_id] for job_id in ids if job_id in jobs]

    def _all_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        cursor: str | None = None
        while True:
            portion = _at_once(self.store.inner.dump(cursor))
            jobs += [record.job for record in portion.records if isinstance(record, KeptJob)]
            cursor = portion.cursor
            if cursor is None:
                return jobs


@asynccontextmanager
async def virtual_app(
    app: AppUnderTest, at: datetime | str | None = None
) -> AsyncIterator[VirtualApp]:
    """The app on a store in memory and a virtual clock, from the instant ``at`` on."""
    clock = VirtualClock(MONDAY if at is None else read_instant(at, "at"))
    store = PausedStore(MemoryStore(), clock)
    async with app.serving(store, clock):
        worker = app.worker()
        worker.random = Random(0)  # noqa: S311 - tests are repeatable
        tested = VirtualApp(store, clock, worker)
        async with tested.working():
            yield tested


def _at_once(call: Any) -> Any:
    """The answer of a store in memory, whose calls never suspend."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a call of a store in memory suspended")


def _read_task(task: Any, arguments: Mapping[str, Any]) -> str:
    """The name of a task, if it has these parameters: a misspelt one would match no job."""
    if not hasattr(task, "signature"):
        raise invalid("task", f"must be a task or the name of one, got {task!r:.60}")
    known = task.signature.json_schema()["properties"]
    for name in arguments:
        if name not in known:
            raise invalid(name, f"is not a parameter of {task.name}; it has: {', '.join(known)}")
    return str(task.name)


def _as_json(name: str, value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError) as error:
        raise invalid(name, f"cannot be an argument of a task: {error}") from error


def _has(job: Job, wanted: Mapping[str, Any]) -> bool:
    payload = job.payload if isinstance(job.payload, dict) else {}
    return all(name in payload and payload[name] == value for name, value in wanted.items())
