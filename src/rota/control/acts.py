"""What was done to a tenant's jobs, and by whom, the newest first."""

from collections import deque
from collections.abc import Collection

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import JobId
from rota.jobs.identity import normalize_job_id
from rota.jobs.listing.search import check_limit
from rota.rail.audit import AuditEntry, read_audit
from rota.stores.protocol import DocumentStore

MOST_KEPT = 20
"""So many acts on one job are told of."""


class AuditPage(msgspec.Struct, frozen=True):
    """One page of a tenant's audit log; without a ``next_cursor`` it is the last."""

    items: tuple[AuditEntry, ...]
    next_cursor: str | None

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


async def list_acts(
    store: DocumentStore,
    tenant: str,
    *,
    action: str | None = None,
    job_id: JobId | None = None,
    cursor: str | None = None,
    limit: int = 20,
) -> AuditPage:
    """A page of what was done, the newest first; a cursor is the id of the last entry before it."""
    check_limit(limit)
    last_id = None if cursor is None else _read_cursor(cursor)
    found: deque[AuditEntry] = deque(maxlen=limit + 1)
    async for entry in read_audit(store, tenant):
        if last_id is not None and entry.id >= last_id:
            break  # they come in the order of their ids
        if action not in (None, entry.action) or (job_id and job_id not in entry.job_ids):
            continue
        found.append(entry)
    newest = tuple(reversed(found))
    has_more = len(newest) > limit
    return AuditPage(newest[:limit], newest[limit - 1].id if has_more else None)


async def find_acts(
    store: DocumentStore, tenant: str, job_ids: Collection[JobId]
) -> tuple[AuditEntry, ...]:
    """What was done to one of these jobs, the newest first."""
    wanted = frozenset(job_ids)
    found: deque[AuditEntry] = deque(maxlen=MOST_KEPT)
    async for entry in read_audit(store, tenant):
        if not wanted.isdisjoint(entry.job_ids):
            found.append(entry)
    return tuple(reversed(found))


def _read_cursor(cursor: str) -> str:
    read = normalize_job_id(cursor)
    if read is None:
        raise InvalidInputError("cursor is no place in the audit log", {"field": "cursor"})
    return read
