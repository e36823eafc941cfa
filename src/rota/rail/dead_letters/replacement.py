"""New jobs in the place of dead ones: what is dead stays dead, and is named by its successor."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from rota.effects.record import RETRY_MARK
from rota.jobs import Ending, Job, JobId, JobStatus, derive_job_id

_RETRIED = frozenset({Ending.EXHAUSTED, Ending.LOST, Ending.DISCARDED})


class Resubmission(msgspec.Struct, frozen=True):
    """What a retry would do: the dead jobs, and those that were blocked because of them."""

    dead: tuple[Job, ...]
    blocked: tuple[Job, ...] = ()

    @property
    def jobs(self) -> tuple[Job, ...]:
        return (*self.dead, *self.blocked)


def is_dead(job: Job) -> bool:
    """Whether the job ended without having done its work, and not because somebody wished so."""
    return job.status is JobStatus.FAILED and job.ending in _RETRIED


def find_blocked(dead: Iterable[Job], blocked: Iterable[Job]) -> tuple[Job, ...]:
    """Those among ``blocked`` that wait, directly or through others, for one of the dead.

    A blocked job that also waits for another failure is among them: it stays blocked by that.
    """
    waiting = {job.id: job for job in blocked}
    dependents: dict[JobId, list[JobId]] = {}
    for job in waiting.values():
        for each in job.dependencies:
            dependents.setdefault(each, []).append(job.id)
    found: dict[JobId, Job] = {}
    left = [each for job in dead for each in dependents.get(job.id, ())]
    while left:
        job_id = left.pop()
        if job_id not in found:
            found[job_id] = waiting[job_id]
            left.extend(dependents.get(job_id, ()))
    return tuple(sorted(found.values(), key=lambda job: job.id))


def replacement_id(job: Job) -> JobId:
    """The id of the job that stands in the place of an ended one, if it was ever retried."""
    return derive_job_id(f"{job.id}{RETRY_MARK}", job.updated_at)


def replace_jobs(resubmission: Resubmission, now: datetime) -> list[Job]:
    """The new jobs, one for each, which depend on each other as the old ones did."""
    new_ids = {job.id: replacement_id(job) for job in resubmission.jobs}
    made = [_replace(job, new_ids, now, dependencies=()) for job in resubmission.dead]
    made += [
        _replace(job, new_ids, now, dependencies=job.dependencies) for job in resubmission.blocked
    ]
    return made


def _replace(
    job: Job, new_ids: Mapping[JobId, JobId], now: datetime, dependencies: tuple[JobId, ...]
) -> Job:
    """A clean slate. A second replacement of the same job would be the same job.

    What is dead had no open dependencies any more; and its series has gone on without it. It is
    kept when it is done, whatever the old one wished: it shows that the old one was seen to.
    """
    occurrence = (job.occurrence or "").partition(RETRY_MARK)[0]
    return Job(
        id=new_ids[job.id],
        tenant=job.tenant,
        queue=job.queue,
        name=job.name,
        kind=job.kind,
        payload=job.payload,
        priority=job.priority,
        due_at=now,
        status=JobStatus.READY,
        dependencies=tuple(new_ids.get(each, each) for each in dependencies),
        retry_policy=job.retry_policy,
        idempotency_key=job.idempotency_key or job.id,
        occurrence=f"{occurrence}{RETRY_MARK}{job.id}",
        occurrence_at=job.occurrence_at,
        replaces=job.id,
        created_at=now,
        updated_at=now,
    )
