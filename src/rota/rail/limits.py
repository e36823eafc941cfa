"""The limits of all tenants and queues, as they are kept: set, cleared and listed.

Workers that follow them with a ``LimitWatch`` notice a change within seconds. Of two that change
the same limit at once the later one holds. Everything is written into the audit log: for a tenant
under its name, for a queue or for all jobs under ``EVERYBODY``.
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
from rota.rail.audit import Act, record_act
from rota.rail.context import RailSettings, RailStore, Surroundings
from rota.stores.protocol import DocumentStore, DocumentWrite

EVERYBODY = "*"
"""Under which the audit log has what concerns more than one tenant."""

WRITE_LIMIT = 20
"""So often a write is tried while others change the same limit."""


class LimitList(NamedTuple):
    """What is kept, in the order of its keys, and what of it cannot be read."""

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
    """This holds for its scope from now on, in the place of what held before."""
    body = encode_limit(limit)
    around = _surroundings(store, limit.tenant, clock)
    details = {"queue": limit.queue, **msgspec.json.decode(body)}
    await record_act(around, Act(action="set_limit", who=who, why=why, details=details))
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
    """Nothing of its own holds for this scope any more; it is no error if nothing did."""
    check_scope(tenant, queue)
    around = _surroundings(store, tenant, clock)
    act = Act(action="clear_limit", who=who, why=why, details={"queue": queue})
    await record_act(around, act)
    await _write(store, key_of(tenant, queue), None)


async def list_limits(store: DocumentStore) -> LimitList:
    """Every limit that is kept, of all tenants and queues."""
    found = [
        decode_limit(document.key, document.body)
        async for page in store.scan(LIMITS)
        for document in page
    ]
    return LimitList(
        tuple(each for each in found if isinstance(each, Limit)),
        tuple(each for each in found if isinstance(each, Damage)),
    )


def _surroundings(store: RailStore, tenant: str | None, clock: Clock | None) -> Surroundings:
    whose = EVERYBODY if tenant is None else tenant
    return Surroundings(store, whose, clock or SystemClock(), RailSettings(), randbits)


async def _write(store: DocumentStore, key: str, body: bytes | None) -> None:
    for _ in range(WRITE_LIMIT):
        document = (await store.read(LIMITS, [key])).get(key)
        expected = None if document is None else document.version
        (version,) = await store.write_each([DocumentWrite(LIMITS, key, expected, body)])
        if version is not None:
            return await _tell(store)
    raise StaleVersionError(LIMITS, key, expected)


async def _tell(store: DocumentStore) -> None:
    """Let workers know that something has changed.

    A stale write is as good: then somebody else has told them, after our own change was written.
    """
    latest = (await store.read(CHANGES, [LATEST_CHANGE])).get(LATEST_CHANGE)
    expected = None if latest is None else latest.version
    await store.write_each([DocumentWrite(CHANGES, LATEST_CHANGE, expected, b"")])
