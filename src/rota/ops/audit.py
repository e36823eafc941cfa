"""Reads a tenant's audit log, newest entry first."""

from collections.abc import Collection
from contextlib import aclosing
from datetime import datetime

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import JobId
from rota.jobs.fields import normalize_job_id
from rota.jobs.search import check_limit
from rota.policy.audit import AuditEntry, read_audit_backwards
from rota.stores.protocol import DocumentStore

MOST_KEPT = 20
"""The maximum number of entries returned for one job."""

MOST_READ = 10_000
"""The number of newest entries of a tenant searched for entries about one job."""


class AuditPage(msgspec.Struct, frozen=True):
    """One page of a tenant's audit log. The last page has no ``next_cursor``."""

    items: tuple[AuditEntry, ...]
    next_cursor: str | None

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


async def list_audit_entries(
    store: DocumentStore,
    tenant: str,
    *,
    action: str | None = None,
    job_id: JobId | None = None,
    cursor: str | None = None,
    limit: int = 20,
) -> AuditPage:
    """Return a page of the audit log, newest first. A cursor is the id of the last entry seen."""
    check_limit(limit)
    last_id = None if cursor is None else _read_cursor(cursor)
    found: list[AuditEntry] = []
    async with aclosing(read_audit_backwards(store, tenant)) as entries:
        async for entry in entries:
            if last_id is not None and entry.id >= last_id:
                continue  # seen on an earlier page
            if action in (None, entry.action) and (not job_id or job_id in entry.job_ids):
                found.append(entry)
            if len(found) > limit:
                return AuditPage(tuple(found[:limit]), found[limit - 1].id)
    return AuditPage(tuple(found), None)


async def find_audit_entries(
    store: DocumentStore, tenant: str, job_ids: Collection[JobId], since: datetime
) -> tuple[AuditEntry, ...]:
    """Find entries about any of these jobs, newest first, of the newest ``MOST_READ`` entries."""
    wanted = frozenset(job_ids)
    found: list[AuditEntry] = []
    read_count = 0
    async with aclosing(read_audit_backwards(store, tenant)) as entries:
        async for entry in entries:
            read_count += 1
            if entry.at < since or read_count > MOST_READ or len(found) == MOST_KEPT:
                break
            if not wanted.isdisjoint(entry.job_ids):
                found.append(entry)
    return tuple(found)


def _read_cursor(cursor: str) -> str:
    read = normalize_job_id(cursor)
    if read is None:
        raise InvalidInputError("cursor is not valid for the audit log", {"field": "cursor"})
    return read
