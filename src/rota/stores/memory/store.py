"""The store in memory: documents and jobs in dictionaries.

Every call checks first and writes afterwards, without suspending in between, so it is atomic. The
lock is for lease keepers, which call from other threads.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from itertools import islice
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from rota.clock.protocol import to_utc
from rota.jobs import (
    Attempt,
    Change,
    Job,
    JobFilter,
    JobId,
    Page,
    complete_history,
    is_stalled,
    list_jobs,
)
from rota.stores.kernel import edits, settlement
from rota.stores.kernel.limits import lease_chosen, lease_limited, preview_lease
from rota.stores.kernel.records import JobPortion, check_portion, walk
from rota.stores.kernel.turns import order_turns, take_turns
from rota.stores.kernel.unit import Plan, answer_by, run
from rota.stores.kernel.verbs import EditVerbs, narrow
from rota.stores.memory.documents import DocumentVerbs
from rota.stores.memory.tables import (
    JobTables,
    LimitedQueries,
    copied,
    read_document_portion,
    read_job_portion,
)
from rota.stores.protocol import (
    Applied,
    HeldLease,
    Inserted,
    KeptDocument,
    LeaseKeeper,
    LeasePreview,
    LeaseRequest,
    Listener,
    Portion,
    QueueDepth,
    Reach,
    check_choice,
    check_count,
    check_name,
    expiry_key,
)
from rota.stores.survey import SURVEYED, survey_jobs
from rota.stores.wakeups import Wakeups

Answer = TypeVar("Answer")


class MemoryStore(DocumentVerbs, EditVerbs):
    """Lost when the process ends. Only a listener's ``wait`` suspends its caller."""

    reach = Reach.PROCESS

    def __init__(self) -> None:
        super().__init__()
        self._tables = JobTables()
        self._wakeups = Wakeups()
        self._lock = threading.RLock()

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """See ``JobStore.insert``."""
        answers = self._commit(edits.insert(jobs, to_utc(now, "now")))
        return [
            Inserted(copied(answer.job), is_existing=True) if answer.is_existing else answer
            for answer in answers
        ]

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """See ``JobStore.lease``."""
        self._refuse_when_closed()
        now = to_utc(now, "now")

        with self._lock:
            self._version += 1
            queries = LimitedQueries(self._tables, now)
            if request.is_limited:
                return run(lease_limited(request, now), answer_by(queries))
            chosen = self._choose(request, now)
            if chosen is None:
                return run(lease_chosen(request, now), answer_by(queries))
            return [self._tables.lease(job, request, now) for job in chosen]

    def _choose(self, request: LeaseRequest, now: datetime) -> list[Job] | None:
        """The next jobs, tenants in turn; None if the request does not accept one of them."""
        ready, first = self._tables.ready, dict[str, list[Job]]()
        given: Counter[str] = Counter()

        def take(tenant: str, count: int) -> list[Job]:
            if tenant not in first:
                first[tenant] = ready.first_of_tenant(tenant, now, request)
            given[tenant] += count
            return first[tenant][given[tenant] - count : given[tenant]]

        due = ready.tenants_due(now, request.queues, request.tenants)
        chosen = take_turns(order_turns(due, request.after_tenant), request.limit, take)
        return chosen if all(request.accepts(job.kind, job.label) for job in chosen) else None

    async def preview_lease(self, request: LeaseRequest, now: datetime) -> LeasePreview:
        """See ``OpenStore.preview_lease``."""
        self._refuse_when_closed()
        with self._lock:
            queries = LimitedQueries(self._tables, to_utc(now, "now"))
            return run(preview_lease(request), answer_by(queries))

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """See ``JobStore.extend``."""
        self._refuse_when_closed()
        return self._extend_each(held, until, now)

    def make_keeper(self) -> LeaseKeeper:
        """See ``JobStore.make_keeper``."""
        self._refuse_when_closed()
        return _Keeper(self._extend_each)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """See ``JobStore.apply``."""
        self._refuse_when_closed()
        now = to_utc(now, "now")
        answers = self._commit(settlement.apply(changes, now))
        return [
            answer
            if answer.successor is None
            else replace(answer, successor=copied(answer.successor))
            for answer in answers
        ]

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """See ``JobStore.find_expired``."""
        self._refuse_when_closed()
        now = to_utc(now, "now")
        with self._lock:
            found = [job for job in self._tables.leased.values() if is_stalled(job, now)]
        if after is not None:
            found = [job for job in found if expiry_key(job) > expiry_key(after)]
        found.sort(key=expiry_key)
        return [copied(job) for job in found[: check_count(limit)]]

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """See ``JobStore.next_due_at``."""
        self._refuse_when_closed()
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")
        return self._tables.ready.next_due_at(to_utc(now, "now"), queues, tenants)

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """See ``JobStore.listen``."""
        self._refuse_when_closed()
        return self._wakeups.listen(queues, tenants)

    def read_version(self) -> int | None:
        """See ``Watchable``."""
        self._refuse_when_closed()
        return self._version

    def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AbstractAsyncContextManager[Listener]:
        """See ``JobStore.listen_for_end``."""
        self._refuse_when_closed()
        check_name("tenant", tenant)
        return self._wakeups.listen_for_end(job_ids)

    async def results(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
        """See ``JobStore.results``."""
        self._refuse_when_closed()
        mine = (each for each in job_ids if self._tables.find(tenant, each) is not None)
        kept = self._tables.results
        return {job_id: kept[job_id] for job_id in mine if job_id in kept}

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """See ``JobStore.get``."""
        self._refuse_when_closed()
        found = ((job_id, self._tables.find(tenant, job_id)) for job_id in job_ids)
        return {job_id: copied(job) for job_id, job in found if job is not None}

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """See ``JobStore.find``."""
        self._refuse_when_closed()
        wanted = narrow(wanted, tenant)
        page = list_jobs(self._tables.select(wanted.status), wanted, cursor, limit)
        return Page([copied(job) for job in page.items], page.next_cursor)

    async def count(
        self, tenant: str, wanted: JobFilter | None = None, limit: int | None = None
    ) -> int:
        """See ``JobStore.count``."""
        self._refuse_when_closed()
        wanted = narrow(wanted, tenant)
        accepted = (1 for job in self._tables.select(wanted.status) if wanted.accepts(job))
        return sum(islice(accepted, limit))

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """See ``JobStore.attempts``."""
        self._refuse_when_closed()
        job = self._tables.find(tenant, job_id)
        if job is None:
            return []
        return complete_history(job, self._tables.attempts.get(job_id, ()))

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """See ``JobStore.find_dependents``."""
        self._refuse_when_closed()
        check_count(limit)
        named = sorted({each for job_id in job_ids for each in self._tables.dependents(job_id)})
        found = (self._tables.find(tenant, each) for each in named)
        return [copied(job) for job in islice((job for job in found if job), limit)]

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """See ``JobStore.amend``."""
        return copied(await super().amend(tenant, job_id, fields, now))

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """See ``JobStore.survey``."""
        self._refuse_when_closed()
        with self._lock:
            open_or_failed = self._tables.select(*SURVEYED)
            return survey_jobs(open_or_failed, to_utc(now, "now"), tenant)

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """See ``PortableStore.dump``."""
        self._refuse_when_closed()
        check_portion(limit)

        async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
            return read_document_portion(self._collections, (collection, key), limit)

        async def read_jobs(after: str) -> JobPortion:
            return read_job_portion(self._tables, after, limit)

        with self._lock:
            return await walk(cursor, read_documents, read_jobs)

    async def read_clock(self) -> datetime | None:
        """None: a store in memory uses the clock of its host."""
        return None

    async def close(self) -> None:
        """Refuse all later calls, and wake listeners."""
        await super().close()
        self._wakeups.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run_plan(self, make_plan: Callable[[], Plan[Answer]]) -> Answer:
        return self._commit(make_plan())

    def _commit(self, plan: Plan[Answer]) -> Answer:
        """Run a plan of the kernel, write what it decides, and wake listeners."""
        self._refuse_when_closed()
        with self._lock:
            writes, answer = run(plan, answer_by(self._tables))
            self._tables.commit(writes)
            self._version += 1
        self._wakeups.ring_partitions(writes.ready_partitions())
        if self._wakeups.awaited:
            self._wakeups.ring_ends(writes.ended_jobs())
        return answer

    def _extend_each(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        until = to_utc(until, "until")
        to_utc(now, "now")
        with self._lock:
            self._version += 1
            return [self._extend(lease, until) for lease in held]

    def _extend(self, held: HeldLease, until: datetime) -> bool:
        job = self._tables.leased.get(held.job_id)
        if job is None or job.lease is None or job.lease.token != held.token:
            return False
        extended = replace(job.lease, until=max(job.lease.until, until))
        self._tables.put(replace(job, lease=extended))
        return True


class _Keeper:
    """Extends leases as the store does; it has nothing to open or close."""

    def __init__(
        self, extend: Callable[[Sequence[HeldLease], datetime, datetime], list[bool]]
    ) -> None:
        self._extend = extend

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        return self._extend(held, until, now)

    def close(self) -> None:
        """Nothing was opened."""
