"""``lease`` and ``extend``: who comes next, and who holds on.

READY jobs that are due stand in lanes, one for each queue of each tenant, and those alone are
looked at: whoever has ended, is due later or waits for others costs nothing. A job that was due
later joins its lane when a lease finds that its time has come.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import apsw

from rota.jobs import Job, JobId
from rota.stores.kernel.turns import take_turns
from rota.stores.protocol import HeldLease, LeaseRequest
from rota.stores.sqlite.jobs.leasing.lanes import is_lane_due, walk_lanes
from rota.stores.sqlite.jobs.leasing.limited import lease_limited
from rota.stores.sqlite.jobs.leasing.taking import (
    Terms,
    decode_sound,
    make_terms,
    promote,
    take_chosen,
)
from rota.stores.sqlite.jobs.queries import QUERIES
from rota.stores.sqlite.jobs.rows import Row, to_micros


def lease_jobs(connection: apsw.Connection, request: LeaseRequest, now: datetime) -> list[Job]:
    """Hand out due jobs; see ``JobStore.lease``."""
    terms = make_terms(request, now)
    promote(connection, terms)
    if request.is_limited:
        return lease_limited(connection, request, terms)
    taker = _Taker(connection, request, terms)
    taken: list[Job] = []
    while len(taken) < request.limit:
        rows = taker.take_rows(request.limit - len(taken))
        sound = list(decode_sound(connection, rows, terms.lease))
        taken += sound
        if len(sound) == len(rows):
            break
    return taken


def extend_leases(
    connection: apsw.Connection, held: Sequence[HeldLease], until: datetime
) -> list[bool]:
    """Let leases last longer; False for each that is lost."""
    lasting = to_micros(until)
    answers: list[bool] = []

    def note_each() -> Iterator[Row]:
        for job_id, token in held:
            yield job_id, token, lasting
            answers.append(connection.changes() == 1)

    connection.executemany(QUERIES.extend, note_each())
    return answers


class _Taker(NamedTuple):
    """Takes jobs out of lanes, under one lease."""

    connection: apsw.Connection
    request: LeaseRequest
    terms: Terms

    def take_rows(self, limit: int) -> list[Row]:
        """Up to so many, tenants in turn."""
        lanes = self._find_due_lanes(limit)
        if len(lanes) == 1:
            (tenant, queues) = next(iter(lanes.items()))
            if len(queues) == 1:
                return self._take_lane(tenant, queues[0], limit)
        taken_counts: Counter[str] = Counter()

        def choose(tenant: str, count: int) -> list[JobId]:
            passed = taken_counts[tenant]
            taken_counts[tenant] += count
            return self._look_along(tenant, lanes[tenant], passed + count)[passed:]

        chosen = take_turns(lanes, limit, choose)
        return take_chosen(self.connection, chosen, self.terms)

    def _find_due_lanes(self, limit: int) -> dict[str, list[str]]:
        """The queues in which they have a due job, of up to so many tenants, in their turns."""
        asked = self.request
        lanes: dict[str, list[str]] = {}
        for lane in walk_lanes(self.connection, asked.queues, asked.tenants, asked.after_tenant):
            if lane.tenant not in lanes and len(lanes) == limit:
                break
            if is_lane_due(self.connection, lane, self.terms.now):
                lanes.setdefault(lane.tenant, []).append(lane.queue)
        return lanes

    def _take_lane(self, tenant: str, queue: str, count: int) -> list[Row]:
        """One lane, as it is most of the time, is served by one statement."""
        now, until = self.terms.now, self.terms.until
        values = (tenant, queue, now, count, self.terms.worker, until)
        return sorted(self.connection.execute(QUERIES.lease_lane, values), key=_order_key)

    def _look_along(self, tenant: str, queues: Iterable[str], count: int) -> list[JobId]:
        """The first so many of a tenant."""
        found: list[Row] = []
        for queue in queues:
            place = (tenant, queue, self.terms.now, count)
            found += self.connection.execute(QUERIES.look_along, place)
        return [job_id for _, _, job_id in sorted(found)[:count]]


def _order_key(row: Row) -> tuple[int, int, str]:
    """As ``rota.jobs.order_key``, of a row."""
    return -row[4], row[6], row[0]
