"""The gates of all tenants, as they are kept: set, cleared and listed.

Workers notice a change within seconds. Of two that change the same gate at once the later one
holds.
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
"""So often a write is tried while others change the same gate."""

PLANNED_LIMIT = 100
"""So many windows of maintenance may be planned for one scope."""

Body: TypeAlias = bytes | None


class GateList(NamedTuple):
    """What is kept, in the order of its keys, and what of it cannot be read."""

    entries: tuple[Entry, ...]
    damages: tuple[Damage, ...]


async def set_quiet_hours(store: DocumentStore, tenant: str, hours: QuietHours) -> None:
    """The tenant's people are not told anything in these hours, and in no others."""
    entry = TenantQuietHours(tenant, hours)
    body = encode_entry(entry)
    await _write(store, key_of(entry), lambda _: body)


async def clear_quiet_hours(store: DocumentStore, tenant: str) -> None:
    """The tenant has no quiet hours; it is no error if there were none."""
    await _write(store, quiet_hours_key(read_word(tenant, "tenant")), lambda _: None)


async def set_maintenance(store: DocumentStore, scope: Scope, window: Maintenance) -> None:
    """Nothing in the scope runs while this lasts. It replaces what was planned for the scope."""
    entry = ScopedMaintenance(scope, (window,))
    body = encode_entry(entry)
    await _write(store, key_of(entry), lambda _: body)


async def plan_maintenance(
    store: DocumentStore, scope: Scope, window: Maintenance, now: datetime
) -> None:
    """As ``set_maintenance``, beside the windows that are planned already and not over."""

    def add(document: Document | None) -> bytes:
        planned = [each for each in _windows_in(document) if not each.is_over(now)]
        if len(planned) >= PLANNED_LIMIT:
            reason = f"is one too many: {PLANNED_LIMIT} windows are planned for {scope}"
            raise InvalidInputError(f"window {reason}", {"field": "window", "reason": reason})
        return encode_entry(ScopedMaintenance(scope, (*planned, window)))

    await _write(store, maintenance_key(scope), add)


async def clear_maintenance(store: DocumentStore, scope: Scope) -> None:
    """Whatever was set or planned for the scope is over; it is no error if nothing was."""
    await _write(store, maintenance_key(scope), lambda _: None)


async def list_gates(store: DocumentStore) -> GateList:
    """Every gate that is kept, of all tenants."""
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
    """A document that cannot be read says nothing, and is replaced."""
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
    """Let workers know that something has changed.

    A stale write is as good: then somebody else has told them, after our own change was written.
    """
    latest = (await store.read(CHANGES, [LATEST_CHANGE])).get(LATEST_CHANGE)
    expected = None if latest is None else latest.version
    await store.write_each([DocumentWrite(CHANGES, LATEST_CHANGE, expected, b"")])
