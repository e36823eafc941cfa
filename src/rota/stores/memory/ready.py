"""READY jobs by tenant and queue: due ones in the order of leasing, others by due time.

Entries are not removed at once. An entry that no longer matches its job is dropped when met.
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import TypeAlias

from rota.jobs import Job, JobId, JobStatus, aged_key, is_due, order_key
from rota.stores.kernel.unit import Partition
from rota.stores.protocol import LOOK_AHEAD, LeaseRequest, is_chosen

Accepts: TypeAlias = Callable[[str, str | None], bool]
Entry: TypeAlias = tuple[tuple[int, datetime, JobId], JobId]


class ReadyPartition:
    """One queue of one tenant, with a heap of due jobs for each priority."""

    def __init__(self, jobs: Mapping[JobId, Job], tenant: str, queue: str) -> None:
        self._jobs = jobs
        self._partition = tenant, queue
        self._by_priority: dict[int, list[Entry]] = {}
        self._later: list[tuple[datetime, JobId]] = []

    def add(self, job: Job) -> None:
        heapq.heappush(self._later, (job.due_at, job.id))

    def first_due(self, now: datetime) -> Job | None:
        """The first job; it stays in place."""
        self._mark_due(now)
        for priority in sorted(self._by_priority, reverse=True):
            job = self._first_of(self._by_priority[priority], now)
            if job is not None:
                return job
        return None

    def first_jobs(self, now: datetime, count: int, accepts: Accepts | None) -> list[Job]:
        """The first jobs in order; they stay in place."""
        self._mark_due(now)
        found: list[Job] = []
        look_ahead = count if accepts is None else LOOK_AHEAD
        for priority in sorted(self._by_priority, reverse=True):
            found += self._peek(self._by_priority[priority], now, look_ahead - len(found))
        return _accepted(found, accepts)[:count]

    def first_aged(
        self, now: datetime, count: int, step: timedelta, accepts: Accepts | None
    ) -> list[Job]:
        """As ``first_jobs``, in the order of ageing.

        The first jobs of each priority are enough: of two with the same priority, the older one
        never ages less.
        """
        self._mark_due(now)
        look_ahead = count if accepts is None else LOOK_AHEAD
        levels = self._by_priority.values()
        seen = [job for level in levels for job in self._peek(level, now, look_ahead)]
        found = _accepted(seen, accepts)
        return sorted(found, key=lambda job: aged_key(job, step, now))[:count]

    def next_due_at(self, now: datetime) -> datetime | None:
        if self.first_due(now) is not None:
            return now
        while self._later:
            due_at, job_id = self._later[0]
            if self._fits(due_at, job_id):
                return due_at
            heapq.heappop(self._later)
        return None

    def _mark_due(self, now: datetime) -> None:
        while self._later and self._later[0][0] <= now:
            due_at, job_id = heapq.heappop(self._later)
            if self._fits(due_at, job_id):
                self._add_due(self._jobs[job_id])

    def _add_due(self, job: Job) -> None:
        heapq.heappush(self._by_priority.setdefault(job.priority, []), (order_key(job), job.id))

    def _first_of(self, level: list[Entry], now: datetime) -> Job | None:
        while level:
            key, job_id = level[0]
            job = self._find(job_id)
            if job is not None and order_key(job) == key and is_due(job, now):
                return job
            heapq.heappop(level)
            if job is not None:  # amended, or the clock was set back: it may become due again
                self.add(job)
        return None

    def _peek(self, level: list[Entry], now: datetime, count: int) -> list[Job]:
        found: dict[JobId, Job] = {}
        while len(found) < count and (job := self._first_of(level, now)) is not None:
            found[job.id] = job  # a job that was leased and returned has two entries
            heapq.heappop(level)
        for job in found.values():
            self._add_due(job)
        return list(found.values())

    def _fits(self, due_at: datetime, job_id: JobId) -> bool:
        job = self._find(job_id)
        return job is not None and job.due_at == due_at

    def _find(self, job_id: JobId) -> Job | None:
        job = self._jobs.get(job_id)
        if job is None or job.status is not JobStatus.READY:
            return None
        return job if (job.tenant, job.queue) == self._partition else None


def _accepted(jobs: list[Job], accepts: Accepts | None) -> list[Job]:
    return jobs if accepts is None else [job for job in jobs if accepts(job.kind, job.label)]


class ReadyJobs:
    """All partitions. ``jobs`` decides whether an entry still matches."""

    def __init__(self, jobs: Mapping[JobId, Job]) -> None:
        self._jobs = jobs
        self._partitions: dict[str, dict[str, ReadyPartition]] = {}

    def add(self, job: Job) -> None:
        partitions = self._partitions.setdefault(job.tenant, {})
        if job.queue not in partitions:
            partitions[job.queue] = ReadyPartition(self._jobs, job.tenant, job.queue)
        partitions[job.queue].add(job)

    def tenants_due(
        self, now: datetime, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> list[str]:
        """The tenants with a due job."""
        chosen = [tenant for tenant in self._partitions if is_chosen(tenant, tenants)]
        return [tenant for tenant in chosen if self.first_due(tenant, queues, now) is not None]

    def partitions_due(
        self, tenant: str, queues: Collection[str] | None, now: datetime
    ) -> list[str]:
        """The queues, among these, in which the tenant has a due job."""
        chosen = self._partitions[tenant].items()
        return [
            queue
            for queue, partition in chosen
            if is_chosen(queue, queues) and partition.first_due(now) is not None
        ]

    def first_jobs(
        self, partition: Partition, now: datetime, count: int, request: LeaseRequest
    ) -> list[Job]:
        """The first due jobs of a partition that the request accepts, in its order."""
        tenant, queue = partition
        ready, step = self._partitions[tenant][queue], (request.ageing or {}).get(queue)
        accepts = request.accepts if request.is_selective else None
        if step is None:
            return ready.first_jobs(now, count, accepts)
        return ready.first_aged(now, count, step, accepts)

    def first_of_tenant(self, tenant: str, now: datetime, request: LeaseRequest) -> list[Job]:
        """The tenant's first jobs in the queues of the request, as many as it wants."""
        heads = [
            it.first_jobs(now, request.limit, None) for it in self._chosen(tenant, request.queues)
        ]
        if len(heads) == 1:
            return heads[0]
        return sorted(chain.from_iterable(heads), key=order_key)[: request.limit]

    def first_due(self, tenant: str, queues: Collection[str] | None, now: datetime) -> Job | None:
        """The tenant's first job in these queues."""
        heads = (partition.first_due(now) for partition in self._chosen(tenant, queues))
        return min((job for job in heads if job is not None), key=order_key, default=None)

    def next_due_at(
        self, now: datetime, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> datetime | None:
        found = [
            partition.next_due_at(now)
            for tenant in self._partitions
            if is_chosen(tenant, tenants)
            for partition in self._chosen(tenant, queues)
        ]
        return min((due_at for due_at in found if due_at is not None), default=None)

    def _chosen(self, tenant: str, queues: Collection[str] | None) -> Iterator[ReadyPartition]:
        partitions = self._partitions[tenant]
        return (partition for queue, partition in partitions.items() if is_chosen(queue, queues))
