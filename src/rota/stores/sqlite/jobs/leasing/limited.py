"""``lease`` under limits: jobs are chosen as ``selection`` says, in the writer's transaction."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import apsw

from rota.jobs import Job
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.limits import (
    Candidate,
    Room,
    Standing,
    choose_jobs,
    counts_running,
    make_candidate,
    part_of,
)
from rota.stores.protocol import LeaseRequest
from rota.stores.sqlite.jobs.leasing.lanes import is_lane_due, walk_lanes
from rota.stores.sqlite.jobs.leasing.taking import Terms, decode_sound, take_chosen
from rota.stores.sqlite.jobs.queries import QUERIES
from rota.stores.sqlite.jobs.rows import EPOCH, Row, to_instant

LEVELS = range(1, HIGHEST_PRIORITY + 1)


def lease_limited(connection: apsw.Connection, request: LeaseRequest, terms: Terms) -> list[Job]:
    """Hand out due jobs for which there is a place, round by round."""
    leased = connection.execute(QUERIES.read_leased) if counts_running(request.caps) else ()
    chooser = _Chooser(connection, request, terms, Room(request.caps, Counter(leased)))
    taken: list[Job] = []
    while len(taken) < request.limit:
        chosen = chooser.choose(request.limit - len(taken))
        if not chosen:
            break
        rows = take_chosen(connection, [each.job_id for each in chosen], terms)
        sound = {job.id: job for job in decode_sound(connection, rows, terms.lease)}
        taken += sound.values()
        for lost in chosen:
            if lost.job_id not in sound:
                chooser.room.give_back(lost.tenant, lost.queue)
    return taken


class _Chooser(NamedTuple):
    """Chooses jobs for one request."""

    connection: apsw.Connection
    request: LeaseRequest
    terms: Terms
    room: Room

    def choose(self, limit: int) -> list[Candidate]:
        """The jobs of one round."""
        lanes = self._find_lanes(limit)
        if not lanes:
            return []
        part = part_of(limit, len(lanes))
        candidates = [
            candidate
            for tenant, queues in lanes.items()
            for queue in queues
            for candidate in self._look_along(tenant, queue, part)
        ]
        return choose_jobs(list(lanes), candidates, limit, self.room)

    def _find_lanes(self, limit: int) -> dict[str, list[str]]:
        """The queues with a due job and a place, of up to so many tenants, in their turns."""
        asked = self.request
        lanes: dict[str, list[str]] = {}
        if (None, None) in self.room.full_scopes():
            return lanes
        for lane in walk_lanes(self.connection, asked.queues, asked.tenants, asked.after_tenant):
            if lane.tenant not in lanes and len(lanes) == limit:
                break
            has_place = self.room.has_place(lane.tenant, lane.queue)
            if has_place and is_lane_due(self.connection, lane, self.terms.now):
                lanes.setdefault(lane.tenant, []).append(lane.queue)
        return lanes

    def _look_along(self, tenant: str, queue: str, count: int) -> Iterator[Candidate]:
        """The first so many of a lane; of one that ages, of each of its priorities."""
        ageing, now = self.request.ageing, self.terms.lease.taken_at
        made = EPOCH
        for priority, created_at, job_id in self._read_rows(tenant, queue, count):
            with suppress(OverflowError):  # an instant that is none is found when the job is taken
                made = to_instant(created_at)
            yield make_candidate(Standing(job_id, tenant, queue, -priority, made), ageing, now)

    def _read_rows(self, tenant: str, queue: str, count: int) -> Iterator[Row]:
        place = (tenant, queue, self.terms.now, count)
        if queue not in (self.request.ageing or ()):
            yield from self.connection.execute(QUERIES.look_along, place)
            return
        for level in LEVELS:
            yield from self.connection.execute(QUERIES.look_along_level, (*place, level))
