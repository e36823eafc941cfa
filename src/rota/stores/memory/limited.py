"""The kernel's queries for ``lease`` under limits."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from rota.jobs import Job, decide_lease
from rota.stores.kernel.limits import (
    CountRunning,
    FindFirst,
    FindPartitions,
    Standing,
    TakeJobs,
    scopes_of,
)
from rota.stores.kernel.turns import order_turns
from rota.stores.kernel.unit import Partition, Query
from rota.stores.memory.tables import JobTables, copied


class LimitedQueries:
    """Answers at one instant."""

    def __init__(self, tables: JobTables, now: datetime) -> None:
        self._tables = tables
        self._now = now
        self._answers: dict[type, Callable[[Any], Any]] = {
            CountRunning: lambda _: tables.count_running(),
            FindPartitions: self._find_partitions,
            FindFirst: self._find_first,
            TakeJobs: self._take,
        }

    def answer(self, query: Query) -> Any:
        return self._answers[type(query)](query)

    def _find_partitions(self, query: FindPartitions) -> list[Partition]:
        request, ready, full = query.request, self._tables.ready, set(query.full)
        found: list[Partition] = []
        tenant_count = 0
        due = ready.tenants_due(self._now, request.queues, request.tenants)
        for tenant in order_turns(due, request.after_tenant):
            mine = [
                (tenant, queue)
                for queue in ready.partitions_due(tenant, request.queues, self._now)
                if full.isdisjoint(scopes_of(tenant, queue))
            ]
            found += mine
            tenant_count += bool(mine)
            if tenant_count == query.limit:
                break
        return found

    def _find_first(self, query: FindFirst) -> list[Standing]:
        ageing = query.request.ageing or {}
        return [
            Standing(job.id, job.tenant, job.queue, job.priority, job.created_at)
            for tenant, queue in query.partitions
            for job in self._tables.ready.first_jobs(
                tenant, queue, self._now, query.job_count, ageing.get(queue)
            )
        ]

    def _take(self, query: TakeJobs) -> list[Job]:
        request = query.request
        taken: list[Job] = []
        for candidate in query.chosen:
            job = self._tables.jobs[candidate.job_id]
            leased = decide_lease(job, request.worker, request.lease_for, self._now).job
            self._tables.put(leased)
            taken.append(copied(leased))
        return taken
