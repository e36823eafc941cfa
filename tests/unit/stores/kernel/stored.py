"""Jobs that answer the queries of a plan, without a store."""

from collections.abc import Collection, Iterator
from typing import Any

from rota.errors import DamagedJobError
from rota.jobs import Job, JobId, JobStatus
from rota.stores.kernel.identity import identity_of
from rota.stores.kernel.unit import (
    Decision,
    Ended,
    Plan,
    ReadAncestors,
    ReadDependents,
    ReadEnded,
    ReadJobs,
    ReadStatuses,
    ReadTwins,
    ReadWaiting,
    Stored,
    Waiting,
    run,
)


class StoredJobs:
    """Answers as a store does that keeps these jobs, of which some cannot be read."""

    def __init__(self, *jobs: Job, damaged: Collection[JobId] = ()) -> None:
        self._jobs = {job.id: job for job in jobs}
        self._damaged = damaged

    def decide(self, plan: Plan[Any]) -> Decision[Any]:
        return run(plan, self.answer)

    def answer(self, query: Any) -> Any:  # noqa: PLR0911 - one for each query
        match query:
            case ReadJobs():
                return self._read(query)
            case ReadStatuses(wanted):
                return {each: self._jobs[each].status for each in wanted if each in self._jobs}
            case ReadTwins(identities):
                return [job for job in self._jobs.values() if identity_of(job) in identities]
            case ReadDependents(wanted):
                return {each: set(self._dependents(each)) for each in wanted}
            case ReadWaiting(parents, is_deep):
                return list(self._waiting(parents, is_deep=is_deep))
            case ReadAncestors():
                return {job.id: job.dependencies for job in self._jobs.values()}
            case ReadEnded(before, limit, after):
                later = [each for each in self._ended() if tuple(each)[:2] > tuple(after)]
                return sorted(each for each in later if each.ended_at < before)[:limit]
        raise AssertionError(query)

    def _read(self, query: ReadJobs) -> dict[JobId, Stored]:
        damaged = set(query.job_ids) & set(self._damaged)
        if damaged and not query.skips_damaged:
            raise DamagedJobError(min(damaged), "not JSON")
        found = [self._jobs[each] for each in query.job_ids if each in self._jobs]
        return {
            job.id: Stored(job, bool(self._dependents(job.id)))
            for job in found
            if job.id not in damaged
        }

    def _ended(self) -> list[Ended]:
        return [
            Ended(job.updated_at, job.id, job.dependencies)
            for job in self._jobs.values()
            if job.status.is_terminal and not self._dependents(job.id)
        ]

    def _dependents(self, parent: JobId) -> list[JobId]:
        return [job.id for job in self._jobs.values() if parent in job.dependencies]

    def _waiting(self, parents: Collection[JobId], *, is_deep: bool) -> Iterator[Waiting]:
        reached = set(parents)
        pending = [job for job in self._jobs.values() if job.status is JobStatus.PENDING]
        while is_deep and (
            more := {job.id for job in pending if reached & set(job.dependencies)} - reached
        ):
            reached |= more
        for job in pending:
            near = tuple(each for each in job.dependencies if each in reached)
            waits_for = [self._jobs[each] for each in job.dependencies]
            open_count = sum(each.status is not JobStatus.COMPLETED for each in waits_for)
            if near:
                place = (job.id, job.tenant, job.queue, job.due_at)
                yield Waiting(*place, open_count, near, job.on_parent_failure)
