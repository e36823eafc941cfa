"""Rescues jobs whose lease has expired, and hands back leases whose answer was lost."""

from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from rota.clock.protocol import END_OF_TIME
from rota.errors import RotaError
from rota.fleet.outage import StoreRetry
from rota.jobs import Interrupted, Job, JobId, JobStatus, Lease, Lost, decide_outcome
from rota.worker.attempts import Flow
from rota.worker.job_events import job_stalled
from rota.worker.progress import remove_progress
from rota.worker.rest import StoreChanges
from rota.worker.settings import Resources

LONGEST_SWEEP = timedelta(seconds=15)
PAGE_SIZE = 100

_INSTANT = timedelta(microseconds=1)
_FIRST_ID = str(UUID(int=0))
_Judge = Callable[[Job, Collection[JobId]], Lost | Interrupted | None]


class Rescuer:
    """Sweeps the store every few seconds, until cancelled.

    ``flow`` holds the attempts of this worker. ``unanswered`` are the ends of its leases whose
    answer was lost.
    """

    def __init__(
        self, resources: Resources, flow: Flow, unanswered: Collection[datetime] = ()
    ) -> None:
        self._resources = resources
        self._flow = flow
        self._unanswered = unanswered
        self._retry = StoreRetry(resources.outage, resources.clock, resources.random)
        self._changes = StoreChanges.of(resources.store, resources.clock)

    async def run(self) -> None:
        clock, random = self._resources.clock, self._resources.random
        interval = choose_interval(self._resources.settings.lease_for)
        # The first sweep comes soon, in case a whole fleet was restarted; but not all at once.
        await clock.sleep(min(interval, timedelta(seconds=1)) * random.random())
        while True:
            await self.reclaim()
            await self.sweep()
            await self._wait_for_leases()
            await clock.sleep(interval * (0.5 + random.random() / 2))

    async def _wait_for_leases(self) -> None:
        """While nothing is leased, nothing can expire: under a virtual clock, wait for a write."""
        changes = self._changes
        if changes is None or self._unanswered:
            return
        version = changes.read_version()
        if not await self._retry.call(partial(self._find, lambda: END_OF_TIME, None)):
            await changes.wait(version)

    async def reclaim(self) -> int:
        """Hand back the jobs of leases whose answer was lost; returns how many.

        Only this worker knows that they never started. When their leases expired, other workers
        would count the attempts as lost.
        """
        now = self._resources.clock.now()
        recent = [until for until in self._unanswered if until > now]
        if not recent:
            return 0
        # These leases end exactly then, so few other jobs are read.
        after, ended_by = _just_before(min(recent)), max(recent) + _INSTANT
        return await self._settle_all(lambda: ended_by, self._judge_unanswered, after)

    async def sweep(self) -> int:
        """Settle every job whose lease has expired; returns how many were rescued."""
        return await self._settle_all(self._resources.clock.now, self._judge_expired)

    async def _settle_all(
        self, ended_by: Callable[[], datetime], judge: _Judge, after: Job | None = None
    ) -> int:
        count = 0
        while True:
            page = await self._retry.call(partial(self._find, ended_by, after))
            count += await self._settle(page, judge)
            if len(page) < PAGE_SIZE:
                return count
            after = page[-1]

    async def _find(self, ended_by: Callable[[], datetime], after: Job | None) -> list[Job]:
        return await self._resources.store.find_expired(ended_by(), PAGE_SIZE, after)

    async def _settle(self, page: list[Job], judge: _Judge) -> int:
        now, random = self._resources.clock.now(), self._resources.random
        held_ids = {attempt.job.id for attempt in self._flow.held}
        judged = [(job, judge(job, held_ids)) for job in page]
        found = [(job, outcome) for job, outcome in judged if outcome is not None]
        if not found:
            return 0
        changes = [decide_outcome(job, outcome, now, random.random()) for job, outcome in found]
        answers = await self._retry.call(lambda: self._resources.store.apply(changes, now))
        count, lost = 0, []
        for (job, outcome), change, answer in zip(found, changes, answers, strict=True):
            if answer.is_stale:
                continue
            count += 1
            if isinstance(outcome, Lost) and job.lease is not None:
                self._resources.events.emit(job_stalled(job, job.lease, change.job))
                lost.append(job.id)
        if lost:
            with suppress(RotaError):  # it is not shown in any case
                await remove_progress(self._resources.store, lost)
        return count

    def _judge_expired(self, job: Job, held_ids: Collection[JobId]) -> Lost | Interrupted | None:
        return judge_expired(job, self._resources.name, held_ids, self._unanswered)

    def _judge_unanswered(self, job: Job, held_ids: Collection[JobId]) -> Interrupted | None:
        """The lease still lasts: settle the job only if it certainly never started."""
        outcome = self._judge_expired(job, held_ids)
        return outcome if isinstance(outcome, Interrupted) else None


def judge_expired(
    job: Job, owner: str, held_ids: Collection[JobId], unanswered: Collection[datetime]
) -> Lost | Interrupted | None:
    """The outcome of a job whose lease has expired, as worker ``owner`` sees it.

    None for a job that it holds: it extends or settles that when it can. A job that it leased
    without getting the answer never started, so no attempt is spent.
    """
    if job.lease is None or job.lease.worker != owner:
        return Lost()
    if job.id in held_ids:
        return None
    return Interrupted() if job.lease.until in unanswered else Lost()


def _just_before(until: datetime) -> Job:
    """A job that sorts right before those whose leases end at ``until``."""
    before = until - _INSTANT
    lease = Lease(token=0, worker="", taken_at=before, until=before)
    return Job(
        id=_FIRST_ID,
        queue="",
        name="",
        kind="",
        due_at=before,
        status=JobStatus.RUNNING,
        lease=lease,
        created_at=before,
        updated_at=before,
    )


def choose_interval(lease_for: timedelta) -> timedelta:
    """How often to sweep: a stalled job waits for its lease and at most 15 seconds more."""
    return min(lease_for / 2, LONGEST_SWEEP)
