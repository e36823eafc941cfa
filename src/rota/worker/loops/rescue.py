"""Finds jobs whose worker has let the lease run out, and calls their attempts lost."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial

from rota.jobs import Interrupted, Job, JobId, Lost
from rota.worker.loops.settling import decide
from rota.worker.outage import Outage, Patience
from rota.worker.surroundings import Surroundings
from rota.worker.teller import Teller

LONGEST_SWEEP = timedelta(seconds=15)
PAGE_SIZE = 100


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
        self._patience = Patience(outage, surroundings.clock, surroundings.random)
        self._teller = Teller(surroundings.journal)
        self._held_ids = held_ids
        self._unanswered = unanswered

    async def run(self) -> None:
        clock, random = self._surroundings.clock, self._surroundings.random
        interval = choose_interval(self._surroundings.settings.lease_for)
        # The first look comes soon, in case a whole fleet was started anew; but not all at once.
        await clock.sleep(min(interval, timedelta(seconds=1)) * random.random())
        while True:
            await self.sweep()
            await clock.sleep(interval * (0.5 + random.random() / 2))

    async def sweep(self) -> int:
        """Meet every job whose lease has run out, once; how many were taken from their workers."""
        rescued_count = 0
        after: Job | None = None
        while True:
            page = await self._patience.ask(partial(self._find, after))
            rescued_count += await self._rescue(page)
            if len(page) < PAGE_SIZE:
                return rescued_count
            after = page[-1]

    async def _find(self, after: Job | None) -> list[Job]:
        now = self._surroundings.clock.now()
        return await self._surroundings.store.find_expired(now, PAGE_SIZE, after)

    async def _rescue(self, page: list[Job]) -> int:
        now, random = self._surroundings.clock.now(), self._surroundings.random
        held_ids = self._held_ids()
        judged = [(job, self._judge(job, held_ids)) for job in page]
        found = [(job, outcome) for job, outcome in judged if outcome is not None]
        if not found:
            return 0
        changes = [decide(job, outcome, now, random.random()) for job, outcome in found]
        answers = await self._patience.ask(lambda: self._surroundings.store.apply(changes, now))
        count = 0
        for (job, outcome), change, answer in zip(found, changes, answers, strict=True):
            if not answer.is_stale and isinstance(outcome, Lost):
                self._teller.tell_stalled(job, change)
                count += 1
        return count

    def _judge(self, job: Job, held_ids: Collection[JobId]) -> Lost | Interrupted | None:
        owner, unanswered = self._surroundings.owner, self._unanswered
        return judge_expired(job, owner, held_ids, unanswered)


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


def choose_interval(lease_for: timedelta) -> timedelta:
    """How often to look: a stalled job waits no longer than its lease and a quarter of a minute."""
    return min(lease_for / 2, LONGEST_SWEEP)
