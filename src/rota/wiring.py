"""From an address to a store. The only module that names a backend."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from rota.clock.corrected import CorrectedClock
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import InvalidStoreUrlError, StoreUnavailableError
from rota.stores.memory import MemoryStore
from rota.stores.protocol import OpenStore

_NOT_YET = ("mongodb", "redis")
_POSTGRES = ("postgresql", "postgres")


async def open_store(url: str) -> OpenStore:
    """Open the store at ``url``, made ready if it is new.

    ``memory://``, ``sqlite:///rota.db`` or ``postgresql://user@host/database``.
    Close it when done, or say ``async with await open_store(url) as store``. Raises
    InvalidStoreUrlError when the address names no store, before anything is touched.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidStoreUrlError(url, "it does not start with a scheme, such as sqlite:///")
    if scheme == "memory":
        return _open_memory(url, rest)
    if scheme == "sqlite":
        return await _open_sqlite(url, rest)
    if scheme in _POSTGRES:
        return await _open_postgres(url)
    if scheme in _NOT_YET:
        raise InvalidStoreUrlError(url, f"{scheme} is not available in this version")
    raise InvalidStoreUrlError(url, "known schemes are memory, postgresql and sqlite")


class StoreWithClock(Protocol):
    """A store, as far as its time goes."""

    async def read_clock(self) -> datetime | None:
        """The store's own clock; None where it is the host's."""
        ...


@asynccontextmanager
async def open_clock(store: StoreWithClock) -> AsyncIterator[Clock]:
    """The clock of all who share ``store``, kept right for as long as the context lasts.

    Where the store has no clock of its own it is the host's.
    """
    if await store.read_clock() is None:
        yield SystemClock()
        return
    async with CorrectedClock(SystemClock(), store.read_clock) as clock:
        yield clock


def _open_memory(url: str, rest: str) -> OpenStore:
    if rest:
        raise InvalidStoreUrlError(url, "a store in memory has no name: write memory://")
    return MemoryStore()


async def _open_sqlite(url: str, rest: str) -> OpenStore:
    from rota.stores.sqlite.connection import SqliteSettings  # noqa: PLC0415 - loads the driver
    from rota.stores.sqlite.store import SqliteStore  # noqa: PLC0415 - loads the driver

    return await SqliteStore.open(SqliteSettings(_sqlite_path(url, rest)))


def _sqlite_path(url: str, rest: str) -> Path:
    host, slash, name = rest.partition("/")
    if host or not slash:
        raise InvalidStoreUrlError(
            url, "write sqlite:///relative.db or sqlite:////absolute/path.db"
        )
    if name == ":memory:":
        raise InvalidStoreUrlError(url, "for a store that is not kept, write memory://")
    if not name or name.endswith("/"):
        raise InvalidStoreUrlError(url, "it names no file")
    if "\0" in name or "?" in name or "#" in name:
        raise InvalidStoreUrlError(url, "the file's name must not hold ?, # or NUL")
    return Path(name).absolute()


async def _open_postgres(url: str) -> OpenStore:
    try:
        from rota.stores.postgres.address import read_address  # noqa: PLC0415 - as below
        from rota.stores.postgres.store import PostgresStore  # noqa: PLC0415 - loads the driver
    except ModuleNotFoundError as error:
        raise StoreUnavailableError(
            "A store in PostgreSQL needs the driver asyncpg, which is not installed: "
            "pip install 'rota[postgres]'",
            {"missing": str(error.name), "extra": "rota[postgres]"},
        ) from error
    return await PostgresStore.open(read_address(url))
