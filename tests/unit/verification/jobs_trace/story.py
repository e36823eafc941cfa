"""A history that breaks nothing, to be spoilt by the tests in one place each."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from tests.verification.jobs_trace import (
    JobEntry,
    JobsVerdict,
    RecordingStore,
    Scribe,
    Snapshot,
    check_jobs,
    recorded,
    take_snapshot,
)

from rota.jobs import Job, JobRequest, Recurrence, admit_job, make_job_id
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock, a_job
from rota.worker import Context, Snooze, Worker, WorkerSettings

BEGINS_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
A_WHILE = timedelta(hours=2)
SETTINGS = WorkerSettings(poll_for=timedelta(minutes=10))

Kind = TypeVar("Kind")


class Story:
    """What some jobs went through, and what is kept of them."""

    def __init__(self, history: list[JobEntry], snapshot: Snapshot) -> None:
        self.history = history
        self.snapshot = snapshot

    def judge(self) -> JobsVerdict:
        return check_jobs(self.history, self.snapshot)

    def find(self, kind: type[Kind], accepts: Callable[[Kind], bool] = lambda _: True) -> Kind:
        return next(one for one in self.history if isinstance(one, kind) and accepts(one))

    def change(self, entry: Any, **fields: Any) -> None:
        """Have the history say something else in one place."""
        position = self.history.index(entry)
        self.history[position] = msgspec.structs.replace(entry, **fields)

    def insert_after(self, entry: Any, *entries: Any) -> None:
        position = self.history.index(entry) + 1
        self.history[position:position] = entries

    def keep(self, job: Job) -> None:
        """Have the store say something else about one job."""
        self.snapshot.jobs[job.id] = job


def make_jobs() -> list[Job]:
    plain = a_job(name="plain")
    series = JobRequest(
        name="recurring",
        queue="default",
        recurrence=Recurrence(interval="30m", start=BEGINS_AT, count=3),
    )
    return [
        plain,
        a_job(name="failing"),
        a_job(name="snoozing", idempotency_key="once"),
        a_job(name="plain", dependencies=[plain.id], due_at=BEGINS_AT + timedelta(minutes=1)),
        admit_job(series, job_id=make_job_id(BEGINS_AT, 1), now=BEGINS_AT),
    ]


async def play_story() -> Story:
    """Jobs on a worker: one fails at first, one snoozes, one waits for another, one recurs."""
    clock, history = VirtualClock(BEGINS_AT), list[JobEntry]()
    scribe = Scribe(clock, history.append)
    store = RecordingStore(MemoryStore(), scribe)

    async def work(context: Context) -> Snooze | None:
        await clock.sleep(timedelta(seconds=1))
        if context.job.kind == "failing" and context.attempt == 1:
            raise ValueError
        is_snoozing = context.job.kind == "snoozing" and context.token == 1
        return Snooze(timedelta(minutes=5)) if is_snoozing else None

    handlers = {
        kind: recorded(work, scribe) for kind in ("plain", "failing", "snoozing", "recurring")
    }
    worker = Worker(store, handlers, clock=clock, settings=SETTINGS)
    await store.insert(make_jobs(), BEGINS_AT)
    running = asyncio.ensure_future(worker.run())
    await clock.advance(A_WHILE)
    worker.stop()
    await clock.run(running)
    return Story(history, await take_snapshot(store, ["default"], clock.now()))
