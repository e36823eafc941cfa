"""``lease`` and ``extend``: which due jobs a caller gets, and how leases are kept."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec.structs import replace

from rota.jobs import Job, JobId, normalize_job_id
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.limits import (
    Candidate,
    Standing,
    lease_chosen,
    lease_limited,
    make_candidate,
    preview_lease,
)
from rota.stores.kernel.unit import Partition, answer_by, run_async
from rota.stores.postgres.connections import (
    DRIVER_ERRORS,
    Statements,
)
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.rows import Leases, Row, decode_leased, in_calendar
from rota.stores.postgres.unit import set_aside
from rota.stores.protocol import LOOK_AHEAD, CapScope, HeldLease, LeasePreview, LeaseRequest

MARKED_AT_ONCE = 10_000
"""One lease marks as many jobs as due, those due longest first.

Only if more than that have become due since the last lease, their order is not that of all."""

SPARE = 8
"""A lease looks at some more jobs and tenants than it wants: other callers may be taking them."""

SKIPPED = 100
"""After a lease that met several partitions, this many assume that there are several."""

MOST_STEPS = 5
"""How often a lease asks further tenants, after other callers have taken the jobs of the first."""

MOST_CONTENDED = 5
"""After this many rounds in which other callers took every job, a lease gives up."""

PRIORITIES = range(1, HIGHEST_PRIORITY + 1)

_LAST_QUEUE = chr(0x10FFFF)
"""No queue sorts after it."""

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_FUTURE = datetime(9999, 1, 1, tzinfo=UTC)
_WARM_UP = LeaseRequest(worker="warm-up", limit=1, lease_for=timedelta(seconds=1), queues=("",))


_SEVERAL, _LATE = 0, 1
"""Why a statement has leased nothing; otherwise the caller cannot run one of the jobs."""

_UNREADABLE = ""
"""The kind of a job that cannot be read."""


class Taken(Enum):
    """What one statement has taken: all there is, or perhaps a part.

    None: it met jobs that the caller cannot run.
    """

    ALL = "all"
    PART = "part"
    NONE = "none"


class KeyRange(NamedTuple):
    """A partition, or one priority in it from a certain job on."""

    tenant: str
    queue: str
    priority: int | None = None
    created_at: datetime | None = None
    job_id: JobId | None = None


class LeaseCall:
    """One call of ``lease``: what it asks the database, and what it has taken so far."""

    def __init__(
        self,
        statements: Statements,
        request: LeaseRequest,
        now: datetime,
        fast_path: "FastPath | None" = None,
    ) -> None:
        """Without ``fast_path`` all is done in rounds."""
        self.statements = statements
        self.fast_path = fast_path
        self.request = request
        self.now = now
        self.taken: list[Job] = []
        self._passed_over: list[JobId] = []
        self._leases = Leases(request.worker, now, now + request.lease_for)
        self._runnable = (
            None if request.kinds is None else [*request.kinds, _UNREADABLE],
            None if request.labels is None else list(request.labels),
        )

    @property
    def left(self) -> int:
        """How many jobs are still wanted."""
        return self.request.limit - len(self.taken)

    async def mark_due(self) -> None:
        """Put jobs that have become due into the ready set."""
        await self.statements.fetch(QUERIES.mark_due, self.now, MARKED_AT_ONCE)

    async def take_at_once(self, limit: int, fast_path: "FastPath") -> "Taken":
        """Take jobs in one statement."""
        request = self.request
        terms = (limit, self.now + request.lease_for, request.worker, *self._runnable)
        if fast_path.is_open(request):
            queues = ("", _LAST_QUEUE) if request.queues is None else (*request.queues,) * 2
            taken = await self._try(QUERIES.lease, *queues, *terms)
            if taken is not Taken.PART:
                return taken
            fast_path.close()
        choice = self._choice(limit + SPARE, request.after_tenant, ())
        taken = await self._try(QUERIES.lease_in_turns, *choice, *terms)
        return Taken.NONE if taken is Taken.NONE else Taken.PART

    async def _try(self, statement: str, *values: Any) -> "Taken":
        """Take jobs, after those that are late are marked as due."""
        for marks_due in (True, False):
            rows = await self.statements.fetch(statement, self.now, *values, marks_due)
            if not rows or rows[0][0] is not None:
                await self._keep(rows)
                return Taken.ALL
            if rows[0][3] != _LATE:
                return Taken.PART if rows[0][3] == _SEVERAL else Taken.NONE
            await self.mark_due()
        return Taken.PART

    async def take_after(self, ranges: Sequence[KeyRange]) -> None:
        """Take jobs of these ranges in one statement; none if the caller cannot run one."""
        columns = [list(column) for column in zip(*ranges, strict=True)]
        terms = (self.left, self.now + self.request.lease_for, self.request.worker)
        rows = await self.statements.fetch(
            QUERIES.lease_after, self.now, *columns, *terms, *self._runnable
        )
        await self._keep(rows)

    async def take_in_turns(
        self, tenants: Iterable[str], ranges: Mapping[str, Sequence[KeyRange]]
    ) -> None:
        """Take jobs of these tenants, as ``turns`` says: an equal part each, then what is left."""
        waiting = list(tenants)
        contended_count = 0
        while waiting and self.left and contended_count < MOST_CONTENDED:
            share = max(1, self.left // len(waiting))
            wanted = [each for tenant in waiting for each in ranges[tenant]]
            found = await self.read_first(wanted, share + SPARE, self._passed_over)
            offered = self._offer(waiting, found, share + SPARE)
            taken = await self.take(offered, share)
            got = Counter(job.tenant for job in taken)
            ids = {job.id for job in taken}
            for tenant in waiting:
                if got[tenant] < share:
                    missed = (one.job_id for one in offered[tenant] if one.job_id not in ids)
                    self._passed_over += missed
            waiting = [tenant for tenant in waiting if len(offered[tenant]) >= share]
            contended_count += not taken

    def _offer(
        self, tenants: Sequence[str], found: Iterable[Standing], count: int
    ) -> dict[str, list[Candidate]]:
        """The first jobs of each tenant, in order."""
        offered: dict[str, list[Candidate]] = {tenant: [] for tenant in tenants}
        for job in found:
            offered[job.tenant].append(make_candidate(job, None, self.now))
        return {tenant: sorted(jobs)[:count] for tenant, jobs in offered.items()}

    async def find_partitions(
        self, request: LeaseRequest, limit: int, full: Sequence[CapScope] = ()
    ) -> list[Partition]:
        choice = self._choice(limit, request.after_tenant, full)
        rows = await self.statements.fetch(QUERIES.find_partitions, self.now, *choice)
        return [(tenant, queue) for tenant, queue in rows]

    def _choice(self, limit: int, after_tenant: str, full: Sequence[CapScope]) -> tuple[Any, ...]:
        """The parameters of ``partition_steps``."""
        queues, tenants = self.request.queues, self.request.tenants
        pairs = [(tenant, queue) for tenant, queue in full if None not in (tenant, queue)]
        return (
            None if queues is None else list(queues),
            None if tenants is None else list(tenants),
            after_tenant,
            limit,
            [queue for tenant, queue in full if tenant is None],
            [tenant for tenant, queue in full if queue is None],
            [tenant for tenant, _ in pairs],
            [queue for _, queue in pairs],
        )

    async def read_first(
        self, ranges: Sequence[KeyRange], count: int, passed_over: Sequence[JobId] = ()
    ) -> list[Standing]:
        """The first due jobs of each range."""
        columns = [list(column) for column in zip(*ranges, strict=True)] or [[]] * 5
        seen_count = LOOK_AHEAD if self.request.is_selective else count
        rows = await self.statements.fetch(
            QUERIES.find_first,
            self.now,
            count,
            list(passed_over),
            *columns,
            *self._runnable,
            seen_count,
        )
        return [Standing._make((*row[:4], in_calendar(row[4]))) for row in rows]

    async def take(self, offered: Mapping[str, Sequence[Candidate]], share: int) -> list[Job]:
        """Lease up to ``share`` of the offered jobs of each tenant, as many as are left."""
        places = [one for jobs in offered.values() for one in jobs]
        lasts = list(accumulate(map(len, offered.values())))
        firsts = [last - len(jobs) + 1 for last, jobs in zip(lasts, offered.values(), strict=True)]
        rows = await self.statements.fetch(
            QUERIES.take_jobs,
            self.now,
            list(offered),
            firsts,
            lasts,
            [one.job_id for one in places],
            [one.queue for one in places],
            share,
            self.left,
            self.now + self.request.lease_for,
            self.request.worker,
            *self._runnable,
        )
        return await self._keep(rows)

    async def take_jobs(self, request: LeaseRequest, chosen: Sequence[Candidate]) -> list[Job]:  # noqa: ARG002 - that of the call
        offered: defaultdict[str, list[Candidate]] = defaultdict(list)
        for one in chosen:
            offered[one.tenant].append(one)
        return await self.take(offered, len(chosen))

    async def find_first(
        self,
        request: LeaseRequest,  # noqa: ARG002 - that of the call
        partitions: Sequence[Partition],
        job_count: int,
        passed_over: Sequence[JobId],
    ) -> list[Standing]:
        return await self.read_first(self._age(partitions), job_count, passed_over)

    def _age(self, partitions: Sequence[Partition]) -> list[KeyRange]:
        """Where a queue ages, any of its priorities may come first."""
        ageing = self.request.ageing or {}
        return [
            KeyRange(tenant, queue, priority)
            for tenant, queue in partitions
            for priority in (PRIORITIES if queue in ageing else (None,))
        ]

    async def count_running(self, request: LeaseRequest) -> dict[Partition, int]:
        """Lock the scopes first, in a statement of its own: the count sees all leases before."""
        caps = [cap for cap in request.caps if cap.running is not None]
        scopes = [f"{cap.tenant or ''}/{cap.queue or ''}" for cap in caps]
        await self.statements.fetch(QUERIES.lock_scopes, scopes)
        rows = await self.statements.fetch(QUERIES.count_running)
        return {(tenant, queue): count for tenant, queue, count in rows}

    async def _keep(self, rows: Sequence[Row]) -> list[Job]:
        """The jobs that were leased; those that cannot be read are set aside."""
        jobs, damaged = decode_leased(rows, self._leases)
        self.taken += jobs
        await set_aside(self.statements, damaged)
        return jobs


class FastPath:
    """Whether to try the statement for one partition: not right after it met several.

    For one job of one partition it takes 0.6 ms, and the statement for several 0.9; for a hundred
    jobs both take the same time.
    """

    def __init__(self) -> None:
        self._skip_count = 0

    def is_open(self, request: LeaseRequest) -> bool:
        """Whether to try it; each question counts."""
        self._skip_count = max(0, self._skip_count - 1)
        is_one = request.queues is None or len(request.queues) == 1
        return request.tenants is None and is_one and not self._skip_count

    def close(self) -> None:
        """There are several partitions."""
        self._skip_count = SKIPPED + 1


async def lease_from_start(call: LeaseCall) -> list[Job]:
    """Lease the next jobs, each statement by itself.

    If a later statement fails, the jobs that were leased before are the answer: no other
    worker would run them.
    """
    try:
        if call.fast_path is None:
            await call.mark_due()
        else:
            taken = await call.take_at_once(call.left, call.fast_path)
            if taken is Taken.ALL:
                return call.taken
        if call.request.is_selective and not call.taken:
            return await run_async(lease_chosen(call.request, call.now), answer_by(call))
        if call.left:
            await _take_from_partitions(call)
    except DRIVER_ERRORS:
        if not call.taken:
            raise
    return call.taken


async def _take_from_partitions(call: LeaseCall) -> None:
    request = call.request
    for _ in range(MOST_STEPS):
        tenant_count = call.left + SPARE
        ranges: dict[str, list[KeyRange]] = {}
        for tenant, queue in await call.find_partitions(request, tenant_count):
            ranges.setdefault(tenant, []).append(KeyRange(tenant, queue))
        await call.take_in_turns(ranges, ranges)
        if not call.left or len(ranges) < tenant_count:
            return
        request = replace(request, after_tenant=list(ranges)[-1])


async def lease_under_limits(call: LeaseCall) -> list[Job]:
    """Lease jobs for which there is room, in one transaction."""
    await call.mark_due()
    async with call.statements.transaction():
        return await run_async(lease_limited(call.request, call.now), answer_by(call))


async def preview(statements: Statements, request: LeaseRequest, now: datetime) -> LeasePreview:
    """See ``OpenStore.preview_lease``."""
    call = LeaseCall(statements, request, now)
    await call.mark_due()
    return await run_async(preview_lease(request), answer_by(call))


async def warm_up(statements: Statements) -> None:
    """Run what workers run most, so that the connection knows it; it concerns no job.

    The instant is long ago, and the queue has no name: otherwise a ready set of which nothing is
    due yet would be walked to its end.
    """
    call = LeaseCall(statements, _WARM_UP, LONG_AGO)
    await call.take_at_once(0, FastPath())
    closed = FastPath()
    closed.close()
    await call.take_at_once(0, closed)
    await statements.fetch(QUERIES.complete_jobs, "", [], [], [], [], [], [], "rota")
    await statements.fetch(QUERIES.next_due, _FAR_FUTURE)


async def extend(statements: Statements, held: Sequence[HeldLease], until: datetime) -> list[bool]:
    """Extend leases; False for each that is lost."""
    known = sorted(lease for lease in set(held) if normalize_job_id(lease.job_id) == lease.job_id)
    if not known:
        return [False] * len(held)
    columns = ([lease.job_id for lease in known], [lease.token for lease in known])
    rows = await statements.fetch(QUERIES.extend, *columns, until)
    kept = {(row[0], row[1]) for row in rows}
    return [lease in kept for lease in held]
