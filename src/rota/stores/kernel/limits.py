"""``lease`` under limits: which due jobs a caller gets while caps, ageing, kinds or labels apply.

A lease is made in rounds. A round looks at as many tenants, in their turns, as jobs are wanted:
only at tenants with a due job and room for it. It serves them one by one, each with its first job
that has room, until all have had an equal part. Rounds follow until there are enough jobs or no
tenant is left. So tenants share a contested place in turns, and a tenant or queue without room is
skipped. A lease by kind or label looks at ``LOOK_AHEAD`` tenants, and at as many jobs of each
partition: those that the caller cannot run may come first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rota.jobs import Job, JobId, age_priority
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.turns import share_out
from rota.stores.kernel.unit import Partition, Reading
from rota.stores.protocol import LOOK_AHEAD, Cap, CapScope, LeasePreview, LeaseRequest

MOST_CONTENDED = 5
"""After this many rounds in which other callers took every chosen job, a lease gives up."""


class Room:
    """The places left under caps. ``running_counts`` has the leased jobs of each partition."""

    def __init__(self, caps: Iterable[Cap], running_counts: Mapping[Partition, int]) -> None:
        self._left: dict[CapScope, int] = {}
        running: Counter[CapScope] = Counter()
        for partition, count in running_counts.items():
            for scope in scopes_of(*partition):
                running[scope] += count
        for cap in caps:
            for left in _places(cap, running[cap.scope]):
                self._left[cap.scope] = min(left, self._left.get(cap.scope, left))

    def has_place(self, tenant: str, queue: str) -> bool:
        """Whether one more job of this partition may be leased."""
        return all(self._left.get(scope, 1) > 0 for scope in scopes_of(tenant, queue))

    def take(self, tenant: str, queue: str) -> None:
        """One place less in every scope of the partition."""
        self._move(tenant, queue, -1)

    def give_back(self, tenant: str, queue: str) -> None:
        """One place more: the job was not leased after all."""
        self._move(tenant, queue, 1)

    def full_scopes(self) -> list[CapScope]:
        """The scopes without a free place."""
        return [scope for scope, left in self._left.items() if left <= 0]

    def _move(self, tenant: str, queue: str, places: int) -> None:
        for scope in scopes_of(tenant, queue):
            if scope in self._left:
                self._left[scope] += places


def counts_running(caps: Iterable[Cap]) -> bool:
    """Whether these caps depend on the number of running jobs."""
    return any(cap.running is not None for cap in caps)


def scopes_of(tenant: str, queue: str) -> tuple[CapScope, ...]:
    """All scopes that a partition belongs to."""
    return (None, None), (tenant, None), (None, queue), (tenant, queue)


def _places(cap: Cap, running_count: int) -> list[int]:
    left = [] if cap.running is None else [cap.running - running_count]
    return left if cap.count is None else [*left, cap.count]


class Candidate(NamedTuple):
    """A job that may be leased, with its position among the jobs of its tenant."""

    key: tuple[int, datetime, JobId]
    tenant: str
    queue: str

    @property
    def job_id(self) -> JobId:
        return self.key[-1]


class Standing(NamedTuple):
    """A READY and due job, as far as its position depends on it."""

    job_id: JobId
    tenant: str
    queue: str
    priority: int
    created_at: datetime


def make_candidate(
    job: Standing, ageing: Mapping[str, timedelta] | None, now: datetime
) -> Candidate:
    """The job as a candidate; its key is ``rota.jobs.aged_key``."""
    step = None if ageing is None else ageing.get(job.queue)
    priority = age_priority(job.priority, job.created_at, step, now)
    return Candidate((-priority, job.created_at, job.job_id), job.tenant, job.queue)


def part_of(limit: int, tenant_count: int) -> int:
    """How many jobs a tenant gets in a round, and how many of each partition to look at."""
    return max(1, limit // tenant_count)


def choose_jobs(
    tenants: Sequence[str], candidates: Iterable[Candidate], limit: int, room: Room
) -> list[Candidate]:
    """The jobs of one round; their places are taken in ``room``.

    ``candidates`` are the first ``part_of`` due jobs of every partition of these tenants, in any
    order. ``tenants`` are in the order of their turns.
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
    """The next job with a place. Skipped ones stay skipped: a round never gains room."""
    for job in jobs:
        if room.has_place(job.tenant, job.queue):
            room.take(job.tenant, job.queue)
            return [job]
    return []


class CountRunning(NamedTuple):
    """The leased jobs of each partition. Answer: ``dict[Partition, int]``.

    Until the unit ends, no other caller adds to a scope that ``request.caps`` limit; or
    ``TakeJobs`` notices that one did.
    """

    request: LeaseRequest


class FindPartitions(NamedTuple):
    """Partitions with a due job, outside the full scopes, of the next ``limit`` tenants in turn.

    Answer: ``list[Partition]``, tenant by tenant, beginning after ``request.after_tenant``.
    """

    request: LeaseRequest
    limit: int
    full: Sequence[CapScope]


