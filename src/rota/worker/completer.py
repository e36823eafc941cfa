"""Writes the outcomes of attempts, as many at once as have ended since the last write.

While one write is under way other attempts end and go into the next: a busy worker makes few large
writes, and a single job is written at once.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from rota.clock.loop import call_in_thread
from rota.errors import RotaError, StoreClosedError, StoreUnavailableError
from rota.events import EventEmitter, JobFailed, JobSettled
from rota.fleet.outage import StoreRetry
from rota.jobs import (
    Change,
    Discarded,
    Failed,
    Interrupted,
    Job,
    Outcome,
    Succeeded,
    decide_defer,
    decide_outcome,
)
from rota.jobs.transitions import SUCCEEDED
from rota.policy.gates import Closed
from rota.stores.protocol import Applied
from rota.worker.attempts import Flow, Settlement
from rota.worker.context import CancelReason
from rota.worker.job_events import STALE, job_not_settled, job_settled, lease_lost
from rota.worker.settings import Resources

LARGEST_WRITE = 1_000
SHORTEST_DEFERRAL = timedelta(seconds=1)


class Settled(NamedTuple):
    """A job as it was written. ``is_stale``: it was not, because another worker has the job."""

    job: Job
    is_stale: bool = False


class Completer:
    """Takes ended attempts from the flow and writes them, one write at a time.

    Their leases are kept until they are written. With ``settled`` a list, it is filled with what
    was written. ``is_held_up``: the store is away, and a write is tried again.
    """

    def __init__(self, resources: Resources, flow: Flow) -> None:
        self.settled: list[Settled] | None = None
        self.handed_back_count = 0
        self.is_held_up = False
        self._resources = resources
        self._flow = flow
        self._closing = asyncio.Event()
        self._retry = StoreRetry(
            resources.outage, resources.clock, resources.random, hurried=self._closing
        )

    async def run(self) -> None:
        """Write until closed, and then what is left."""
        flow = self._flow
        while flow.ended or not self._closing.is_set():
            await flow.has_ended.wait()
            flow.has_ended.clear()
            await self.write_all()

    def close(self) -> None:
        """Let ``run`` return when everything is written."""
        self._closing.set()
        self._flow.has_ended.set()

    async def write_all(self) -> None:
        """Write until nothing is left, however long the store takes."""
        ended, alone_count = self._flow.ended, 0
        while ended:
            batch = ended[: 1 if alone_count else LARGEST_WRITE]
            try:
                answers: Sequence[Applied | None] = await self._apply(batch)
            except StoreUnavailableError as error:
                self.is_held_up = True
                self._flow.changed.set()
                await self._retry.wait(error)
                continue
            except StoreClosedError:
                raise
            except RotaError as error:
                if len(batch) > 1:  # one of them is at fault: write each of them alone
                    alone_count = len(batch)
                    continue
                self._resources.events.emit(job_not_settled(batch[0].attempt, error))
                answers = [None]
            if self.is_held_up:
                self.is_held_up = False
                self._retry.note_answer()
            alone_count = max(alone_count - 1, 0)
            del ended[: len(batch)]
            await self._finish(batch, answers)

    async def _apply(self, batch: Sequence[Settlement]) -> Sequence[Applied | None]:
        """Decide and write these. When the answer is lost, they are doubtful."""
        random = self._resources.random
        undecided = [(it, random.random()) for it in batch if it.change is None]
        series = [each for it, _ in undecided if (each := it.attempt.job.recurrence) is not None]
        if any(each.interval is None for each in series):  # its next occurrence may take a while
            await call_in_thread(lambda: _decide_all(undecided))
        else:
            _decide_all(undecided)
        changes = [it.change for it in batch if it.change is not None]
        try:
            return await self._resources.store.apply(changes, self._resources.clock.now())
        except (StoreUnavailableError, asyncio.CancelledError):
            for it in batch:
                it.is_doubtful = True
            raise

    async def _finish(self, batch: Sequence[Settlement], answers: Sequence[Applied | None]) -> None:
        """Let go of what was written, and emit it."""
        for it, answer in zip(batch, answers, strict=True):
            if answer is not None and answer.job is None:
                it.is_stale = await self._is_lost(it)
            elif answer and it.change and answer.job is not it.change.job:
                it.change = replace(it.change, job=answer.job)  # its retry policy was amended
            if type(it.result.outcome) is Interrupted and answer is not None and not it.is_stale:
                self.handed_back_count += 1
        self._flow.release([it.attempt for it in batch])
        if self.settled is not None:
            self.settled += [Settled(it.change.job, it.is_stale) for it in batch if it.change]
        if self._resources.events.wants(JobFailed):  # of these events the one of the highest level
            emit_settled(self._resources.events, batch)

    async def _is_lost(self, settlement: Settlement) -> bool:
        """Whether a stale change means that another has the job, or that it was written before."""
        change, job = settlement.change, settlement.attempt.job
        if not settlement.is_doubtful or change is None:
            return True
        found = await self._retry.call(lambda: self._resources.store.get(job.tenant, [job.id]))
        return not is_written(change, found.get(job.id))


def _decide_all(undecided: Iterable[tuple[Settlement, float]]) -> None:
    """Decide the change that each ended attempt means, with its log."""
    for it, chance in undecided:
        attempt, outcome = it.attempt, it.result.outcome
        log = None if attempt.log is None else attempt.log.text()
        if log is not None and isinstance(outcome, Succeeded | Failed | Discarded):
            outcome = replace(outcome, log=log)
        it.change = decide(attempt.job, outcome, attempt.ended_at, chance, attempt.started_at)


def decide(
    job: Job,
    outcome: Outcome | Closed,
    now: datetime,
    chance: float,
    started_at: datetime | None = None,
) -> Change:
    """What the outcome means for the job; ``chance`` is for the jitter of a retry."""
    # Most succeed. Of a Struct, isinstance takes eight times as long where it is false.
    if type(outcome) is not Succeeded and isinstance(outcome, Closed):
        # A gate that names the past must not be asked again and again.
        at = outcome.reopens_at if outcome.reopens_at > now else now + SHORTEST_DEFERRAL
        return decide_defer(job, at, outcome.reason, now)
    return decide_outcome(job, outcome, now, chance, started_at)


def emit_settled(events: EventEmitter, batch: Iterable[Settlement]) -> None:
    """Emit what was written. An event without listeners or log is not created."""
    wants_all = events.wants(JobSettled)
    for it in batch:
        if it.is_stale:
            if it.attempt.cancel_reason is not CancelReason.LOST:  # else emitted when noticed
                events.emit(lease_lost(it.attempt, STALE))
        elif it.change is not None:
            written = it.change.attempt
            if wants_all or (written is not None and written.outcome != SUCCEEDED):
                events.emit(job_settled(it, it.change))


def is_written(change: Change, stored: Job | None) -> bool:
    """Whether the stored job shows that the change was written.

    A job that is gone was removed by the change, if that was intended. Fields that others may amend
    do not count.
    """
    if stored is None:
        return change.is_removed
    return _outcome_fields(stored) == _outcome_fields(change.job)


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
