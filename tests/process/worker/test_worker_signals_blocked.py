"""A handler that blocks the event loop: it is named, and its lease is kept all the while."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from rota.clock import SystemClock
from rota.events import Event as Told
from rota.events import LoopBlocked
from rota.jobs import JobStatus
from rota.stores.memory import MemoryStore
from rota.stores.protocol import HeldLease, LeaseKeeper
from rota.testing import a_job
from rota.worker import Context, Worker, WorkerSettings

pytestmark = pytest.mark.process

LEASE_FOR = timedelta(seconds=1)
LOOKS = 3_000
"""This many looks take half a minute: if nothing has happened by then, it never will."""


class NotedKeeper:
    """A keeper that notes until when it made leases last."""

    def __init__(self, keeper: LeaseKeeper, noted: list[datetime]) -> None:
        self._keeper = keeper
        self._noted = noted

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        answers = self._keeper.extend(held, until, now)
        if answers == [True]:
            self._noted.append(until)
        return answers

    def close(self) -> None:
        self._keeper.close()


class NotedStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.noted: list[datetime] = []

    def make_keeper(self) -> LeaseKeeper:
        return NotedKeeper(super().make_keeper(), self.noted)


async def test_a_handler_that_blocks_the_loop_is_named_and_keeps_its_lease() -> None:
    store, told = NotedStore(), list[Told]()
    worker = Worker(store, {}, settings=WorkerSettings(lease_for=LEASE_FOR))
    worker.events.subscribe(told.append)
    ends: list[datetime] = []

    @worker.handler("stubborn")
    async def block(context: Context) -> None:
        """Keep the loop for longer than the lease lasts, and until somebody complains."""
        assert context.job.lease is not None
        ends.append(context.job.lease.until)
        pause, looks = Event(), 0
        while looks < LOOKS and not (told_of_it() and SystemClock().now() > ends[0] + LEASE_FOR):
            pause.wait(0.01)
            looks += 1

    def told_of_it() -> list[LoopBlocked]:
        return [it for it in told if isinstance(it, LoopBlocked) and not it.is_over]

    job = a_job(kind="stubborn", created_at=SystemClock().now())
    await store.insert([job], job.created_at)
    settled = await worker.run_once()

    assert [(it.job.status, it.is_stale) for it in settled] == [(JobStatus.COMPLETED, False)]
    assert max(store.noted) > ends[0] + LEASE_FOR
    (complaint, *_) = told_of_it()
    assert (complaint.job_id, complaint.kind) == (job.id, "stubborn")
    assert complaint.duration >= 1_000
    assert Path(__file__).name in complaint.location
