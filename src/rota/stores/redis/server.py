"""What a store finds out about its server: may it be trusted, and which layout do its keys have."""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec
from redis.exceptions import ResponseError

from rota.clock.loop import in_flight
from rota.errors import SchemaOutdatedError, StoreUnavailableError
from rota.stores.inspection import MigrationReport, StoreInspection
from rota.stores.migrations import AppliedMigration
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.connections import Connections, Examine
from rota.stores.redis.keys import LISTING_CODES, Keys, name_keys
from rota.stores.redis.rows import status_of
from rota.stores.redis.translation import NOTHING_WRITTEN

SCHEMA_VERSION = 4
"""The layout of the keys; this program cannot work with any other."""

OLDEST_VERSION = (6, 2)

Ask = Callable[..., Awaitable[Any]]
"""Sends a command to the server and returns its answer."""

logger = logging.getLogger("rota.stores.redis")


class ServerFacts(NamedTuple):
    """What a server says about itself."""

    version: str
    eviction_policy: str
    is_log_kept: bool
    log_flush: str | None
    """None if the user may not read it."""
    is_replica: bool = False

    @property
    def loss_window(self) -> str | None:
        """What a crash of the server may lose; None if nothing that was acknowledged."""
        if not self.is_log_kept:
            return (
                "appendonly is off: a crash loses everything since the last snapshot, which may be "
                "hours, or all of it"
            )
        if self.log_flush == "everysec":
            return "appendfsync is everysec: a crash loses up to about two seconds"
        if self.log_flush == "no":
            return "appendfsync is no: a crash of the machine loses up to about half a minute"
        if self.log_flush is None:
            return (
                "this user may not read the server's configuration (CONFIG GET), so appendfsync is "
                "unknown: unless it is always, a crash loses seconds"
            )
        return None


