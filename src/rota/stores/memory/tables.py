"""Jobs in a dictionary, with the indexes that the store needs, and the kernel's queries on them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice

import msgspec
from msgspec.structs import replace

from rota.jobs import Attempt, Job, JobId, JobStatus, decide_lease
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.kernel.limits import (
    Candidate,
    Standing,
    scopes_of,
)
from rota.stores.kernel.records import JobPortion, cut_at_size
from rota.stores.kernel.settlement import apply_placed
from rota.stores.kernel.turns import order_turns
from rota.stores.kernel.unit import (
    Amended,
    Ended,
    NewJob,
    Partition,
    Placed,
    Stored,
    Waiting,
    Writes,
)
from rota.stores.memory.ready import ReadyJobs
from rota.stores.protocol import (
    CapScope,
    Document,
    EndedPlace,
    KeptDocument,
    KeptJob,
    LeaseRequest,
    UnreadableJob,
)


class JobTables:
    """All jobs. Every job is written through ``put`` and ``remove``, which keep the indexes."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.ready = ReadyJobs(self.jobs)
        self.leased: dict[JobId, Job] = {}
        self.by_status: dict[JobStatus, dict[JobId, Job]] = {it: {} for it in JobStatus}
        self.attempts: defaultdict[JobId, list[Attempt]] = defaultdict(list)
        self._identities: dict[Identity, JobId] = {}
        self._dependents: defaultdict[JobId, set[JobId]] = defaultdict(set)
        self._open_counts: dict[JobId, int] = {}
        self.results: dict[JobId, bytes] = {}
        self.unreadable: dict[JobId, bytes] = {}

    def commit(self, writes: Writes) -> None:
        """Write what a plan has decided."""
        for new in writes.new.values():
            self._create(new)
        for job in writes.moved.values():
            self.put(job)
        for amended in writes.amended.values():
            self._amend(amended)
        for placed in writes.placed.values():
            self._place(placed, writes.now)
        self.results |= writes.results
        for attempt in writes.attempts:
            self.attempts[attempt.job_id].append(attempt)
        self._remove_all(writes)

    def _remove_all(self, writes: Writes) -> None:
        for job_id in writes.without_results:
            self.results.pop(job_id, None)
        for job_id in writes.without_attempts:
            self.attempts.pop(job_id, None)
        for job_id in writes.removed:
            self.remove(job_id)

    def _create(self, new: NewJob) -> None:
        self.put(copied(new.job))
        if new.open_count:
            self._open_counts[new.job.id] = new.open_count
        if new.unreadable is not None:
            self.unreadable[new.job.id] = new.unreadable

    def _amend(self, amended: Amended) -> None:
        self.put(amended.job)
        if amended.open_count is not None:
            self._open_counts[amended.job.id] = amended.open_count

    def _place(self, placed: Placed, now: datetime) -> None:
        job_id = placed.waiting.job_id
        self._open_counts[job_id] = placed.open_count
        if placed.status is not JobStatus.PENDING:
            self.put(apply_placed(self.jobs[job_id], placed, now))

    def put(self, job: Job) -> None:
        """Store the job in place of the one with its id."""
        self._forget(job.id)
        self.jobs[job.id] = job
        self.by_status[job.status][job.id] = job
        identity = identity_of(job)
        if identity is not None:
            self._identities[identity] = job.id
        for dependency in job.dependencies:
            self._dependents[dependency].add(job.id)
        if job.lease is not None:
            self.leased[job.id] = job
        if job.status is JobStatus.READY:
            self.ready.add(job)

    def lease(self, job: Job, request: LeaseRequest, now: datetime) -> Job:
        """Lease the job to the caller of the request; returns a copy."""
        leased = decide_lease(job, request.worker, request.lease_for, now).job
        self.put(leased)
        return copied(leased)

    def remove(self, job_id: JobId) -> None:
        self._forget(job_id)
        del self.jobs[job_id]
        self.attempts.pop(job_id, None)
        self.results.pop(job_id, None)
        self._open_counts.pop(job_id, None)
        self.unreadable.pop(job_id, None)

    def find(self, tenant: str, job_id: JobId) -> Job | None:
        """The job, if it is the tenant's."""
        job = self.jobs.get(job_id)
        return job if job is not None and job.tenant == tenant else None

    def select(self, *statuses: JobStatus | None) -> Iterable[Job]:
        """The jobs that have one of these statuses; all jobs for None."""
        if None in statuses:
            return self.jobs.values()
        return chain.from_iterable(self.by_status[it].values() for it in statuses if it)

    def dependents(self, job_id: JobId) -> Collection[JobId]:
        return self._dependents.get(job_id, ())

    def count_running(self) -> Counter[Partition]:
        return Counter((job.tenant, job.queue) for job in self.leased.values())

    def _forget(self, job_id: JobId) -> None:
        """Remove the job from every index."""
        before = self.jobs.get(job_id)
        if before is None:
            return
        self.leased.pop(job_id, None)
        self.by_status[before.status].pop(job_id, None)
        identity = identity_of(before)
        if identity is not None:
            del self._identities[identity]
        for dependency in before.dependencies:
            self._dependents[dependency].discard(job_id)
            if not self._dependents[dependency]:
                del self._dependents[dependency]

    def read_jobs(
        self,
        job_ids: Collection[JobId],
        *,
        skips_damaged: bool,  # noqa: ARG002 - none is ever damaged
    ) -> dict[JobId, Stored]:
        found = (self.jobs[each] for each in job_ids if each in self.jobs)
        return {job.id: Stored(job, job.id in self._dependents) for job in found}

    def read_statuses(self, job_ids: Collection[JobId]) -> dict[JobId, str]:
        return {each: self.jobs[each].status for each in job_ids if each in self.jobs}

    def read_twins(self, identities: Collection[Identity]) -> list[Job]:
        named = (self._identities.get(each) for each in identities)
        return [self.jobs[each] for each in named if each is not None]

    def read_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Waiting]:
        """The cost does not grow with the number of other dependencies of the jobs found."""
        by_child: dict[JobId, list[JobId]] = {}
        reached = list(parents)
        for parent in reached:  # grows while it is walked
            for child in self._waiting_for(parent):
                if child not in by_child and is_deep:
                    reached.append(child)
                by_child.setdefault(child, []).append(parent)
        return [self._describe_waiting(each, found) for each, found in by_child.items()]

    def _waiting_for(self, parent: JobId) -> Iterable[JobId]:
        children = self.dependents(parent)
        return (each for each in children if self.jobs[each].status is JobStatus.PENDING)

    def _describe_waiting(self, job_id: JobId, parents: Sequence[JobId]) -> Waiting:
        job = self.jobs[job_id]
        return Waiting(
            job_id=job_id,
            tenant=job.tenant,
            queue=job.queue,
            due_at=job.due_at,
            open_count=self._open_counts.get(job_id, 0),
            parents=tuple(parents),
            on_parent_failure=job.on_parent_failure,
        )

    def read_dependents(self, job_ids: Collection[JobId]) -> dict[JobId, Collection[JobId]]:
        return {each: self.dependents(each) for each in job_ids}

    def read_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, tuple[JobId, ...]]:
        found: dict[JobId, tuple[JobId, ...]] = {}
        left = [each for each in job_ids if each in self.jobs]
        while left:
            job = self.jobs[left.pop()]
            if job.id not in found:
                found[job.id] = job.dependencies
                left += [each for each in job.dependencies if each in self.jobs]
        return found

    def read_ended(self, before: datetime, limit: int, after: EndedPlace) -> list[Ended]:
        found = [
            Ended(job.updated_at, job.id, job.dependencies)
            for job in self.jobs.values()
            if job.status.is_terminal
            and after < (job.updated_at, job.id)
            and job.updated_at < before
            and job.id not in self._dependents
        ]
        return sorted(found)[:limit]


