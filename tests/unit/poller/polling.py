"""A poller under virtual time on some store, with everything its hooks are told written down."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from rota.poller import JobUpdate, PollableStore, PolledJob, Poller, PollerOptions
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Stage:
    """A clock, a store, and a poller whose hooks keep a diary.

    ``work`` may be set to what ``on_document`` does beside that.
    """

    def __init__(self, store: PollableStore, clock: VirtualClock) -> None:
        self.store = store
        self.clock = clock
        self.diary: list[str] = []
        self.jobs: list[PolledJob] = []
        self.times: list[datetime] = []
        self.errors: list[BaseException] = []
        self.work: Callable[[PolledJob], Any] | None = None
        self.pollers: list[Poller] = []

    def poller(self, **options: Unpack[PollerOptions]) -> Poller:
        found: PollerOptions = {
            "on_document": self._on_document,
            "on_start": lambda: self.diary.append("start"),
            "on_stop": lambda: self.diary.append("stop"),
            "on_idle": lambda: self.diary.append("idle"),
            "on_error": self.errors.append,
            "clock": self.clock,
        }
        found.update(options)
        self.pollers.append(Poller(self.store, **found))
        return self.pollers[-1]

    async def play(self, duration: timedelta, **options: Unpack[PollerOptions]) -> Poller:
        """Start a poller and let so much time pass."""
        poller = self.poller(**options)
        await poller.start()
        await self.clock.advance(duration)
        return poller

    async def close(self) -> None:
        for poller in self.pollers:
            await self.clock.run(poller.stop())

    @property
    def seconds(self) -> list[float]:
        """When documents were processed, in seconds since the beginning."""
        return [(at - NOW).total_seconds() for at in self.times]

    async def _on_document(self, job: PolledJob) -> None:
        self.diary.append("document")
        self.jobs.append(job)
        self.times.append(self.clock.now())
        if self.work is not None:
            result = self.work(job)
            if result is not None:
                await result


class ListedJobs:
    """The smallest store there can be: a list of jobs, each given once."""

    def __init__(self, *jobs: PolledJob) -> None:
        self.waiting = list(jobs)
        self.updates: list[tuple[Any, JobUpdate]] = []
        self.removed: list[Any] = []
        self.locks: list[tuple[datetime, datetime]] = []
        self.failures: list[Exception] = []

    async def lock_next(self, lock_until: datetime, now: datetime) -> PolledJob | None:
        self.locks.append((lock_until, now))
        if self.failures:
            raise self.failures.pop(0)
        return self.waiting.pop(0) if self.waiting else None

    async def update(self, job: PolledJob, update: JobUpdate, now: datetime) -> bool:  # noqa: ARG002 - as the protocol has it
        self.updates.append((job.id, update))
        return True

    async def remove(self, job: PolledJob) -> bool:
        self.removed.append(job.id)
        return True


def a_polled(number: int = 1, **fields: Any) -> PolledJob:
    return PolledJob(**{"id": number, "sleep_until": NOW, **fields})
