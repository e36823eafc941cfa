"""Jobs that are about to change together, locked, and what they are to become.

Locks go from a job to those that wait for it. A dependent is locked before the statuses of its
dependencies are read: of two that end at the same time the second sees the first, and releases.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from rota.jobs import Job, JobId, JobStatus, decide_dependents
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.jobs.rows import Damage, decode_jobs, encode_moves, known_ids

MOVED_AT_ONCE = 5_000


class Family:
    """Jobs by id, as they are and then as they will be; nothing is written before ``write``."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._beside: dict[JobId, Job] = {}
        self._children: defaultdict[JobId, list[JobId]] = defaultdict(list)
        self._moved: dict[JobId, Job] = {}
        self.jobs: dict[JobId, Job] = {}
        self.awaited: set[JobId] = set()
        self.damaged: list[Damage] = []

    async def lock(self, job_ids: Iterable[JobId]) -> None:
        """Have these jobs to oneself; those that do not exist are not there."""
        wanted = known_ids(each for each in job_ids if each not in self.jobs)
        if not wanted:
            return
        reading = decode_jobs(await self._statements.fetch(QUERIES.lock_jobs, wanted))
        self.jobs |= reading.jobs
        self.awaited |= {each for each, kept in reading.kept.items() if kept.is_awaited}
        self.damaged += reading.damaged

    async def lock_waiting(self, completing: Collection[JobId], failing: Collection[JobId]) -> None:
        """Lock whoever waits for these, for the latter also through others."""
        completing = [each for each in completing if each in self.awaited]
        failing = [each for each in failing if each in self.awaited]
        if not completing and not failing:
            return
        await self._lock_all(failing)
        await self._lock_next(completing)
        await self._read_beside()

    def put(self, job: Job) -> None:
        """The job as it will be."""
        self.jobs[job.id] = self._moved[job.id] = job

    def settle_dependents(self, job: Job, now: datetime) -> list[Job]:
        """Whoever waited for the job, as its end leaves them; nobody if it has not ended."""
        if not job.status.is_terminal or job.id not in self.awaited:
            return []
        changes = decide_dependents(job, self._concerned_by(job), now)
        moved = [change.job for change in changes]
        for each in moved:
            self.put(each)
        return moved

    async def write(self, now: datetime) -> list[Job]:
        """Write what has changed; those that are READY now."""
        moved = [self._moved[job_id] for job_id in sorted(self._moved)]
        for start in range(0, len(moved), MOVED_AT_ONCE):
            columns = encode_moves(moved[start : start + MOVED_AT_ONCE])
            await self._statements.fetch(QUERIES.move_jobs, now, *columns)
        return [job for job in moved if job.status is JobStatus.READY]

    async def _lock_all(self, failing: Sequence[JobId]) -> None:
        """Until no more are found: while one is waited for, another may come to depend on it."""
        is_complete = not failing
        while not is_complete:
            rows = await self._statements.fetch(QUERIES.find_waiting, failing)
            seen = len(self.jobs) + len(self.damaged)
            await self.lock(row[0] for row in rows)
            is_complete = len(self.jobs) + len(self.damaged) == seen
        await self._read_children([each for each in self.jobs if each in self.awaited])

    async def _lock_next(self, completing: Sequence[JobId]) -> None:
        await self._read_children([each for each in completing if each not in self._children])
        await self.lock(child for each in completing for child in self._children[each])

    async def _read_children(self, parents: Sequence[JobId]) -> None:
        if parents:
            for parent, child in await self._statements.fetch(QUERIES.find_children, parents):
                self._children[parent].append(child)

    async def _read_beside(self) -> None:
        """What else those wait for that may be released."""
        waiting = [job for job in self.jobs.values() if job.status is JobStatus.PENDING]
        beside = {each for job in waiting for each in job.dependencies} - self.jobs.keys()
        if beside:
            rows = await self._statements.fetch(QUERIES.read_jobs, known_ids(beside))
            self._beside = decode_jobs(rows).jobs

    def _concerned_by(self, ended: Job) -> list[Job]:
        """All jobs on which it depends what the end of this one means for others."""
        if ended.status is not JobStatus.COMPLETED:
            return list(self.jobs.values())
        children = [self.jobs[each] for each in self._children[ended.id] if each in self.jobs]
        known = {**self._beside, **self.jobs}
        beside = {each for job in children for each in job.dependencies}
        return [*children, *(known[each] for each in beside if each in known)]
