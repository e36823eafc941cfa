"""Writes what became of jobs, as many at once as have ended since the last time.

While one write is under way others end, and go into the next: a busy worker makes few large
commits, and at a quiet moment a single job is written at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rota.errors import RotaError, StoreClosedError, StoreUnavailableError
from rota.fleet.outage import Outage, StoreRetry
from rota.jobs import Change, Interrupted, Job, Outcome, decide_defer, decide_outcome
from rota.policy.gates import Closed
from rota.stores.protocol import Applied
from rota.worker.running.held import Held
from rota.worker.surroundings import Surroundings
from rota.worker.teller import Teller

LARGEST_WRITE = 1_000
SHORTEST_DEFERRAL = timedelta(seconds=1)


class Settled(NamedTuple):
    """What became of one job: how it is kept now, or that another has it (``is_stale``)."""

    job: Job
    is_stale: bool = False


class Settler:
    """Takes outcomes and writes them, one write at a time.

    What waits here is still held: its lease is kept until it is written. ``in_hand`` are all jobs
    that this worker holds. ``on_written`` is called after each write.
    """

    def __init__(self, surroundings: Surroundings, outage: Outage) -> None:
        self.in_hand: set[Held] = set()
        self.settled: list[Settled] | None = None
        self.on_written: Callable[[], None] | None = None
        self.handed_back_count = 0
        self._store = surroundings.store
        self._clock = surroundings.clock
        self._random = surroundings.random
        self._teller = Teller(surroundings.journal)
        self._retry = StoreRetry(outage, surroundings.clock, surroundings.random)
        self._waiting: list[Held] = []
        self._called = asyncio.Event()
        self._is_closing = False

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def add(self, held: Held, outcome: Outcome | Closed) -> None:
        """Have this outcome written."""
        held.outcome = outcome
        held.change = decide(held.job, outcome, held.ended_at, self._random.random())
        self._waiting.append(held)
        if len(self._waiting) == 1:
            self._called.set()

    def close(self) -> None:
        """Let ``run`` return when all is written."""
        self._is_closing = True
        self._called.set()
        self._retry.hurry()

    async def run(self) -> None:
        while self._waiting or not self._is_closing:
            await self._called.wait()
            self._called.clear()
            await self.write_all()

    async def write_all(self) -> None:
        """Return when nothing is left to be written, however long the store takes."""
        while self._waiting:
            batch = self._waiting[:LARGEST_WRITE]
            try:
                answers = await self._apply(batch)
            except StoreUnavailableError as error:
                await self._retry.wait(error)
                continue
            except StoreClosedError:
                raise
            except RotaError as error:
                answers = await self._apply_each(batch, error)
            self._retry.note_answer()
            del self._waiting[: len(batch)]
            await self._take_answers(batch, answers)

    async def _apply(self, batch: Sequence[Held]) -> list[Applied | None]:
        """Write these; when nobody says whether it happened, they are in doubt."""
        changes = [held.change for held in batch if held.change is not None]
        try:
            return [*await self._store.apply(changes, self._clock.now())]
        except (StoreUnavailableError, asyncio.CancelledError):
            for held in batch:
                held.is_doubtful = True
            raise

    async def _apply_each(self, batch: Sequence[Held], error: RotaError) -> list[Applied | None]:
        """The store refuses them together: one must be at fault, and the others are not."""
        if len(batch) == 1:
            self._teller.tell_refused(batch[0], error)
            return [None]
        answers: list[Applied | None] = []
        for held in batch:
            answers += await self._apply_alone(held)
        return answers

    async def _apply_alone(self, held: Held) -> list[Applied | None]:
        while True:
            try:
                return await self._apply([held])
            except StoreUnavailableError as error:
                await self._retry.wait(error)
            except StoreClosedError:
                raise
            except RotaError as error:
                return await self._apply_each([held], error)

    async def _take_answers(self, batch: Sequence[Held], answers: Sequence[Applied | None]) -> None:
        for held, answer in zip(batch, answers, strict=True):
            if answer is not None and answer.job is None:
                held.is_stale = await self._is_lost(held)
            if type(held.outcome) is Interrupted and answer is not None and not held.is_stale:
                self.handed_back_count += 1
        self.in_hand.difference_update(batch)
        if self.settled is not None:
            self.settled += [
                Settled(held.change.job, held.is_stale) for held in batch if held.change is not None
            ]
        self._teller.tell_settled(batch)
        if self.on_written is not None:
            self.on_written()

    async def _is_lost(self, held: Held) -> bool:
        """Whether a stale change means that another has the job, or that it was written before."""
        if not held.is_doubtful or held.change is None:
            return True
        change = held.change
        kept = await self._retry.call(lambda: self._store.get(held.job.tenant, [held.job.id]))
        return not is_written(change, kept.get(held.job.id))


def decide(job: Job, outcome: Outcome | Closed, now: datetime, chance: float) -> Change:
    """What the outcome means for the job; ``chance`` is for the jitter of a retry."""
    if isinstance(outcome, Closed):
        return decide_defer(job, _reopening(outcome, now), outcome.reason, now)
    return decide_outcome(job, outcome, now, chance)


def _reopening(closed: Closed, now: datetime) -> datetime:
    """When to ask again; a gate that names the past must not be asked without end."""
    return closed.reopens_at if closed.reopens_at > now else now + SHORTEST_DEFERRAL


def is_written(change: Change, kept: Job | None) -> bool:
    """Whether the job is as the change has it, so that the change must have been written.

    A job that is gone was removed by it, if that was to be. What others may amend does not count.
    """
    if kept is None:
        return change.is_removed
    return _outcome_fields(kept) == _outcome_fields(change.job)


def _outcome_fields(job: Job) -> tuple[object, ...]:
    return (
        job.status,
        job.last_token,
        job.lease,
        job.attempt_count,
        job.loss_count,
        job.last_error,
        job.ending,
    )
