"""The verbs that only read."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

import apsw

from rota.jobs import Attempt, Job, JobFilter, JobId, JobStatus, Page, cut_page, decode_cursor
from rota.stores.protocol import expiry_key
from rota.stores.sqlite.jobs.leasing.lanes import is_lane_due, walk_lanes
from rota.stores.sqlite.jobs.queries import QUERIES
from rota.stores.sqlite.jobs.rows import (
    Row,
    decode_all,
    decode_attempt,
    encode_ids,
    to_instant,
    to_micros,
)

_EVER = (1 << 63) - 1
FEW = 5_000
"""So many READY jobs are all looked at for a page of them, rather than all jobs in their order."""

_HELD_UP = frozenset({JobStatus.PENDING, JobStatus.FAILED, JobStatus.BLOCKED})
_UNTIL_AT = 16
"""Where a row has the end of its lease."""


def get(connection: apsw.Connection, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
    """The tenant's jobs that exist among these, without those that cannot be read."""
    rows = connection.execute(QUERIES.read_jobs, (encode_ids(job_ids),))
    return {job.id: job for job in decode_all(row for row in rows if row[1] == tenant)}


def find(connection: apsw.Connection, wanted: JobFilter, cursor: str | None, limit: int) -> Page:
    """A page of the jobs of the filter's tenant."""
    first = _encode_filter(wanted)
    created_at, job_id = (_EVER, "") if cursor is None else _read_cursor(cursor)
    *others, until, is_recurring = first
    values = (*others, min(until, created_at), is_recurring, created_at, job_id, limit + 1)
    statement = _choose_find(connection, wanted)
    return cut_page(decode_all(connection.execute(statement, values)), limit)


def count(connection: apsw.Connection, wanted: JobFilter) -> int:
    """How many jobs of the filter's tenant it accepts."""
    if wanted == JobFilter(tenant=wanted.tenant):
        counted = connection.execute(QUERIES.count_all, (wanted.tenant,))
    else:
        statement = _choose_count(wanted)
        counted = connection.execute(statement, _encode_filter(wanted))
    ((number,),) = list(counted)
    return int(number)


def read_attempts(connection: apsw.Connection, tenant: str, job_id: JobId) -> list[Attempt]:
    """The attempts of a job, the first one first."""
    return list(map(decode_attempt, connection.execute(QUERIES.read_attempts, (tenant, job_id))))


def find_dependents(
    connection: apsw.Connection, tenant: str, job_ids: Sequence[JobId], limit: int
) -> list[Job]:
    """The tenant's jobs that depend on one of these, without those that cannot be read."""
    values = (encode_ids(job_ids), tenant, limit)
    return decode_all(connection.execute(QUERIES.read_dependents, values))


def find_expired(
    connection: apsw.Connection, now: datetime, limit: int, after: Job | None
) -> list[Job]:
    """Jobs whose lease has run out; a page is empty only when there are no more."""
    last: Row = (-_EVER, "")
    if after is not None:
        until, job_id = expiry_key(after)
        last = to_micros(until), job_id
    while True:
        values = (to_micros(now), *last, limit)
        rows = connection.execute(QUERIES.read_expired, values).fetchall()
        found = decode_all(rows)
        if found or not rows:
            return found
        last = rows[-1][_UNTIL_AT], rows[-1][0]


def next_due_at(
    connection: apsw.Connection,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """The first instant, from now on, at which a READY job is due."""
    now_micros = to_micros(now)
    firsts = list(_find_later(connection, queues, tenants))
    for lane in walk_lanes(connection, queues, tenants):
        if is_lane_due(connection, lane, now_micros):
            return now
        firsts += connection.execute(QUERIES.first_in_lane, (lane.tenant, lane.queue))
    return max(now, to_instant(min(firsts)[0])) if firsts else None


def _choose_find(connection: apsw.Connection, wanted: JobFilter) -> str:
    """The statement that looks at the fewest jobs: most of them are COMPLETED, and in its way."""
    if wanted.is_of_series:
        return QUERIES.find_recurring
    if wanted.status in _HELD_UP:
        return QUERIES.find_held_up
    if wanted.status is JobStatus.RUNNING:
        return QUERIES.find_running
    if wanted.status is not JobStatus.READY:
        return QUERIES.find
    ((number,),) = list(connection.execute(QUERIES.count_ready, (wanted.tenant, FEW + 1)))
    return QUERIES.find_few_ready if number <= FEW else QUERIES.find


def _choose_count(wanted: JobFilter) -> str:
    if wanted.is_of_series:
        return QUERIES.count_recurring
    return QUERIES.count_held_up if wanted.status in _HELD_UP else QUERIES.count


def _find_later(
    connection: apsw.Connection,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> Iterator[Row]:
    if queues is None and tenants is None:
        yield from connection.execute(QUERIES.first_later)
    elif queues is None:
        yield from connection.execute(QUERIES.first_later_of_tenants, (encode_ids(tenants or ()),))
    elif tenants is None:
        for queue in set(queues):
            yield from connection.execute(QUERIES.first_later_of_queue, (queue,))
    else:
        chosen = encode_ids(tenants)
        for queue in set(queues):
            yield from connection.execute(QUERIES.first_later_of_both, (queue, chosen))


def _encode_filter(wanted: JobFilter) -> Row:
    lowest, highest = wanted.priority_min, wanted.priority_max
    after, before = wanted.created_after, wanted.created_before
    return (
        wanted.tenant,
        wanted.queue,
        wanted.status,
        -_EVER if lowest is None else lowest,
        _EVER if highest is None else highest,
        -_EVER if after is None else to_micros(after),
        _EVER if before is None else to_micros(before) - 1,
        wanted.is_recurring,
    )


def _read_cursor(cursor: str) -> tuple[int, JobId]:
    created_at, job_id = decode_cursor(cursor)
    return to_micros(created_at), job_id
