"""Jobs that have been chosen are taken out of the line."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import apsw

from rota.errors import DamagedJobError
from rota.jobs import Job, JobId, Lease
from rota.stores.protocol import LeaseRequest
from rota.stores.sqlite.jobs.queries import QUERIES
from rota.stores.sqlite.jobs.rows import Row, decode_leased, encode_ids, logger, to_micros

MOST_PROMOTED = 10_000
"""So many jobs, at most, join their lanes in one lease, the longest due first.

If more than that become due between two leases, order holds among those that have joined; the
others follow with the next lease. It keeps the transaction short for those who wait for it.
"""


class Terms(NamedTuple):
    """For whom, from when and until when jobs are leased."""

    worker: str
    now: int
    until: int
    lease: Lease
    """But for the token."""


def make_terms(request: LeaseRequest, now: datetime) -> Terms:
    until = now + request.lease_for
    lease = Lease(token=0, worker=request.worker, taken_at=now, until=until)
    return Terms(request.worker, to_micros(now), to_micros(until), lease)


def promote(connection: apsw.Connection, terms: Terms) -> None:
    """Let those join their lanes whose time has come."""
    connection.execute(QUERIES.promote, (terms.now, MOST_PROMOTED))


def take_chosen(connection: apsw.Connection, chosen: Sequence[JobId], terms: Terms) -> list[Row]:
    """Lease these jobs, which stand in line; in their order."""
    values = (encode_ids(chosen), terms.now, terms.worker, terms.until)
    rows = {row[0]: row for row in connection.execute(QUERIES.lease_chosen, values)}
    return [rows[job_id] for job_id in chosen]


def decode_sound(connection: apsw.Connection, rows: Iterable[Row], lease: Lease) -> Iterator[Job]:
    """The jobs in these rows; those that cannot be read are set aside."""
    for row in rows:
        try:
            yield decode_leased(row, lease)
        except DamagedJobError as damage:
            # Left in line it would be met again and again, and hold up those behind it.
            logger.warning("%s; it is set aside", damage)
            connection.execute(QUERIES.set_aside, (damage.job_id, damage.reason))
