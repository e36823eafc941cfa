"""Finds jobs whose worker has let the lease run out, and calls their attempts lost.

And those of its own worker that it was never told of, before others take them for lost.
"""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from rota.fleet.outage import Outage, StoreRetry
from rota.jobs import Interrupted, Job, JobId, JobStatus, Lease, Lost
from rota.worker.loops.settling import decide
from rota.worker.surroundings import Surroundings
from rota.worker.teller import Teller

LONGEST_SWEEP = timedelta(seconds=15)
PAGE_SIZE = 100

_INSTANT = timedelta(microseconds=1)
_FIRST_ID = str(UUID(int=0))
_Judge = Callable[[Job, Collection[JobId]], Lost | Interrupted | None]


class Rescue:
    """Looks for such jobs again and again, until cancelled.

    ``held_ids`` tells which jobs this worker holds itself, ``unanswered`` when it asked for some
    that it was never given.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        outage: Outage,
        held_ids: Callable[[], Collection[JobId]],
        unanswered: Collection[datetime],
    ) -> None:
        self._surroundings = surroundings
        self._retry = StoreRetry(outage, surroundings.clock, surroundings.random)
        self._teller = Teller(surroundings.journal)
        self._held_ids = held_ids
        self._unanswered = unanswered

    async def run(self) -> None:
        clock, random = self._surroundings.clock, self._surroundings.random
        interval = choose_interval(self._surroundings.settings.lease_for)
        # The first look comes soon, in case a whole fleet was started anew; but not all at once.
        await clock.sleep(min(interval, timedelta(seconds=1)) * random.random())
        while True:
            await self.reclaim()
            await self.sweep()
            await clock.sleep(interval * (0.5 + random.random() / 2))

    async def reclaim(self) -> int:
        """Hand back what the store leased to this worker without saying so; how many.

        Nobody else can know that these have not begun: once their leases have run out, others
        would take them for killers of a worker, and their attempts for spent.
        """
        now, lease_for = self._surroundings.clock.now(), self._surroundings.settings.lease_for
        recent = [asked_at for asked_at in self._unanswered if asked_at + lease_for > now]
        if not recent:
            return 0
        # What was leased then is leased until exactly then: few others are looked at.
        after = _just_before(min(recent) + lease_for)
        ended_by = max(recent) + lease_for + _INSTANT
        return await self._meet_all(lambda: ended_by, self._judge_unanswered, after)

    async def sweep(self) -> int:
        """Meet every job whose lease has run out, once; how many were taken from their workers."""
        return await self._meet_all(self._surroundings.clock.now, self._judge_expired)

    async def _meet_all(
        self, ended_by: Callable[[], datetime], judge: _Judge, after: Job | None = None
    ) -> int:
        count = 0
        while True:
            page = await self._retry.call(partial(self._find, ended_by, after))
            count += await self._rescue(page, judge)
            if len(page) < PAGE_SIZE:
                return count
            after = page[-1]

    async def _find(self, ended_by: Callable[[], datetime], after: Job | None) -> list[Job]:
        return await self._surroundings.store.find_expired(ended_by(), PAGE_SIZE, after)

    async def _rescue(self, page: list[Job], judge: _Judge) -> int:
        now, random = self._surroundings.clock.now(), self._surroundings.random
        held_ids = self._held_ids()
        judged = [(job, judge(job, held_ids)) for job in page]
        found = [(job, outcome) for job, outcome in judged if outcome is not None]
        if not found:
            return 0
        changes = [decide(job, outcome, now, random.random()) for job, outcome in found]
        answers = await self._retry.call(lambda: self._surroundings.store.apply(changes, now))
        count = 0
        for (job, outcome), change, answer in zip(found, changes, answers, strict=True):
            if answer.is_stale:
                continue
            count += 1
            if isinstance(outcome, Lost):
                self._teller.tell_stalled(job, change)
        return count

    def _judge_expired(self, job: Job, held_ids: Collection[JobId]) -> Lost | Interrupted | None:
        owner, unanswered = self._surroundings.owner, self._unanswered
        return judge_expired(job, owner, held_ids, unanswered)

    def _judge_unanswered(self, job: Job, held_ids: Collection[JobId]) -> Interrupted | None:
        """Its lease lasts: nothing is said of it unless it is certain that nobody runs it."""
        outcome = self._judge_expired(job, held_ids)
        return outcome if isinstance(outcome, Interrupted) else None


def judge_expired(
    job: Job, owner: str, held_ids: Collection[JobId], unanswered: Collection[datetime]
) -> Lost | Interrupted | None:
    """What the end of a lease means, as ``owner`` sees it; None when it is not for it to say.

    Its own jobs are in its hands, and it will extend or settle them when it can. What it leased
    without ever being told has not begun, and goes back unspent.
    """
    if job.lease is None or job.lease.worker != owner:
        return Lost()
    if job.id in held_ids:
        return None
    return Interrupted() if job.lease.taken_at in unanswered else Lost()


def _just_before(until: datetime) -> Job:
    """A job that comes right before those whose leases end then."""
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
    """How often to look: a stalled job waits no longer than its lease and a quarter of a minute."""
    return min(lease_for / 2, LONGEST_SWEEP)
