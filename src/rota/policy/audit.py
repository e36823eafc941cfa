"""The audit log: who did what to which jobs, when and why. Append-only, until retention.

Each tenant has its own collection, newest entry first, so that reading the last few entries does
not read the whole log.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from rota.clock.protocol import Clock
from rota.errors import InvalidInputError, StaleVersionError, StoreError, invalid
from rota.jobs import JobId, make_job_id
from rota.jobs.fields import RANDOM_BITS, read_name
from rota.stores.documents import all_documents, remove_documents
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

AUDIT = "audit"
"""The prefix of the collections, before a colon and the tenant.

Earlier versions used one collection with this name; its keys are the tenant, a slash and an id that
sorts by time.
"""

AUDITED = "audited"
"""The collection whose keys are the tenants that have entries."""

LONGEST_WHY = 2_000

_COMPLEMENT = str.maketrans("0123456789abcdef", "fedcba9876543210")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recorded action, written before the action itself."""

    id: str
    tenant: str
    at: datetime
    action: str
    who: str
    why: str
    job_ids: tuple[JobId, ...] = ()
    details: dict[str, Any] = {}


class AuditedAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action about to happen: who, what and why."""

    action: str
    who: str | None = None
    why: str | None = None
    job_ids: Sequence[JobId] = ()
    details: Mapping[str, Any] = {}


class AuditContext(Protocol):
    """What an entry needs besides the action itself."""

    @property
    def store(self) -> DocumentStore: ...
    @property
    def tenant(self) -> str: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def draw_bits(self) -> Callable[[int], int]:
        """Draws random bits, for the id of an entry."""
        ...


class TenantAudit(msgspec.Struct, frozen=True):
    """An ``AuditContext`` for a tenant without a rail."""

    store: DocumentStore
    tenant: str
    clock: Clock
    draw_bits: Callable[[int], int]


async def record_action(around: AuditContext, act: AuditedAction) -> AuditEntry:
    """Append an entry. Entries are never changed, and only retention removes them."""
    now = around.clock.now()
    entry = AuditEntry(
        id=make_job_id(now, around.draw_bits(RANDOM_BITS)),
        tenant=around.tenant,
        at=now,
        action=read_name(act.action, "action"),
        who="unknown" if act.who is None else read_name(act.who, "who"),
        why=_read_why(act.why),
        job_ids=tuple(act.job_ids),
        details=dict(act.details),
    )
    key, body = entry.id.translate(_COMPLEMENT), _encode(entry)
    collection = collection_of(around.tenant)
    writes = [
        DocumentWrite(collection, key, None, body),
        DocumentWrite(AUDITED, around.tenant, None, b""),  # stale, but for the first entry
    ]
    if (await around.store.write_each(writes))[0] is None:
        raise StaleVersionError(collection, key, None)
    return entry


def _encode(entry: AuditEntry) -> bytes:
    try:
        return msgspec.json.encode(entry)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise invalid("details", f"must be JSON: {error}") from error


def collection_of(tenant: str) -> str:
    """The tenant's collection.

    Its keys are ids with every digit inverted, so that the newest sorts first.
    """
    return f"{AUDIT}:{tenant}"


async def read_audit(store: DocumentStore, tenant: str) -> AsyncIterator[AuditEntry]:
    """Everything done to a tenant's jobs, oldest first."""
    entries = [entry async for entry in read_audit_backwards(store, tenant)]
    for entry in reversed(entries):
        yield entry


async def read_audit_backwards(
    store: DocumentStore, tenant: str
) -> AsyncGenerator[AuditEntry, None]:
    """Everything done to a tenant's jobs, newest first. Stopping early reads no further."""
    async for document in all_documents(store, collection_of(tenant)):
        yield _decode(document.key, document.body)
    prefix = f"{tenant}/"
    earlier = [it async for it in all_documents(store, AUDIT) if it.key.startswith(prefix)]
    for document in reversed(earlier):
        yield _decode(document.key, document.body)


async def list_audited(store: DocumentStore) -> list[str]:
    """The tenants that have entries, by name."""
    tenants = {it.key async for it in all_documents(store, AUDITED)}
    tenants |= {it.key.partition("/")[0] async for it in all_documents(store, AUDIT)}
    return sorted(tenants)


async def prune_audit(store: DocumentStore, tenant: str, before: datetime) -> int:
    """Remove the entries of a tenant that are older; how many."""
    count = 0
    for collection, prefix in ((collection_of(tenant), ""), (AUDIT, f"{tenant}/")):

        def is_old(document: Document, prefix: str = prefix) -> bool:
            return document.key.startswith(prefix) and _is_older(document, before)

        count += await remove_documents(store, collection, is_old)
    return count


def _is_older(document: Document, before: datetime) -> bool:
    """An entry that cannot be read stays."""
    try:
        return _decode(document.key, document.body).at < before
    except StoreError:
        return False


def _decode(key: str, body: bytes) -> AuditEntry:
    try:
        return msgspec.json.decode(body, type=AuditEntry)
    except msgspec.DecodeError as error:
        raise StoreError(f"Audit entry {key} cannot be read: {error}", {"key": key}) from error


def _read_why(why: object) -> str:
    if why is None:
        return ""
    if not isinstance(why, str) or len(why) > LONGEST_WHY:
        raise InvalidInputError(
            f"why must be a text of at most {LONGEST_WHY} characters", {"field": "why"}
        )
    return why.encode("utf-8", "backslashreplace").decode()