class FindFirst(NamedTuple):
    """The first ``job_count`` due jobs of each partition; where queues age, of each priority.

    Answer: ``list[Standing]``, without those in ``passed_over``. Jobs that the request does not
    accept are left out; at most ``LOOK_AHEAD`` jobs are looked at for each partition or priority.
    """

    request: LeaseRequest
    partitions: Sequence[Partition]
    job_count: int
    passed_over: Sequence[JobId]


def find_ranks(
    request: LeaseRequest, partitions: Iterable[Partition]
) -> Iterator[tuple[str, str, int | None]]:
    """The partitions; one whose queue ages once for each priority, others without one."""
    ageing = request.ageing or {}
    for tenant, queue in partitions:
        for priority in range(1, HIGHEST_PRIORITY + 1) if queue in ageing else (None,):
            yield tenant, queue, priority


class TakeJobs(NamedTuple):
    """Lease these jobs. Answer: ``list[Job]`` of those that could be taken, in any order.

    None, and nothing taken, if other callers have leased since ``CountRunning`` in a way that may
    exceed a cap.
    """

    request: LeaseRequest
    chosen: Sequence[Candidate]


def lease_chosen(request: LeaseRequest, now: datetime) -> Reading[list[Job]]:
    """Lease the next jobs that the caller can run, tenants in turn, past those it cannot run."""
    taken: list[Job] = []
    passed_over: list[JobId] = []
    contended_count = 0
    while len(taken) < request.limit and contended_count < MOST_CONTENDED:
        wanted = request.limit - len(taken)
        tenants, candidates = yield from _find(request, wanted, (), passed_over, now)
        offered: dict[str, list[Candidate]] = {tenant: [] for tenant in tenants}
        for candidate in sorted(candidates):
            offered[candidate.tenant].append(candidate)
        chosen, _ = share_out(offered, wanted)
        if not chosen:
            break
        leased: list[Job] = yield TakeJobs(request, chosen)
        taken += _in_order(chosen, leased, Room((), {}), passed_over)
        if len(leased) == len(chosen):
            break
        contended_count += not leased
    return taken


def lease_limited(request: LeaseRequest, now: datetime) -> Reading[list[Job]]:
    """Lease due jobs for which there is room, round by round."""
    room = yield from _make_room(request)
    taken: list[Job] = []
    passed_over: list[JobId] = []
    contended_count = 0
    while len(taken) < request.limit and contended_count < MOST_CONTENDED:
        chosen = yield from _choose(request, request.limit - len(taken), room, passed_over, now)
        if not chosen:
            break
        leased: list[Job] | None = yield TakeJobs(request, chosen)
        if leased is None and taken:
            break
        if leased is None:
            room = yield from _make_room(request)
        else:
            taken += _in_order(chosen, leased, room, passed_over)
        contended_count += not leased
    return taken


def preview_lease(request: LeaseRequest) -> Reading[LeasePreview]:
    """The partitions that a lease would look at, and the running jobs that its caps count."""
    running = (yield CountRunning(request)) if counts_running(request.caps) else {}
    full = Room(request.caps, running).full_scopes()
    if (None, None) in full:
        return LeasePreview([], running)
    width = LOOK_AHEAD if request.is_selective else request.limit
    partitions: list[Partition] = yield FindPartitions(request, width, full)
    return LeasePreview(partitions, running)


def _make_room(request: LeaseRequest) -> Reading[Room]:
    running = (yield CountRunning(request)) if counts_running(request.caps) else {}
    return Room(request.caps, running)


def _choose(
    request: LeaseRequest, limit: int, room: Room, passed_over: Sequence[JobId], now: datetime
) -> Reading[list[Candidate]]:
    """The jobs of one round; their places are taken in ``room``."""
    full = room.full_scopes()
    if (None, None) in full:
        return []
    tenants, candidates = yield from _find(request, limit, full, passed_over, now)
    return choose_jobs(tenants, candidates, limit, room) if tenants else []


def _find(
    request: LeaseRequest,
    limit: int,
    full: Sequence[CapScope],
    passed_over: Sequence[JobId],
    now: datetime,
) -> Reading[tuple[list[str], list[Candidate]]]:
    """The next tenants that have jobs for the caller, in turn, and the first of these jobs."""
    width = LOOK_AHEAD if request.is_selective else limit
    partitions: list[Partition] = yield FindPartitions(request, width, full)
    tenants = list(dict.fromkeys(tenant for tenant, _ in partitions))
    if not tenants:
        return [], []
    count = limit if request.is_selective else part_of(limit, len(tenants))
    standing: list[Standing] = yield FindFirst(request, partitions, count, passed_over)
    served = {each.tenant for each in standing}
    tenants = [tenant for tenant in tenants if tenant in served][:limit]
    candidates = [
        make_candidate(each, request.ageing, now) for each in standing if each.tenant in tenants
    ]
    return tenants, candidates


def _in_order(
    chosen: Sequence[Candidate], leased: Sequence[Job], room: Room, passed_over: list[JobId]
) -> list[Job]:
    """The leased jobs in the order they were chosen; the others give their places back."""
    by_id = {job.id: job for job in leased}
    for candidate in chosen:
        if candidate.job_id not in by_id:
            room.give_back(candidate.tenant, candidate.queue)
            passed_over.append(candidate.job_id)
    return [by_id[each.job_id] for each in chosen if each.job_id in by_id]
