"""Sets, clears and lists the stored limits of all tenants and queues.

Workers with a ``LimitWatch`` notice a change within seconds. When two callers change the same limit
at once, the last write wins. Every change is in the audit log: under the tenant's name, or under
``EVERYBODY`` for a queue or for all jobs.
"""

from secrets import randbits
from typing import NamedTuple

import msgspec

from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import StaleVersionError
from rota.policy.limits import (
    CHANGES,
    LATEST_CHANGE,
    LIMITS,
    Damage,
    Limit,
    check_scope,
    decode_limit,
    encode_limit,
    key_of,
)
from rota.rail.audit import AuditedAction, record_action
from rota.rail.context import RailContext, RailSettings, RailStore
from rota.stores.protocol import DocumentStore, DocumentWrite

EVERYBODY = "*"
"""The audit log name for changes that affect more than one tenant."""

WRITE_LIMIT = 20
"""How often a write is retried while others change the same limit."""


class LimitList(NamedTuple):
    """The stored limits in key order, and the unreadable documents."""

    limits: tuple[Limit, ...]
    damages: tuple[Damage, ...]


async def set_limit(
    store: RailStore,
    limit: Limit,
    *,
    who: str | None = None,
    why: str | None = None,
    clock: Clock | None = None,
) -> None:
    """Set the limit of its scope, replacing the earlier one."""
    body = encode_limit(limit)
    around = _surroundings(store, limit.tenant, clock)
    details = {"queue": limit.queue, **msgspec.json.decode(body)}
    await record_action(
        around, AuditedAction(action="set_limit", who=who, why=why, details=details)
    )
    await _write(store, key_of(limit.tenant, limit.queue), body)


async def clear_limit(
    store: RailStore,
    *,
    tenant: str | None = None,
    queue: str | None = None,
    who: str | None = None,
    why: str | None = None,
    clock: Clock | None = None,
) -> None:
    """Remove the limit of this scope, if any."""
    check_scope(tenant, queue)
    around = _surroundings(store, tenant, clock)
    act = AuditedAction(action="clear_limit", who=who, why=why, details={"queue": queue})
    await record_action(around, act)
    await _write(store, key_of(tenant, queue), None)


async def list_limits(store: DocumentStore) -> LimitList:
    """Every stored limit of all tenants and queues."""
    found = [
        decode_limit(document.key, document.body)
        async for page in store.scan(LIMITS)
        for document in page
    ]
    return LimitList(
        tuple(each for each in found if isinstance(each, Limit)),
        tuple(each for each in found if isinstance(each, Damage)),
    )


def _surroundings(store: RailStore, tenant: str | None, clock: Clock | None) -> RailContext:
    whose = EVERYBODY if tenant is None else tenant
    return RailContext(store, whose, clock or SystemClock(), RailSettings(), randbits)


async def _write(store: DocumentStore, key: str, body: bytes | None) -> None:
    for _ in range(WRITE_LIMIT):
        document = (await store.read(LIMITS, [key])).get(key)
        expected = None if document is None else document.version
        (version,) = await store.write_each([DocumentWrite(LIMITS, key, expected, body)])
        if version is not None:
            return await _tell(store)
    raise StaleVersionError(LIMITS, key, expected)


async def _tell(store: DocumentStore) -> None:
    """Notify workers of a change.

    A stale write is fine: another caller has notified them after our change was written.
    """
    latest = (await store.read(CHANGES, [LATEST_CHANGE])).get(LATEST_CHANGE)
    expected = None if latest is None else latest.version
    await store.write_each([DocumentWrite(CHANGES, LATEST_CHANGE, expected, b"")])
