"""``lease`` and ``extend``: who comes next, and who holds on.

READY jobs that are due stand in lanes, one for each queue of each tenant, and those alone are
looked at: whoever has ended, is due later or waits for others costs nothing. A job that was due
later joins its lane when a lease finds that its time has come.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import NamedTuple

import apsw

from rota.errors import DamagedJobError
from rota.jobs import Job, Lease
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

MOST_PROMOTED = 10_000
"""So many jobs, at most, join their lanes in one lease, the longest due first.

If more than that become due between two leases, order holds among those that have joined; the
others follow with the next lease. It keeps the transaction short for those who wait for it.
"""


def lease_jobs(connection: apsw.Connection, request: LeaseRequest, now: datetime) -> list[Job]:
    """Hand out due jobs; see ``JobStore.lease``."""
    now_micros = to_micros(now)
    connection.execute(QUERIES.promote, (now_micros, MOST_PROMOTED))
    lanes = dict(islice(_find_lanes(connection, request, now_micros), request.limit))
    lease = Lease(token=0, worker=request.worker, taken_at=now, until=now + request.lease_for)
    taker = _Taker(connection, lease, now_micros, to_micros(lease.until))
    return take_turns(
        lanes, request.limit, lambda tenant, count: taker.take(tenant, lanes[tenant], count)
    )


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


def find_queues(
    connection: apsw.Connection, tenant: str, queues: Collection[str] | None
) -> Iterable[str]:
    """The queues of a tenant in which somebody may stand, of those that were chosen."""
    return set(queues) if queues is not None else _step(connection, QUERIES.next_queue, tenant)


def find_tenants(
    connection: apsw.Connection, tenants: Collection[str] | None, after: str = ""
) -> Iterable[str]:
    """Who may have a lane, of those that were chosen, beginning after that one."""
    if tenants is not None:
        return order_turns(set(tenants), after)
    return _tenants_in_turn(connection, after)


def is_lane_due(connection: apsw.Connection, tenant: str, queue: str, now: int) -> bool:
    """Whether somebody in the lane is due."""
    found = connection.execute(QUERIES.is_lane_due, (tenant, queue, now)).fetchone()
    return found is not None


class _Taker(NamedTuple):
    """Takes jobs out of lanes, under one lease."""

    connection: apsw.Connection
    lease: Lease
    now: int
    until: int

    def take(self, tenant: str, queues: Sequence[str], count: int) -> list[Job]:
        """The first so many of the tenant; fewer only when there are no more."""
        taken: list[Job] = []
        while len(taken) < count:
            wanted = count - len(taken)
            rows = self._take_rows(tenant, queues, wanted)
            taken += self._decode(sorted(rows, key=_order_key))
            if len(rows) < wanted:
                break
        return taken

    def _take_rows(self, tenant: str, queues: Sequence[str], count: int) -> list[Row]:
        worker = self.lease.worker
        if len(queues) == 1:
            lane = (tenant, queues[0], self.now, count, worker, self.until)
            return self.connection.execute(QUERIES.lease_lane, lane).fetchall()
        heads = (
            self.connection.execute(QUERIES.look_along, (tenant, queue, self.now, count))
            for queue in queues
        )
        chosen = encode_ids(job_id for _, _, job_id in islice(merge(*heads), count))
        values = (chosen, self.now, worker, self.until)
        return self.connection.execute(QUERIES.lease_chosen, values).fetchall()

    def _decode(self, rows: Iterable[Row]) -> Iterator[Job]:
        for row in rows:
            try:
                yield decode_leased(row, self.lease)
            except DamagedJobError as damage:
                # Left in line it would be met again and again, and hold up those behind it.
                logger.warning("%s; it is set aside", damage)
                self.connection.execute(QUERIES.set_aside, (damage.job_id, damage.reason))


def _find_lanes(
    connection: apsw.Connection, request: LeaseRequest, now: int
) -> Iterator[tuple[str, list[str]]]:
    """The tenants in the order of their turns, each with the queues in which it has a due job."""
    for tenant in find_tenants(connection, request.tenants, request.after_tenant):
        queues = [
            queue
            for queue in find_queues(connection, tenant, request.queues)
            if is_lane_due(connection, tenant, queue, now)
        ]
        if queues:
            yield tenant, queues


def _tenants_in_turn(connection: apsw.Connection, after: str) -> Iterator[str]:
    is_around = False
    last = after
    while True:
        found = connection.execute(QUERIES.next_tenant, (last,)).fetchone()
        if found is not None and not (is_around and found[0] > after):
            yield (last := found[0])
        elif is_around or not after:
            return
        else:
            is_around, last = True, ""


def _step(connection: apsw.Connection, statement: str, tenant: str) -> Iterator[str]:
    """From queue to queue, without a look at the jobs in between."""
    last = ""
    while (found := connection.execute(statement, (tenant, last)).fetchone()) is not None:
        yield (last := found[0])


def _order_key(row: Row) -> tuple[int, int, str]:
    """As ``rota.jobs.order_key``, of a row."""
    return -row[4], row[6], row[0]
