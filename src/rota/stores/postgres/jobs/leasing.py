"""``lease`` and what keeps leases: who gets which job, for how long, and whose time has run out."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from rota.jobs import Job, normalize_job_id
from rota.stores.jobs.requests import HeldLease, LeaseRequest
from rota.stores.jobs.turns import order_turns
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.jobs.rows import Damage, LeaseTerms, Row, decode_jobs
from rota.stores.postgres.jobs.statements import Statements
from rota.stores.postgres.translation import DRIVER_ERRORS

PROMOTED_AT_ONCE = 10_000
"""So many jobs whose time has come are put into the line by one lease, the longest due first.

Only when more than that have become due since the last lease is their order not that of all."""


class _Round(NamedTuple):
    """One round of the turns: how many are wanted, of whom, and whether to look for late ones."""

    length: int
    tenants: Sequence[str] | None
    is_first: bool = False


async def lease(statements: Statements, request: LeaseRequest, now: datetime) -> list[Job]:
    """Hand out jobs. Almost always one statement: a transaction by itself.

    Only when some tenants leave over what others could use, further rounds follow. What they fail
    to get is no reason to keep back what the first one got.
    """
    until = now + request.lease_for
    terms = LeaseTerms(request.worker, now, until)
    tenants = None if request.tenants is None else list(request.tenants)
    rows = await _take(statements, request, _Round(request.limit, tenants, is_first=True), now)
    jobs, damaged = terms.decode(rows)
    unsated = _unsated(rows, request.limit)
    try:
        while unsated and len(rows) < request.limit:
            left = _Round(request.limit - len(rows), order_turns(unsated, request.after_tenant))
            more = await _take(statements, request, left, now)
            more_jobs, more_damaged = terms.decode(more)
            jobs += more_jobs
            damaged += more_damaged
            rows += more
            unsated = _unsated(more, left.length)
        await set_aside(statements, damaged)
    except DRIVER_ERRORS:
        if not jobs:
            raise
    return jobs


async def _take(
    statements: Statements, request: LeaseRequest, wanted: _Round, now: datetime
) -> list[Row]:
    """The rows of one round, after what is late has been put into the line."""

    async def ask(*, looks_for_late: bool) -> list[Row]:
        return await statements.fetch(
            QUERIES.lease,
            now,
            None if request.queues is None else list(request.queues),
            wanted.tenants,
            request.after_tenant,
            wanted.length,
            now + request.lease_for,
            request.worker,
            looks_for_late,
        )

    rows = await ask(looks_for_late=wanted.is_first)
    if rows and rows[-1][0] is None:
        await statements.fetch(QUERIES.promote, now, PROMOTED_AT_ONCE)
        rows = await ask(looks_for_late=False)
    return rows


def _unsated(rows: Sequence[Row], count: int) -> list[str]:
    """The tenants that may have more than their part, which ``turns`` gives to each."""
    if len(rows) >= count:
        return []
    taken = Counter(row[1] for row in rows)
    part = max(1, count // len(taken)) if taken else 0
    hindered = {row[1] for row in rows if row[-1]}
    return [tenant for tenant, got in taken.items() if got >= part or tenant in hindered]


async def set_aside(statements: Statements, damaged: Sequence[Damage]) -> None:
    """Let nobody meet these again; their bytes stay as they are."""
    if damaged:
        ordered = sorted(damaged)
        await statements.fetch(
            QUERIES.set_aside, [one.job_id for one in ordered], [one.reason for one in ordered]
        )


async def extend(statements: Statements, held: Sequence[HeldLease], until: datetime) -> list[bool]:
    """Let leases last longer; False for each that is lost."""
    known = sorted(lease for lease in set(held) if normalize_job_id(lease.job_id) == lease.job_id)
    if not known:
        return [False] * len(held)
    rows = await statements.fetch(
        QUERIES.extend,
        [lease.job_id for lease in known],
        [lease.token for lease in known],
        until,
    )
    kept = {(row[0], row[1]) for row in rows}
    return [lease in kept for lease in held]


async def find_expired(
    statements: Statements, now: datetime, limit: int, after: tuple[datetime, str] | None
) -> list[Job]:
    """Jobs whose lease has run out. Those that cannot be read are set aside, and others found."""
    last_until, last_id = after or (None, None)
    while True:
        rows = await statements.fetch(QUERIES.find_expired, now, last_until, last_id, limit)
        reading = decode_jobs(rows)
        await set_aside(statements, reading.damaged)
        if not reading.damaged:
            return list(reading.jobs.values())


async def next_due_at(
    statements: Statements,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """The first instant, from now on, at which a READY job is due."""
    if queues is None and tenants is None:
        rows = await statements.fetch(QUERIES.next_due, now)
    else:
        chosen = (None if names is None else list(names) for names in (queues, tenants))
        rows = await statements.fetch(QUERIES.next_due_in, now, *chosen)
    due_at: datetime | None = rows[0][0]
    return None if due_at is None else max(due_at, now)
