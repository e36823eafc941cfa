"""``lease`` without limits, ``extend``, ``find_expired`` and ``next_due_at``."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from rota.jobs import Job, format_instant, parse_instant
from rota.stores.kernel.turns import order_turns
from rota.stores.protocol import HeldLease, LeaseRequest, expiry_key
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.rows import decode_all, encode_names
from rota.stores.redis.scripts import load_script

LEASE = load_script(__package__, "lease")
EXTEND = load_script(__package__, "extend")
EXPIRED = load_script(__package__, "expired")
NEXT_DUE = load_script(__package__, "next_due")


async def lease(database: Database, request: LeaseRequest, now: datetime) -> list[Job]:
    """Due jobs, tenants in turn."""
    tenants = request.tenants
    turns = None if tenants is None else order_turns(set(tenants), request.after_tenant)
    arguments = (
        format_instant(now),
        format_instant(now + request.lease_for),
        request.worker,
        request.limit,
        request.after_tenant,
        encode_names(request.queues),
        encode_names(turns),
    )
    while True:
        shown = await database.write(LEASE, database.keys.jobs, arguments)
        if shown is not None:
            return decode_all(shown)


def extension_of(held: Sequence[HeldLease], until: datetime) -> list[Any]:
    """What the script takes."""
    return [format_instant(until), *(part for each in held for part in each)]


async def extend(database: Database, held: Sequence[HeldLease], until: datetime) -> list[bool]:
    """Whether each lease lasts until then. Asked twice it does the same as once."""
    arguments = extension_of(held, until)
    return list(map(bool, await database.read(EXTEND, database.keys.jobs, arguments)))


async def find_expired(
    database: Database, now: datetime, limit: int, after: Job | None
) -> list[Job]:
    """Jobs whose lease has run out; see the protocol."""
    last = ""
    if after is not None:
        until, job_id = expiry_key(after)
        last = format_instant(until) + job_id
    shown = await database.read(EXPIRED, database.keys.jobs, (format_instant(now), last, limit))
    return decode_all(shown)


async def next_due_at(
    database: Database,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """When the first READY job is due, from now on."""
    arguments = (format_instant(now), encode_names(queues), encode_names(tenants))
    due_at = await database.read(NEXT_DUE, database.keys.jobs, arguments)
    return None if due_at is None else parse_instant(due_at.decode())
