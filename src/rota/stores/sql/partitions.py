"""The steps from one partition with due jobs to the next, as statements."""

from typing import Any

from rota.stores.kernel.partitions import (
    DuePartition,
    FirstLater,
    FirstMarked,
    IsDue,
    NextPartition,
)
from rota.stores.kernel.unit import Query
from rota.stores.sql.session import Session

_LAST_QUEUE = chr(0x10FFFF) * 256
"""No queue sorts after it."""


async def answer_step(session: Session, query: Query) -> Any:
    """Answer the queries of ``kernel.partitions``."""
    fetch, queries = session.fetch, session.queries
    match query:
        case NextPartition(tenant, queue):
            place = _LAST_QUEUE if queue is None else queue
            rows = await fetch(queries.next_partition, tenant=tenant, queue=place)
            return next(map(DuePartition._make, rows), None)
        case IsDue(tenant, queue, now):
            rows = await fetch(queries.is_partition_due, tenant=tenant, queue=queue, now=now)
            return bool(list(rows))
        case FirstMarked(tenant, queue):
            rows = await fetch(queries.first_in_partition, tenant=tenant, queue=queue)
        case FirstLater(queue, tenants):
            chosen = {"tenants": None if tenants is None else sorted(tenants)}
            if queue is None:
                rows = await fetch(queries.first_later, **chosen)
            else:
                rows = await fetch(queries.first_later_of_queue, **chosen, queue=queue)
        case _:
            raise TypeError(f"unknown query: {query!r}")
    return next((due_at for (due_at,) in rows), None)
