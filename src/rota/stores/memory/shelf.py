"""Jobs in a dictionary, with the indexes that the verbs need."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from rota.jobs import Attempt, Job, JobId, JobStatus
from rota.stores.jobs.duplicates import Identity, identity_of
from rota.stores.memory.ready import ReadyJobs


class Shelf:
    """What is kept. Every job goes in and out through ``put`` and ``remove``."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.ready = ReadyJobs(self.jobs)
        self.leased: dict[JobId, Job] = {}
        self.identities: dict[Identity, JobId] = {}
        self.attempts: defaultdict[JobId, list[Attempt]] = defaultdict(list)
        self._dependents: defaultdict[JobId, set[JobId]] = defaultdict(set)

    def put(self, job: Job) -> None:
        """Keep the job, in the place of what was kept under its id."""
        self._forget(job.id)
        self.jobs[job.id] = job
        identity = identity_of(job)
        if identity is not None:
            self.identities[identity] = job.id
        for dependency in job.dependencies:
            self._dependents[dependency].add(job.id)
        if job.lease is not None:
            self.leased[job.id] = job
        if job.status is JobStatus.READY:
            self.ready.add(job)

    def remove(self, job_id: JobId) -> None:
        self._forget(job_id)
        del self.jobs[job_id]
        self.attempts.pop(job_id, None)

    def find(self, tenant: str, job_id: JobId) -> Job | None:
        """The job, if it is the tenant's."""
        job = self.jobs.get(job_id)
        return job if job is not None and job.tenant == tenant else None

    def find_twin(self, job: Job) -> Job | None:
        """The job that has this one's identity, be it this one itself."""
        identity = identity_of(job)
        found = None if identity is None else self.identities.get(identity)
        return None if found is None else self.jobs[found]

    def dependents(self, job_id: JobId) -> set[JobId]:
        return self._dependents.get(job_id, set())

    def concerned_by(self, ended: Job) -> list[Job]:
        """All jobs on which it depends what the end of this one means for others."""
        if ended.status is JobStatus.COMPLETED:
            waiting = [self.jobs[each] for each in self.dependents(ended.id)]
            beside = {each for job in waiting for each in job.dependencies}
            return [*waiting, *(self.jobs[each] for each in beside if each in self.jobs)]
        return self._descendants(self.dependents(ended.id))

    def _descendants(self, job_ids: Iterable[JobId]) -> list[Job]:
        """These and all that depend on them, as far as they are still waiting."""
        found: dict[JobId, Job] = {}
        left = list(job_ids)
        while left:
            job = self.jobs[left.pop()]
            if job.id not in found and job.status is JobStatus.PENDING:
                found[job.id] = job
                left.extend(self.dependents(job.id))
        return list(found.values())

    def _forget(self, job_id: JobId) -> None:
        """Take the job out of every index."""
        before = self.jobs.get(job_id)
        if before is None:
            return
        self.leased.pop(job_id, None)
        identity = identity_of(before)
        if identity is not None:
            del self.identities[identity]
        for dependency in before.dependencies:
            self._dependents[dependency].discard(job_id)
            if not self._dependents[dependency]:
                del self._dependents[dependency]


def copied(job: Job) -> Job:
    """The job with a payload of its own: nobody changes what is kept by changing what he holds."""
    return replace(job, payload=_copy(job.payload))


def _copy(payload: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(payload))