class LimitedQueries:
    """The kernel's queries for ``lease`` under limits, at one instant."""

    def __init__(self, tables: JobTables, now: datetime) -> None:
        self._tables = tables
        self._now = now

    def count_running(self, request: LeaseRequest) -> Counter[Partition]:  # noqa: ARG002 - all are counted
        return self._tables.count_running()

    def find_partitions(
        self, request: LeaseRequest, limit: int, full: Collection[CapScope]
    ) -> list[Partition]:
        ready, closed = self._tables.ready, set(full)
        found: list[Partition] = []
        tenant_count = 0
        due = ready.tenants_due(self._now, request.queues, request.tenants)
        for tenant in order_turns(due, request.after_tenant):
            mine = [
                (tenant, queue)
                for queue in ready.partitions_due(tenant, request.queues, self._now)
                if closed.isdisjoint(scopes_of(tenant, queue))
            ]
            found += mine
            tenant_count += bool(mine)
            if tenant_count == limit:
                break
        return found

    def find_first(
        self,
        request: LeaseRequest,
        partitions: Sequence[Partition],
        job_count: int,
        passed_over: Sequence[JobId],  # noqa: ARG002 - no other caller takes jobs meanwhile
    ) -> list[Standing]:
        ready = self._tables.ready
        return [
            Standing(job.id, job.tenant, job.queue, job.priority, job.created_at)
            for partition in partitions
            for job in ready.first_jobs(partition, self._now, job_count, request)
        ]

    def take_jobs(self, request: LeaseRequest, chosen: Sequence[Candidate]) -> list[Job]:
        jobs = (self._tables.jobs[each.job_id] for each in chosen)
        return [self._tables.lease(job, request, self._now) for job in jobs]


def read_document_portion(
    collections: Mapping[str, Mapping[str, Document]], after: tuple[str, str], limit: int
) -> Sequence[KeptDocument]:
    """The documents after a collection and key."""
    found = (
        KeptDocument(name, *document)
        for name, documents in sorted(collections.items())
        for _, document in sorted(documents.items())
        if (name, document.key) > after
    )
    return list(cut_at_size(islice(found, limit), lambda document: len(document.body)))


def read_job_portion(tables: JobTables, after: JobId, limit: int) -> JobPortion:
    """The jobs after an id."""
    ids = sorted(each for each in tables.jobs if each > after)[:limit]
    return JobPortion([_read_job(tables, each) for each in ids], ids[-1] if ids else None)


def _read_job(tables: JobTables, job_id: JobId) -> KeptJob | UnreadableJob:
    job = tables.jobs[job_id]
    content = tables.unreadable.get(job_id)
    if content is not None:
        return UnreadableJob(job_id, job.tenant, job.queue, job.dependencies, content)
    attempts = tuple(tables.attempts.get(job_id, ()))
    return KeptJob(copied(job), attempts, tables.results.get(job_id))


def copied(job: Job) -> Job:
    """The job with a payload of its own, so that a caller cannot change the stored one."""
    return replace(job, payload=msgspec.json.decode(msgspec.json.encode(job.payload)))
