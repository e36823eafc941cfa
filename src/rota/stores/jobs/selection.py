"""Who gets the places of a lease under limits: the reference every store is tested against.

A lease comes about in rounds. A round looks at as many tenants, in their turns, as jobs are wanted;
only at such with a due job for which there is a place. They are served one by one, each with its
first job for which there still is a place, until all have had an equal part. Rounds follow each
other until there are jobs enough, or nobody is left. So a place that many want goes round, and a
tenant or queue without one is passed over.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rota.jobs import JobId, age_priority
from rota.stores.jobs.caps import Room


class Candidate(NamedTuple):
    """A job that may be handed out, and where it stands among those of its tenant."""

    key: tuple[int, datetime, JobId]
    tenant: str
    queue: str

    @property
    def job_id(self) -> JobId:
        return self.key[-1]


class Standing(NamedTuple):
    """What is known of a job that waits in line."""

    job_id: JobId
    tenant: str
    queue: str
    priority: int
    created_at: datetime


def make_candidate(
    job: Standing, ageing: Mapping[str, timedelta] | None, now: datetime
) -> Candidate:
    """The job as a candidate; its key is that of ``rota.jobs.aged_key``."""
    step = None if ageing is None else ageing.get(job.queue)
    priority = age_priority(job.priority, job.created_at, step, now)
    return Candidate((-priority, job.created_at, job.job_id), job.tenant, job.queue)


def part_of(limit: int, tenant_count: int) -> int:
    """How many jobs a tenant is given in a round: so many of each lane have to be looked at."""
    return max(1, limit // tenant_count)


def choose_jobs(
    tenants: Sequence[str], candidates: Iterable[Candidate], limit: int, room: Room
) -> list[Candidate]:
    """The jobs of one round; their places are taken.

    ``candidates`` are the first ``part_of`` jobs of every lane in which these tenants, in their
    turns, have something due, in any order.
    """
    mine: dict[str, list[Candidate]] = {tenant: [] for tenant in tenants}
    for candidate in candidates:
        mine[candidate.tenant].append(candidate)
    waiting = [iter(sorted(each)) for each in mine.values()]
    chosen: list[Candidate] = []
    for _ in range(part_of(limit, len(tenants))):
        for jobs in waiting:
            if len(chosen) == limit:
                return chosen
            chosen += _take_first(jobs, room)
    return chosen


def _take_first(jobs: Iterator[Candidate], room: Room) -> list[Candidate]:
    """The next job with a place. Those passed over stay so: in a round there is never more room."""
    for job in jobs:
        if room.has_place(job.tenant, job.queue):
            room.take(job.tenant, job.queue)
            return [job]
    return []
