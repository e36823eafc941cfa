"""Sets, clears and lists the stored gates of all tenants.

Workers notice a change within seconds. When two callers change the same gate at once, the last
write wins.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, TypeAlias

from rota.errors import InvalidInputError, StaleVersionError
from rota.jobs.fields import read_word
from rota.policy.gate_settings import (
    GATES,
    Damage,
    Entry,
    Scope,
    ScopedMaintenance,
    TenantQuietHours,
    decode_entry,
    encode_entry,
    key_of,
    maintenance_key,
    quiet_hours_key,
)
from rota.policy.gate_watch import CHANGES, LATEST_CHANGE
from rota.policy.maintenance import Maintenance
from rota.policy.quiet_hours import QuietHours
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

WRITE_LIMIT = 20
"""How often a write is retried while others change the same gate."""

PLANNED_LIMIT = 100
"""The maximum number of planned maintenance windows per scope."""

Body: TypeAlias = bytes | None


class GateList(NamedTuple):
    """The stored gates in key order, and the unreadable documents."""

    entries: tuple[Entry, ...]
    damages: tuple[Damage, ...]


async def set_quiet_hours(store: DocumentStore, tenant: str, hours: QuietHours) -> None:
    """Hold back notifications for the tenant in these hours, replacing earlier quiet hours."""
    entry = TenantQuietHours(tenant, hours)
    body = encode_entry(entry)
    await _write(store, key_of(entry), lambda _: body)


async def clear_quiet_hours(store: DocumentStore, tenant: str) -> None:
    """Remove the tenant's quiet hours, if any."""
    await _write(store, quiet_hours_key(read_word(tenant, "tenant")), lambda _: None)


async def set_maintenance(store: DocumentStore, scope: Scope, window: Maintenance) -> None:
    """Run nothing in the scope during this window. Replaces the windows planned for the scope."""
    entry = ScopedMaintenance(scope, (window,))
    body = encode_entry(entry)
    await _write(store, key_of(entry), lambda _: body)


async def plan_maintenance(
    store: DocumentStore, scope: Scope, window: Maintenance, now: datetime
) -> None:
    """As ``set_maintenance``, in addition to planned windows that are not over."""

    def add(document: Document | None) -> bytes:
        planned = [each for each in _windows_in(document) if not each.is_over(now)]
        if len(planned) >= PLANNED_LIMIT:
            reason = f"is one too many: {PLANNED_LIMIT} windows are planned for {scope}"
            raise InvalidInputError(f"window {reason}", {"field": "window", "reason": reason})
        return encode_entry(ScopedMaintenance(scope, (*planned, window)))

    await _write(store, maintenance_key(scope), add)


async def clear_maintenance(store: DocumentStore, scope: Scope) -> None:
    """Remove every window of the scope, if any."""
    await _write(store, maintenance_key(scope), lambda _: None)


async def list_gates(store: DocumentStore) -> GateList:
    """Every stored gate of all tenants."""
    found = [
        decode_entry(document.key, document.body)
        async for page in store.scan(GATES)
        for document in page
    ]
    return GateList(
        tuple(each for each in found if not isinstance(each, Damage)),
        tuple(each for each in found if isinstance(each, Damage)),
    )


def _windows_in(document: Document | None) -> tuple[Maintenance, ...]:
    """The windows of a document. An unreadable document is replaced."""
    entry = None if document is None else decode_entry(document.key, document.body)
    return entry.windows if isinstance(entry, ScopedMaintenance) else ()


async def _write(store: DocumentStore, key: str, change: Callable[[Document | None], Body]) -> None:
    for _ in range(WRITE_LIMIT):
        document = (await store.read(GATES, [key])).get(key)
        expected = None if document is None else document.version
        write = DocumentWrite(GATES, key, expected, change(document))
        (version,) = await store.write_each([write])
        if version is not None:
            return await _tell(store)
    raise StaleVersionError(GATES, key, expected)


async def _tell(store: DocumentStore) -> None:
    """Notify workers of a change.

    A stale write is fine: another caller has notified them after our change was written.
    """
    latest = (await store.read(CHANGES, [LATEST_CHANGE])).get(LATEST_CHANGE)
    expected = None if latest is None else latest.version
    await store.write_each([DocumentWrite(CHANGES, LATEST_CHANGE, expected, b"")])
