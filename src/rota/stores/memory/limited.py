"""``lease`` under limits."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from rota.jobs import Job, decide_lease
from rota.stores.jobs.caps import Room
from rota.stores.jobs.requests import LeaseRequest
from rota.stores.jobs.selection import (
    Candidate,
    Standing,
    choose_jobs,
    make_candidate,
    part_of,
)
from rota.stores.jobs.turns import order_turns
from rota.stores.memory.ready import Lane
from rota.stores.memory.shelf import Shelf, copied


def lease_limited(shelf: Shelf, request: LeaseRequest, now: datetime) -> list[Job]:
    """Hand out due jobs for which there is a place, round by round; see ``selection``."""
    running = Counter((job.tenant, job.queue) for job in shelf.leased.values())
    lessor = _Lessor(shelf, request, now, Room(request.caps, running))
    taken: list[Job] = []
    while len(taken) < request.limit:
        leased = lessor.lease_round(request.limit - len(taken))
        if not leased:
            break
        taken += leased
    return taken


class _Lessor(NamedTuple):
    """Leases jobs under one request."""

    shelf: Shelf
    request: LeaseRequest
    now: datetime
    room: Room

    def lease_round(self, limit: int) -> list[Job]:
        lanes = self._find_lanes(limit)
        if not lanes:
            return []
        part = part_of(limit, len(lanes))
        jobs = [
            job
            for mine in lanes.values()
            for queue, lane in mine.items()
            for job in self._look_along(queue, lane, part)
        ]
        candidates = (self._stand(job) for job in jobs)
        chosen = choose_jobs(list(lanes), candidates, limit, self.room)
        return [self._lease(self.shelf.jobs[each.job_id]) for each in chosen]

    def _find_lanes(self, limit: int) -> dict[str, dict[str, Lane]]:
        """The lanes with a due job and a place, of up to so many tenants, in their turns."""
        asked, ready = self.request, self.shelf.ready
        due = ready.tenants_due(self.now, asked.queues, asked.tenants)
        found: dict[str, dict[str, Lane]] = {}
        for tenant in order_turns(due, asked.after_tenant):
            lanes = ready.lanes_due(tenant, asked.queues, self.now)
            mine = {each: lanes[each] for each in lanes if self.room.has_place(tenant, each)}
            if mine:
                found[tenant] = mine
            if len(found) == limit:
                break
        return found

    def _look_along(self, queue: str, lane: Lane, count: int) -> list[Job]:
        step = (self.request.ageing or {}).get(queue)
        if step is None:
            return lane.first_jobs(self.now, count)
        return lane.first_aged(self.now, count, step)

    def _stand(self, job: Job) -> Candidate:
        standing = Standing(job.id, job.tenant, job.queue, job.priority, job.created_at)
        return make_candidate(standing, self.request.ageing, self.now)

    def _lease(self, job: Job) -> Job:
        request = self.request
        leased = decide_lease(job, request.worker, request.lease_for, self.now).job
        self.shelf.put(leased)
        return copied(leased)
