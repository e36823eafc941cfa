"""Sets, clears and lists the stored gates, limits and paused queues of all tenants.

A call that closes a gate returns when no worker goes by what was before: a second after its write,
if other processes may have the store open. Workers notice other changes within seconds. When two
callers change the same setting at once, the last write wins. Every change of a limit is in the
audit log: under the tenant's name, or under ``EVERYBODY`` for a queue or for all jobs.
"""

from collections.abc import Callable
from datetime import datetime
from secrets import randbits
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from rota.clock.protocol import Clock, keeps_real_time
from rota.clock.system import SystemClock
from rota.errors import InvalidInputError
from rota.jobs.fields import read_word
from rota.policy import gate_settings, limits
from rota.policy.audit import AuditedAction, TenantAudit, record_action
from rota.policy.gate_settings import (
    GATE_CHANGES,
    GATES,
    LATEST_CHANGE,
    Damage,
    Entry,
    KindNotifies,
    Scope,
    ScopedMaintenance,
    TenantQuietHours,
    decode_entry,
    encode_entry,
    kind_key,
    maintenance_key,
    quiet_hours_key,
)
from rota.policy.gates import Maintenance
from rota.policy.limits import (
    LIMIT_CHANGES,
    LIMITS,
    Limit,
    Pause,
    check_scope,
    decode_limit,
    encode_limit,
)
from rota.policy.quiet_hours import QuietHours
from rota.policy.watch import SETTLE_FOR, note_change
from rota.stores.documents import all_documents, change_document, find_document
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach

PLANNED_LIMIT = 100
"""The maximum number of planned maintenance windows per scope."""

EVERYBODY = "*"
"""The audit log name for changes that affect more than one tenant."""


class GateList(NamedTuple):
    """The stored gates in key order, and the unreadable documents."""

    entries: tuple[Entry, ...]
    damages: tuple[Damage, ...]


class LimitList(NamedTuple):
    """The stored limits in key order, and the unreadable documents."""

    limits: tuple[Limit, ...]
    damages: tuple[Damage, ...]


async def set_quiet_hours(
    store: DocumentStore, tenant: str, hours: QuietHours, *, clock: Clock | None = None
) -> None:
    """Hold back notifications for the tenant in these hours, replacing earlier quiet hours."""
    await _write_gate(store, TenantQuietHours(tenant, hours), clock)


async def clear_quiet_hours(store: DocumentStore, tenant: str) -> None:
    """Remove the tenant's quiet hours, if any."""
    await _clear_gate(store, quiet_hours_key(read_word(tenant, "tenant")))


async def set_kind_notifies(
    store: DocumentStore, kind: str, *, notifies: bool | None, clock: Clock | None = None
) -> None:
    """Say whether jobs of a kind notify people, whatever workers say; None: as they say."""
    if notifies is None:
        await _clear_gate(store, kind_key(read_word(kind, "kind")))
    else:
        await _write_gate(store, KindNotifies(kind, notifies), clock)


async def set_maintenance(
    store: DocumentStore, scope: Scope, window: Maintenance, *, clock: Clock | None = None
) -> None:
    """Run nothing in the scope during this window. Replaces the windows planned for the scope."""
    await _write_gate(store, ScopedMaintenance(scope, (window,)), clock)


async def plan_maintenance(
    store: DocumentStore,
    scope: Scope,
    window: Maintenance,
    now: datetime,
    *,
    clock: Clock | None = None,
) -> None:
    """As ``set_maintenance``, in addition to planned windows that are not over."""

    def add(document: Document | None) -> bytes:
        planned = [each for each in _windows_in(document) if not each.is_over(now)]
        if len(planned) >= PLANNED_LIMIT:
            reason = f"is one too many: {PLANNED_LIMIT} windows are planned for {scope}"
            raise InvalidInputError(f"window {reason}", {"field": "window", "reason": reason})
        return encode_entry(ScopedMaintenance(scope, (*planned, window)))

    await change_document(store, GATES, maintenance_key(scope), add)
    await _notify_gates(store)
    await _settle(store, clock)


async def clear_maintenance(store: DocumentStore, scope: Scope) -> None:
    """Remove every window of the scope, if any."""
    await _clear_gate(store, maintenance_key(scope))


async def list_gates(store: DocumentStore) -> GateList:
    """Every stored gate of all tenants."""
    found = [decode_entry(it.key, it.body) async for it in all_documents(store, GATES)]
    return GateList(
        tuple(each for each in found if not isinstance(each, Damage)),
        tuple(each for each in found if isinstance(each, Damage)),
    )


async def set_limit(
    store: DocumentStore,
    limit: Limit,
    *,
    who: str | None = None,
    why: str | None = None,
    clock: Clock | None = None,
) -> None:
    """Set the limit of its scope, replacing the earlier one. A paused queue stays paused."""
    details = {"queue": limit.queue, **msgspec.json.decode(encode_limit(limit))}
    act = AuditedAction(action="set_limit", who=who, why=why, details=details)
    await record_action(_audit(store, limit.tenant, clock), act)
    await _change_limit(store, limit.tenant, limit.queue, lambda old: _keep_pause(limit, old))


