"""Which list a page and a count read, and the next due time; the rest is that of all dialects."""

from collections.abc import Collection
from datetime import datetime
from functools import partial

from rota.jobs import JobFilter, Page
from rota.stores.kernel.partitions import find_next_due
from rota.stores.kernel.unit import run_async
from rota.stores.mysql.connections import Session
from rota.stores.mysql.lease import answer_step
from rota.stores.mysql.queries import QUERIES
from rota.stores.rows import to_instant, to_micros
from rota.stores.sql.read import (
    attempts,
    count_listed,
    find_dependents,
    find_expired,
    find_listed,
    get,
    read_document_portion,
    read_job_portion,
    results,
    survey,
)

__all__ = [
    "attempts",
    "count",
    "find",
    "find_dependents",
    "find_expired",
    "get",
    "next_due_at",
    "read_document_portion",
    "read_job_portion",
    "results",
    "survey",
]


async def find(session: Session, wanted: JobFilter, cursor: str | None, limit: int) -> Page:
    """A page of the jobs of the filter's tenant."""
    return await find_listed(session, _choose_list(wanted), wanted, cursor, limit)


async def count(session: Session, wanted: JobFilter, limit: int | None) -> int:
    """How many jobs of its tenant the filter accepts."""
    statement = QUERIES.count_listed.replace(":jobs", _choose_list(wanted))
    return await count_listed(session, statement, wanted, limit)


def _choose_list(wanted: JobFilter) -> str:
    if wanted.only_dead:
        return QUERIES.list_dead
    if wanted.is_of_series:
        return QUERIES.list_recurring
    return QUERIES.list_any if wanted.status is None else QUERIES.list_of_status


async def next_due_at(
    session: Session,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """See ``JobStore.next_due_at``."""
    plan = find_next_due(queues, tenants, to_micros(now))
    due_at = await run_async(plan, partial(answer_step, session))
    return None if due_at is None else to_instant(due_at)
