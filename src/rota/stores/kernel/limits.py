"""``lease`` under limits: which due jobs a caller gets while caps or ageing apply.

A lease comes about in rounds, as ``selection`` describes. Each round looks at the partitions that
still have room, chooses jobs, and takes them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from rota.jobs import Job, JobId
from rota.stores.jobs.caps import CapScope, Room, counts_running
from rota.stores.jobs.requests import LeaseRequest
from rota.stores.jobs.selection import Candidate, Standing, choose_jobs, make_candidate, part_of
from rota.stores.kernel.unit import Partition, Reading

MOST_CONTENDED = 5
"""After this many rounds in which other callers took every chosen job, a lease gives up."""


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

    Answer: ``list[Standing]``, without those in ``passed_over``.
    """

    request: LeaseRequest
    partitions: Sequence[Partition]
    job_count: int
    passed_over: Sequence[JobId]


class TakeJobs(NamedTuple):
    """Lease these jobs. Answer: ``list[Job]`` of those that could be taken, in any order.

    None, and nothing taken, if other callers have leased since ``CountRunning`` in a way that may
    exceed a cap.
    """

    request: LeaseRequest
    chosen: Sequence[Candidate]


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
    partitions: list[Partition] = yield FindPartitions(request, limit, full)
    tenants = list(dict.fromkeys(tenant for tenant, _ in partitions))
    if not tenants:
        return []
    count = part_of(limit, len(tenants))
    standing: list[Standing] = yield FindFirst(request, partitions, count, passed_over)
    candidates = [make_candidate(each, request.ageing, now) for each in standing]
    return choose_jobs(tenants, candidates, limit, room)


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
