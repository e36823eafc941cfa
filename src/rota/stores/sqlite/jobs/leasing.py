"""``lease`` and ``extend``: who comes next, and who holds on.

READY jobs that are due stand in lanes, one for each queue of each tenant, and those alone are
looked at: whoever has ended, is due later or waits for others costs nothing. A job that was due
later joins its lane when a lease finds that its time has come.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import apsw

from rota.errors import DamagedJobError
from rota.jobs import Job, JobId, Lease
from rota.stores.jobs.requests import HeldLease, LeaseRequest
from rota.stores.jobs.turns import order_turns, take_turns
from rota.stores.sqlite.jobs.queries import QUERIES
from rota.stores.sqlite.jobs.rows import (
    Row,
    decode_leased,
    encode_ids,
    logger,
    to_micros,
)

_BEHIND_ALL = b""

MOST_PROMOTED = 10_000
"""So many jobs, at most, join their lanes in one lease, the longest due first.

If more than that become due between two leases, order holds among those that have joined; the
others follow with the next lease. It keeps the transaction short for those who wait for it.
"""


def lease_jobs(connection: apsw.Connection, request: LeaseRequest, now: datetime) -> list[Job]:
    """Hand out due jobs; see ``JobStore.lease``."""
    until = now + request.lease_for
    taker = _Taker(connection, request, to_micros(now), to_micros(until))
    lease = Lease(token=0, worker=request.worker, taken_at=now, until=until)
    connection.execute(QUERIES.promote, (taker.now, MOST_PROMOTED))
    taken: list[Job] = []
    while len(taken) < request.limit:
        rows = taker.take_rows(request.limit - len(taken))
        sound = list(_decode(connection, rows, lease))
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
    now: int
    until: int

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

        return self._take_chosen(take_turns(lanes, limit, choose))

    def _find_due_lanes(self, limit: int) -> dict[str, list[str]]:
        """The queues in which they have a due job, of up to so many tenants, in their turns."""
        asked = self.request
        lanes: dict[str, list[str]] = {}
        for lane in walk_lanes(self.connection, asked.queues, asked.tenants, asked.after_tenant):
            if lane.tenant not in lanes and len(lanes) == limit:
                break
            if is_lane_due(self.connection, lane, self.now):
                lanes.setdefault(lane.tenant, []).append(lane.queue)
        return lanes

    def _take_lane(self, tenant: str, queue: str, count: int) -> list[Row]:
        """One lane, as it is most of the time, is served by one statement."""
        values = (tenant, queue, self.now, count, self.request.worker, self.until)
        return sorted(self.connection.execute(QUERIES.lease_lane, values), key=_order_key)

    def _look_along(self, tenant: str, queues: Iterable[str], count: int) -> list[JobId]:
        """The first so many of a tenant."""
        found: list[Row] = []
        for queue in queues:
            found += self.connection.execute(QUERIES.look_along, (tenant, queue, self.now, count))
        return [job_id for _, _, job_id in sorted(found)[:count]]

    def _take_chosen(self, chosen: Sequence[JobId]) -> list[Row]:
        values = (encode_ids(chosen), self.now, self.request.worker, self.until)
        rows = {row[0]: row for row in self.connection.execute(QUERIES.lease_chosen, values)}
        return [rows[job_id] for job_id in chosen]


class Lane(NamedTuple):
    """A queue of a tenant in which somebody stands, and when the first in it is due."""

    tenant: str
    queue: str
    due_at: int


def walk_lanes(
    connection: apsw.Connection,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
    after: str = "",
) -> Iterator[Lane]:
    """The lanes that were chosen, by tenant and queue, beginning with the tenant after that one.

    It steps from lane to lane: how many stand in each does not matter.
    """
    chosen = None if queues is None else sorted(set(queues))
    if tenants is not None:
        for tenant in order_turns(set(tenants), after):
            yield from _walk(connection, (tenant, ""), chosen, tenant)
        return
    if after:
        yield from _walk(connection, (after, _BEHIND_ALL), chosen, None)
    yield from _walk(connection, ("", ""), chosen, after or None)


def is_lane_due(connection: apsw.Connection, lane: Lane, now: int) -> bool:
    """Whether somebody in the lane is due; it is the first, unless the clock was set back."""
    if lane.due_at <= now:
        return True
    place = (lane.tenant, lane.queue, now)
    return connection.execute(QUERIES.is_lane_due, place).fetchone() is not None


def _walk(
    connection: apsw.Connection,
    place: tuple[str, str | bytes],
    chosen: Sequence[str] | None,
    last_tenant: str | None,
) -> Iterator[Lane]:
    while (found := connection.execute(QUERIES.next_lane, place).fetchone()) is not None:
        lane = Lane._make(found)
        if last_tenant is not None and lane.tenant > last_tenant:
            return
        place = lane.tenant, f"{lane.queue}\0"  # the text that follows directly
        if chosen is not None:
            index = bisect_left(chosen, lane.queue)
            if index == len(chosen) or chosen[index] != lane.queue:
                place = lane.tenant, chosen[index] if index < len(chosen) else _BEHIND_ALL
                continue
        yield lane


def _decode(connection: apsw.Connection, rows: Iterable[Row], lease: Lease) -> Iterator[Job]:
    for row in rows:
        try:
            yield decode_leased(row, lease)
        except DamagedJobError as damage:
            # Left in line it would be met again and again, and hold up those behind it.
            logger.warning("%s; it is set aside", damage)
            connection.execute(QUERIES.set_aside, (damage.job_id, damage.reason))


def _order_key(row: Row) -> tuple[int, int, str]:
    """As ``rota.jobs.order_key``, of a row."""
    return -row[4], row[6], row[0]
