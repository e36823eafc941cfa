"""The steps from one partition with due jobs to the next, as statements."""

from collections.abc import Collection
from typing import Any

from rota.stores.kernel.partitions import DuePartition
from rota.stores.sql.session import Session

_LAST_QUEUE = chr(0x10FFFF) * 256
"""No queue sorts after it."""


class Steps:
    """Answers the queries of ``kernel.partitions``."""

    def __init__(self, session: Session) -> None:
        self._fetch = session.fetch
        self._queries = session.queries

    async def next_partition(self, tenant: str, queue: str | None) -> DuePartition | None:
        place = _LAST_QUEUE if queue is None else queue
        rows = await self._fetch(self._queries.next_partition, tenant=tenant, queue=place)
        return next(map(DuePartition._make, rows), None)

    async def first_marked(self, tenant: str, queue: str, now: int) -> int | None:
        place = {"tenant": tenant, "queue": queue, "now": now}
        return await self._first(self._queries.first_in_partition, **place)

    async def first_later(self, queue: str | None, tenants: Collection[str] | None) -> int | None:
        chosen = {"tenants": None if tenants is None else sorted(tenants)}
        if queue is None:
            return await self._first(self._queries.first_later, **chosen)
        return await self._first(self._queries.first_later_of_queue, **chosen, queue=queue)

    async def _first(self, statement: str, **values: Any) -> int | None:
        return next((due_at for (due_at,) in await self._fetch(statement, **values)), None)
