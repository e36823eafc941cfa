"""Which of the submitted jobs exist already, which are refused, and the status of each new one."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from rota.errors import DependencyCycleError
from rota.jobs import Job, JobId, JobStatus, detect_cycle, place_job
from rota.stores.kernel.identity import Identity, check_duplicate, identity_of
from rota.stores.protocol import Inserted

Statuses: TypeAlias = Mapping[tuple[str, JobId], JobStatus]
"""By tenant and id: a job cannot depend on a job of another tenant."""


class Kept(msgspec.Struct, frozen=True):
    """The stored jobs that new jobs may clash with or depend on."""

    by_id: Mapping[JobId, Job]
    by_identity: Mapping[Identity, Job]
    statuses: Statuses


def plan_insertion(jobs: Sequence[Job], kept: Kept) -> list[Inserted]:
    """For each job in turn the job as stored; raises what ``JobStore.insert`` promises."""
    if len(jobs) == 1 and not (jobs[0].dependencies or kept.by_id or kept.by_identity):
        return [Inserted(place_job(jobs[0], {}))]
    chosen, existing = _find_duplicates(jobs, kept)
    stand_ins = {asked.id: one.id for asked, one in zip(jobs, chosen, strict=True)}
    new = {one.id: _redirected(one, stand_ins) for one in chosen if one.id not in existing}
    placed = _place(new, kept.statuses)
    seen: set[JobId] = set(existing)
    answers: list[Inserted] = []
    for one in chosen:
        answers.append(Inserted(placed.get(one.id, one), one.id in seen))
        seen.add(one.id)
    return answers


def _find_duplicates(jobs: Sequence[Job], kept: Kept) -> tuple[list[Job], set[JobId]]:
    """For each job the one that is stored for it, and the ids of those that existed before."""
    by_id, by_identity = dict(kept.by_id), dict(kept.by_identity)
    existing: set[JobId] = set()
    chosen: list[Job] = []
    new: set[JobId] = set()
    for job in jobs:
        identity = identity_of(job)
        found = by_id.get(job.id) or (by_identity.get(identity) if identity else None)
        if found is None:
            found = by_id[job.id] = job
            new.add(job.id)
            if identity:
                by_identity[identity] = job
        else:
            check_duplicate(job, found)
            existing |= {found.id} - new
        chosen.append(found)
    return chosen, existing


def _redirected(job: Job, stand_ins: Mapping[JobId, JobId]) -> Job:
    """A dependency on a duplicate in the same call becomes one on the existing job."""
    if not job.dependencies:
        return job
    dependencies = tuple(dict.fromkeys(stand_ins.get(each, each) for each in job.dependencies))
    return job if dependencies == job.dependencies else replace(job, dependencies=dependencies)


def _place(new: Mapping[JobId, Job], outside: Statuses) -> dict[JobId, Job]:
    """Each new job with its status, dependencies first."""
    placed: dict[JobId, Job] = {}
    statuses = dict(outside)
    for job in _in_order_of_dependence(new):
        known = {
            each: statuses[job.tenant, each]
            for each in job.dependencies
            if (job.tenant, each) in statuses
        }
        placed[job.id] = place_job(job, known)
        statuses[job.tenant, job.id] = placed[job.id].status
    return placed


def _in_order_of_dependence(new: Mapping[JobId, Job]) -> Iterable[Job]:
    """Dependencies before dependents; DependencyCycleError if there is no such order."""
    dependents: defaultdict[JobId, list[JobId]] = defaultdict(list)
    open_counts: dict[JobId, int] = {}
    for job in new.values():
        inside = [each for each in job.dependencies if each in new]
        open_counts[job.id] = len(inside)
        for each in inside:
            dependents[each].append(job.id)
    order = [job_id for job_id, count in open_counts.items() if not count]
    for job_id in order:  # grows while it is walked
        for dependent in dependents[job_id]:
            open_counts[dependent] -= 1
            if not open_counts[dependent]:
                order.append(dependent)
    if len(order) < len(new):
        stuck = next(job_id for job_id, count in open_counts.items() if count)
        edges = {job.id: job.dependencies for job in new.values()}
        raise DependencyCycleError(detect_cycle(stuck, edges[stuck], edges).cycle_path)
    return [new[job_id] for job_id in order]
