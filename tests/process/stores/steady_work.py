"""Jobs that are handed in and worked off all the time, whatever becomes of the server meanwhile."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from rota.clock.system import SystemClock
from rota.errors import StoreUnavailableError
from rota.events import Event, JobSettled, StoreFailed
from rota.jobs import Job, JobId, JobStatus
from rota.stores.postgres.store import PostgresStore
from rota.stores.redis.address import RedisSettings, read_address
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.worker import Context, Worker, WorkerSettings

CLOCK, A_MOMENT = SystemClock(), timedelta(milliseconds=10)
PATIENCE = 120
"""Real seconds, on however slow a machine."""


def less_patient(url: str) -> RedisSettings:
    """A store that gives up sooner, for the sake of the test's own duration."""
    seconds = timedelta(seconds=1)
    return replace(read_address(url), connect_for=seconds, answer_for=2 * seconds)


class SteadyWork:
    """A worker, and somebody who hands in one job after the other until it is acknowledged."""

    def __init__(self, store: RedisStore | PostgresStore) -> None:
        self._store = store
        self._settings = WorkerSettings(
            poll_for=timedelta(milliseconds=200), lease_for=timedelta(seconds=4)
        )
        self._worker = Worker(store, {"work": self._do}, settings=self._settings)
        self._worker.events.subscribe(self._note)
        self.acknowledged: list[JobId] = []
        self.run_counts: Counter[JobId] = Counter()
        self.refusals: list[StoreUnavailableError] = []
        self.outages: list[StoreFailed] = []
        self.settled: set[JobId] = set()
        self.repeated: list[JobId] = []
        """Run once more though the store had acknowledged their end."""
        self.statuses: dict[JobStatus | None, int] = {JobStatus.READY: 0}
        """In the end: how many that were acknowledged are kept as what; None for those lost."""
        self.lost: list[JobId] = []

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator["SteadyWork"]:
        async with asyncio.timeout(PATIENCE):
            working, feeding = map(asyncio.create_task, (self._worker.run(), self._feed()))
            try:
                yield self
                feeding.cancel()
                await asyncio.wait([feeding])
                while not self.statuses.keys() <= {JobStatus.COMPLETED, None}:
                    await CLOCK.sleep(A_MOMENT)
                    self.statuses = await self._find_statuses()
            finally:
                feeding.cancel()
                self._worker.stop()
                await working

    async def progress(self, count: int = 20) -> None:
        """Return when that many more jobs were submitted and done, and other tasks had a turn."""
        await CLOCK.sleep(A_MOMENT)
        goal = len(self.run_counts) + count
        await self._until(lambda: len(self.run_counts) >= goal)

    async def fail(self) -> StoreFailed:
        """Return when the worker has noticed that the store is away."""
        count = len(self.outages)
        await self._until(lambda: len(self.outages) > count)
        return self.outages[-1]

    async def be_refused(self, count: int = 20) -> None:
        """Return when the store has refused that many more jobs."""
        goal = len(self.refusals) + count
        await self._until(lambda: len(self.refusals) >= goal)

    async def _find_statuses(self) -> dict[JobStatus | None, int]:
        """As of now. A store that is away is waited for."""
        while True:
            try:
                kept = await self._store.get("default", self.acknowledged)
            except StoreUnavailableError:
                await CLOCK.sleep(A_MOMENT)
            else:
                found = [kept.get(each) for each in self.acknowledged]
                self.lost = [each for each in self.acknowledged if each not in kept]
                return Counter(None if job is None else job.status for job in found)

    async def _do(self, context: Context) -> None:
        self.run_counts[context.job.id] += 1
        if context.job.id in self.settled:
            self.repeated.append(context.job.id)

    async def _feed(self) -> None:
        while True:
            job = a_job(kind="work", created_at=CLOCK.now(), due_at=CLOCK.now())
            await self._hand_in(job)
            await CLOCK.sleep(A_MOMENT)

    async def _hand_in(self, job: Job) -> None:
        while True:
            try:
                await self._store.insert([job], CLOCK.now())
            except StoreUnavailableError as error:
                self.refusals.append(error)
                await CLOCK.sleep(A_MOMENT)
            else:
                self.acknowledged.append(job.id)
                return

    def _note(self, event: Event) -> None:
        if isinstance(event, StoreFailed):
            self.outages.append(event)
        if isinstance(event, JobSettled):
            self.settled.add(JobId(event.job_id))

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await CLOCK.sleep(A_MOMENT)