async def clear_limit(
    store: DocumentStore,
    *,
    tenant: str | None = None,
    queue: str | None = None,
    who: str | None = None,
    why: str | None = None,
    clock: Clock | None = None,
) -> None:
    """Remove the limit of this scope, if any. A paused queue stays paused."""
    check_scope(tenant, queue)
    act = AuditedAction(action="clear_limit", who=who, why=why, details={"queue": queue})
    await record_action(_audit(store, tenant, clock), act)
    await _change_limit(store, tenant, queue, _keep_only_pause)


async def pause_queue(
    store: DocumentStore,
    queue: str,
    *,
    tenant: str | None = None,
    who: str | None = None,
    why: str | None = None,
    clock: Clock | None = None,
) -> None:
    """Start no more jobs of a queue, of one tenant or of all, until it is resumed.

    Running jobs finish. A queue that is paused already keeps its pause.
    """
    check_scope(tenant, queue)
    audit = _audit(store, tenant, clock)
    act = AuditedAction(action="pause_queue", who=who, why=why, details={"queue": queue})
    await record_action(audit, act)
    paused = Pause(at=audit.clock.now(), who=who or "", why=why or "")

    def pause(old: Limit | None) -> Limit:
        if old is None:
            return Limit(tenant=tenant, queue=queue, paused=paused)
        return replace(old, paused=old.paused or paused)

    await _change_limit(store, tenant, queue, pause)


async def resume_queue(
    store: DocumentStore,
    queue: str,
    *,
    tenant: str | None = None,
    who: str | None = None,
    why: str | None = None,
    clock: Clock | None = None,
) -> None:
    """End the pause of a queue, if it is paused. Its limits hold as before."""
    check_scope(tenant, queue)
    act = AuditedAction(action="resume_queue", who=who, why=why, details={"queue": queue})
    await record_action(_audit(store, tenant, clock), act)
    await _change_limit(store, tenant, queue, _drop_pause)


def _keep_pause(limit: Limit, old: Limit | None) -> Limit:
    return limit if old is None or old.paused is None else replace(limit, paused=old.paused)


def _keep_only_pause(old: Limit | None) -> Limit | None:
    if old is None or old.paused is None:
        return None
    return Limit(tenant=old.tenant, queue=old.queue, paused=old.paused)


def _drop_pause(old: Limit | None) -> Limit | None:
    return replace(old, paused=None) if old is not None and old.is_limited else None


async def list_limits(store: DocumentStore) -> LimitList:
    """Every stored limit of all tenants and queues."""
    found = [decode_limit(it.key, it.body) async for it in all_documents(store, LIMITS)]
    return LimitList(
        tuple(each for each in found if isinstance(each, Limit)),
        tuple(each for each in found if isinstance(each, Damage)),
    )


def _audit(store: DocumentStore, tenant: str | None, clock: Clock | None) -> TenantAudit:
    whose = EVERYBODY if tenant is None else tenant
    return TenantAudit(store, whose, clock or SystemClock(), randbits)


def _windows_in(document: Document | None) -> tuple[Maintenance, ...]:
    """The windows of a document. An unreadable document is replaced."""
    entry = None if document is None else decode_entry(document.key, document.body)
    return entry.windows if isinstance(entry, ScopedMaintenance) else ()


async def _write_gate(store: DocumentStore, entry: Entry, clock: Clock | None) -> None:
    body = encode_entry(entry)
    await change_document(store, GATES, gate_settings.key_of(entry), lambda _: body)
    await _notify_gates(store)
    await _settle(store, clock)


async def _clear_gate(store: DocumentStore, key: str) -> None:
    await change_document(store, GATES, key, lambda _: None)
    await _notify_gates(store)


async def _notify_gates(store: DocumentStore) -> None:
    await _notify(store, GATE_CHANGES)
    note_change()


async def _settle(store: DocumentStore, clock: Clock | None) -> None:
    """Wait until no worker goes by what was before; see ``GateWatch``. Others need real time."""
    real = clock or SystemClock()
    if store.reach is not Reach.PROCESS and keeps_real_time(real):
        await real.sleep(SETTLE_FOR)


async def _change_limit(
    store: DocumentStore,
    tenant: str | None,
    queue: str | None,
    decide: Callable[[Limit | None], Limit | None],
) -> None:
    """Write what is decided on the stored limit. An unreadable document counts as none."""

    def change(document: Document | None) -> bytes | None:
        old = None if document is None else decode_limit(document.key, document.body)
        limit = decide(old if isinstance(old, Limit) else None)
        return None if limit is None else encode_limit(limit)

    await change_document(store, LIMITS, limits.key_of(tenant, queue), change)
    await _notify(store, LIMIT_CHANGES)


async def _notify(store: DocumentStore, collection: str) -> None:
    """Notify workers of a change.

    A stale write is fine: another caller has notified them after our change was written.
    """
    latest = await find_document(store, collection, LATEST_CHANGE)
    expected = None if latest is None else latest.version
    await store.write_each([DocumentWrite(collection, LATEST_CHANGE, expected, b"")])
