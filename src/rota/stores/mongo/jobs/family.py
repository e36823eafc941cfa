"""Jobs that are about to change together, with all those for whom that means something.

What is read here is written at the version at which it was read, or not at all. Whoever comes to
depend on a job writes that job, and a job that ends writes all who wait for it, moved or not: by
that two who would otherwise not know of each other meet.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from rota.jobs import Job, JobId, JobStatus, decide_dependents
from rota.stores.mongo.gateway import Gateway
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.rows import Kept, decode_kept, stage_kept, stage_removal
from rota.stores.mongo.jobs.shelf import find_free, read_kept
from rota.stores.mongo.steps.step import StagedWrite

_WAITING = {"status": str(JobStatus.PENDING)}


class Family:
    """Jobs by id, as they are and then as they will be; nothing is written here."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._waiting: defaultdict[JobId, dict[JobId, None]] = defaultdict(dict)
        self._dependents: dict[JobId, set[JobId]] = {}
        self._touched: dict[JobId, None] = {}
        self._gone: set[JobId] = set()
        self.jobs: dict[JobId, Kept] = {}

    def adopt(self, found: Iterable[Kept]) -> None:
        """Know these jobs. What was read first counts: if it has changed, writing it fails."""
        for kept in found:
            self.jobs.setdefault(kept.job.id, kept)

    def get(self, job_id: JobId) -> Kept | None:
        """The job as it will be; None when there is none, or it will be gone."""
        return None if job_id in self._gone else self.jobs.get(job_id)

    async def read(self, job_ids: Iterable[JobId]) -> None:
        """Know these jobs; those that do not exist are not there."""
        self.adopt((await read_kept(self._gateway, set(job_ids) - self.jobs.keys())).values())

    async def read_waiting(self, ending: Iterable[Job]) -> None:
        """Know whoever waits for these, which are about to end: as many as it takes to decide.

        Every level of descendants is one query, or one for each ``VALUES_AT_ONCE`` of a level. What
        else somebody waits for is read last: who ends meanwhile writes the one who waits.
        """
        awaited = [job for job in ending if job.status.is_terminal and self._is_awaited(job.id)]
        completed = {job.id for job in awaited if job.status is JobStatus.COMPLETED}
        reached = {job.id for job in awaited} - completed
        seen: set[JobId] = set()
        while reached:
            seen |= reached
            reached = set(await self._find_waiting(reached)) - seen
        await self._find_waiting(completed - seen)
        children = {child for each in completed for child in self._waiting[each]}
        await self.read(each for child in children for each in self._dependencies(child))

    async def read_parents(self, job_ids: Iterable[JobId]) -> None:
        """Know these, on which jobs depend that may go, and all that depend on them."""
        named = set(job_ids)
        await self.read(named)
        parents = sorted(named & self.jobs.keys())
        for each in parents:
            self._dependents.setdefault(each, set())
        for start in range(0, len(parents), queries.VALUES_AT_ONCE):
            some = queries.dependents_of(parents[start : start + queries.VALUES_AT_ONCE])
            for raw in await self._gateway.find(some._replace(fields=["dependencies"])):
                for each in self._dependents.keys() & set(raw["dependencies"]):
                    self._dependents[each].add(raw["_id"])

    def put(self, kept: Kept) -> None:
        """The job as it will be."""
        self.jobs[kept.job.id] = kept
        self._touched[kept.job.id] = None

    def settle_dependents(self, ended: Job, now: datetime) -> list[Job]:
        """Those who are released or blocked by the end of a job; nobody if it has not ended."""
        if not ended.status.is_terminal:
            return []
        waiting = self._waiting_for(ended)
        beside = {each for kept in waiting for each in kept.job.dependencies} & self.jobs.keys()
        known = {each: self.jobs[each].job for each in beside}
        known |= {kept.job.id: kept.job for kept in waiting}
        moved = {each.job.id: each.job for each in decide_dependents(ended, known.values(), now)}
        for kept in waiting:
            self.put(kept._replace(job=moved.get(kept.job.id, kept.job)))
        return list(moved.values())

    def remove(self, job_id: JobId) -> None:
        """The job will be gone, and let go of all on which it depends."""
        self._gone.add(job_id)
        self._touched[job_id] = None
        self.let_go(job_id, self._dependencies(job_id))

    def let_go(self, job_id: JobId, parents: Iterable[JobId]) -> None:
        """The job will not depend on these any more; perhaps nobody does.

        They are written in any case: so two that let go of them at the same time meet.
        """
        for each in self._dependents.keys() & set(parents):
            self._dependents[each].discard(job_id)
            self.put(self.jobs[each]._replace(is_awaited=bool(self._dependents[each])))

    def plan_writes(self, now: datetime) -> list[StagedWrite]:
        """What is to be written of all that has been put or removed."""
        return [
            stage_removal(self.jobs[each])
            if each in self._gone
            else stage_kept(self.jobs[each], now)
            for each in self._touched
        ]

    def list_ready(self) -> list[Job]:
        """Those that will be written, and are READY."""
        kept = (self.jobs[each].job for each in self._touched if each not in self._gone)
        return [job for job in kept if job.status is JobStatus.READY]

    async def _find_waiting(self, job_ids: Collection[JobId]) -> list[JobId]:
        """The PENDING jobs that depend on one of these."""
        wanted = sorted(job_ids)
        found: dict[JobId, None] = {}
        for start in range(0, len(wanted), queries.VALUES_AT_ONCE):
            some = wanted[start : start + queries.VALUES_AT_ONCE]
            for raw in await find_free(self._gateway, queries.dependents_of(some, **_WAITING)):
                kept = decode_kept(raw)
                self.adopt([kept])
                found[kept.job.id] = None
                for each in kept.job.dependencies:
                    self._waiting[each][kept.job.id] = None
        return list(found)

    def _is_awaited(self, job_id: JobId) -> bool:
        return job_id in self.jobs and self.jobs[job_id].is_awaited

    def _dependencies(self, job_id: JobId) -> Sequence[JobId]:
        return self.jobs[job_id].job.dependencies if job_id in self.jobs else ()

    def _waiting_for(self, ended: Job) -> list[Kept]:
        """Those who name it; when it has not completed, also those who name these, and so on."""
        found = dict.fromkeys(self._waiting[ended.id])
        reached = [] if ended.status is JobStatus.COMPLETED else list(found)
        while reached:
            new = [each for each in self._waiting[reached.pop()] if each not in found]
            found |= dict.fromkeys(new)
            reached += new
        return [self.jobs[each] for each in found]