async def examine_server(label: str, keys: Keys, ask: Ask) -> None:
    """Refuse a server that may forget jobs; log a warning with what a crash may lose."""
    facts = await read_facts(ask, keys)
    numbers = tuple(int(part) for part in facts.version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_VERSION:
        raise StoreUnavailableError(
            f"The store {label} needs Redis 6.2 or Valkey 7.2 at least; this is {facts.version}",
            {"store": label, "version": facts.version},
        )
    if facts.is_replica:
        raise StoreUnavailableError(
            f"The store {label} cannot be opened: the server is a replica, which lags behind and "
            "cannot be written to; the address must lead to its primary",
            {"store": label, "reason": "the server is a replica", "outcome": NOTHING_WRITTEN},
        )
    if facts.eviction_policy != "noeviction":
        raise StoreUnavailableError(
            f"The store {label} cannot be trusted: maxmemory-policy is {facts.eviction_policy}, so "
            "the server may drop jobs when memory runs short; set it to noeviction",
            {"store": label, "maxmemory_policy": facts.eviction_policy},
        )
    if facts.loss_window is not None:
        logger.warning(
            "The store %s may lose what it has acknowledged: %s. Set appendonly to yes and "
            "appendfsync to always",
            label,
            facts.loss_window,
        )


async def read_facts(ask: Ask, keys: Keys) -> ServerFacts:
    """What the server says about itself; on a cluster, the server that has the store."""
    await ask("EXISTS", keys.schema)  # a cluster redirects it to the store's server
    text = bytes(await ask("INFO")).decode(errors="replace")
    lines = (line.partition(":") for line in text.splitlines())
    said = {name: value for name, colon, value in lines if colon}
    flush = await _ask_if_allowed(ask, "CONFIG", "GET", "appendfsync")
    return ServerFacts(
        version=said.get("redis_version", "0"),
        eviction_policy=said.get("maxmemory_policy", "noeviction"),
        is_log_kept=said.get("aof_enabled") == "1",
        log_flush=flush[1].decode() if flush else None,
        is_replica=said.get("role") == "slave",
    )


async def _ask_if_allowed(ask: Ask, *command: str) -> Any:
    """The server's answer; empty if it does not allow the command, as hosted servers may."""
    try:
        return await ask(*command)
    except ResponseError:
        return []
    except StoreUnavailableError as error:
        if not isinstance(error.__cause__, ResponseError):
            raise
        return []


async def make_ready(connections: Connections, keys: Keys) -> None:
    """Mark an empty store with this layout; SchemaOutdatedError if it has another."""
    version = await _read_schema(connections, keys)
    if version is None:
        await connections.call("SET", keys.schema, SCHEMA_VERSION, "NX")
        version = await _read_schema(connections, keys)
    problem = None if version is None else _find_problem(version)
    if problem is not None:
        raise SchemaOutdatedError(f"The store cannot be opened: {problem}", {"schema": version})


def _find_problem(version: int) -> str | None:
    """Why this program cannot work with a layout; None if it can."""
    if version > SCHEMA_VERSION:
        return f"its keys are laid out by a newer version of Rota (layout {version}): upgrade Rota"
    if version < SCHEMA_VERSION:
        return (
            f"its keys are laid out by an older version of Rota (layout {version}), and are not "
            "rewritten: use that version, or an empty store"
        )
    return None


async def _read_schema(connections: Connections, keys: Keys) -> int | None:
    """The number of the store's layout; None if there is no store."""
    found: bytes | None = await connections.call("GET", keys.schema)
    return None if found is None else msgspec.json.decode(found, type=int)


async def inspect_server(settings: RedisSettings) -> StoreInspection:
    """The state of the store; a missing one is not created."""
    keys = name_keys(settings.name)
    async with _connected(settings) as connections:
        facts = await read_facts(connections.call, keys)
        version = await _read_schema(connections, keys)
        if version is None:
            label, pending = settings.label, (_mark(SCHEMA_VERSION),)
            return StoreInspection(label, "Redis", facts.version, exists=False, pending=pending)
        documents = await _count_documents(connections, keys)
        statuses: Counter[str] = Counter()
        for code in LISTING_CODES:
            statuses[status_of(code)] += await connections.call("ZCARD", keys.listing(code))
    return StoreInspection(
        settings.label,
        "Redis",
        facts.version,
        applied=(_mark(version),),
        problem=_find_problem(version),
        document_counts=documents,
        job_counts=+statuses,
    )


async def _count_documents(connections: Connections, keys: Keys) -> dict[str, int]:
    """How many documents each collection has."""
    names, counts = keys.documents[0], {}
    first: bytes = b"-"
    while found := await connections.call("ZRANGEBYLEX", names, first, "+", "LIMIT", 0, 1):
        collection: bytes = found[0].partition(b"\0")[0]
        till = collection + b"\1"
        counts[collection.decode()] = await connections.call(
            "ZLEXCOUNT", names, b"[" + collection + b"\0", b"(" + till
        )
        first = b"[" + till
    return counts


async def migrate_server(settings: RedisSettings, _locked_for: timedelta) -> MigrationReport:
    """Create the store if there is none; nothing has to be locked for that."""
    keys = name_keys(settings.name)
    examine = partial(examine_server, settings.label, keys)
    async with _connected(settings, examine) as connections:
        before = await _read_schema(connections, keys)
        await make_ready(connections, keys)
    made = () if before is not None else (_mark(SCHEMA_VERSION),)
    return MigrationReport(made, before or SCHEMA_VERSION)


@asynccontextmanager
async def _connected(
    settings: RedisSettings, examine: Examine | None = None
) -> AsyncIterator[Connections]:
    connections = Connections(settings, examine)
    try:
        with in_flight():
            yield connections
    finally:
        await connections.close()


def _mark(version: int) -> AppliedMigration:
    """The layout of the keys as if a migration had made it."""
    return AppliedMigration(version, "keys", is_compatible=False, checksum="")
