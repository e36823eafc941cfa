"""Whether a server can be trusted with a store, and what it may lose."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from redis.exceptions import ResponseError

from rota.errors import SchemaOutdatedError, StoreUnavailableError
from rota.stores.redis.connections import Connections
from rota.stores.redis.keys import Keys
from rota.stores.redis.translation import NOTHING_WRITTEN

SCHEMA_VERSION = 2
"""How the keys are laid out; this program cannot work with any other layout."""

OLDEST_VERSION = (6, 2)

Ask = Callable[..., Awaitable[Any]]
"""Gives what the server answers to a command."""

logger = logging.getLogger("rota.stores.redis")


class ServerFacts(NamedTuple):
    """What a server says of itself."""

    version: str
    eviction_policy: str
    is_log_kept: bool
    log_flush: str | None
    """None when it is not for this user to know."""
    is_replica: bool = False

    @property
    def loss_window(self) -> str | None:
        """What a crash of the server may lose; None when nothing that was acknowledged."""
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
    """Refuse a server that may forget; a warning names what a crash may lose."""
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
            "cannot be written to; the address must lead to the one that it follows",
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
    """What the server says of itself; on a cluster, the one where the store lies."""
    await ask("EXISTS", keys.schema)  # leads there
    said = _read_lines(await ask("INFO"))
    flush = await _ask_if_allowed(ask, "CONFIG", "GET", "appendfsync")
    return ServerFacts(
        version=said.get("redis_version", "0"),
        eviction_policy=said.get("maxmemory_policy", "noeviction"),
        is_log_kept=said.get("aof_enabled") == "1",
        log_flush=flush[1].decode() if flush else None,
        is_replica=said.get("role") == "slave",
    )


async def make_ready(connections: Connections, keys: Keys) -> None:
    """Mark the store as one of this layout; SchemaOutdatedError when it is one of another."""
    version = await read_schema(connections, keys)
    if version is None:
        await connections.call("SET", keys.schema, SCHEMA_VERSION, "NX")
        version = await read_schema(connections, keys)
    problem = None if version is None else find_problem(version)
    if problem is not None:
        raise SchemaOutdatedError(f"The store cannot be opened: {problem}", {"schema": version})


def find_problem(version: int) -> str | None:
    """Why this program cannot work with a layout; None when it can."""
    if version > SCHEMA_VERSION:
        return f"its keys are laid out by a newer version of Rota (layout {version}): upgrade Rota"
    if version < SCHEMA_VERSION:
        return (
            f"its keys are laid out by an older version of Rota (layout {version}), and are not "
            "rewritten: use that version, or an empty store"
        )
    return None


async def read_schema(connections: Connections, keys: Keys) -> int | None:
    """The number of the store's layout; None where there is no store."""
    found: bytes | None = await connections.call("GET", keys.schema)
    return None if found is None else msgspec.json.decode(found, type=int)


async def _ask_if_allowed(ask: Ask, *command: str) -> Any:
    """What the server answers; nothing when it keeps that to itself, as hosted servers may."""
    try:
        return await ask(*command)
    except ResponseError:
        return []
    except StoreUnavailableError as error:
        if not isinstance(error.__cause__, ResponseError):
            raise
        return []


def _read_lines(text: Any) -> dict[str, str]:
    lines = (line.partition(":") for line in bytes(text).decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}
