"""From an address to a store. The only module that names a backend."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from rota.clock.corrected import CorrectedClock
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import InvalidStoreUrlError, StoreUnavailableError
from rota.ops.store_comparison import refuse_unfinished
from rota.stores.inspection import MigrationReport, StoreInspection
from rota.stores.opened import OpenStore
from rota.stores.shards import PREFIX as SHARDS

Settings = TypeVar("Settings")

DEFAULT_STORE = "sqlite:///rota.db"

LOCKED_FOR = timedelta(seconds=10)
"""How long a migration waits for a locked store."""

_MONGO = ("mongodb", "mongodb+srv")
_MYSQL = ("mysql", "mariadb")
_POSTGRES = ("postgresql", "postgres")
_REDIS = ("redis", "rediss", "unix", "redis+unix", "redis+sentinel", "rediss+sentinel")


async def open_store(url: str) -> OpenStore:
    """Open the store at ``url``. A new store is created, an old schema is migrated.

    ``memory://``, ``sqlite:///rota.db``, ``postgresql://user@host/database``,
    ``mysql://user@host/database``, ``mongodb://host/database`` or ``redis://host:6379/0``; or
    several of these as shards: ``shards:one=ADDRESS|two=ADDRESS`` or ``shards:///shards.toml``.
    Close it when done, or write ``async with await open_store(url) as store``. Raises
    InvalidStoreUrlError for an invalid address, before anything is touched, and
    CopyUnfinishedError when a copy into the store is not finished.
    """
    store = await find_backend(url).open()
    try:
        await refuse_unfinished(store)
    except BaseException:
        await store.close()
        raise
    return store


def check_address(url: str) -> None:
    """Raise InvalidStoreUrlError for an invalid address. Opens nothing."""
    given: object = url
    if not isinstance(given, str):
        raise InvalidStoreUrlError(str(url), f"it is not a text but a {type(url).__name__}")
    find_backend(url)


def is_missing(url: str) -> bool:
    """Whether the store is a file that does not exist, and ``open_store`` would create it.

    False when that cannot be found out: ``open_store`` then raises the reason.
    """
    if url.startswith(SHARDS):
        return any(map(is_missing, _read_shards(url).values()))
    scheme, _, rest = url.partition("://")
    try:
        return scheme == "sqlite" and not _sqlite_path(url, rest).exists()
    except OSError:
        return False


async def inspect_store(url: str) -> StoreInspection:
    """Inspect the store at ``url`` without creating or changing anything.

    Raises what ``open_store`` raises, except that an unsupported schema is part of the result.
    """
    return await find_backend(url).inspect()


async def migrate_store(url: str, locked_for: timedelta = LOCKED_FOR) -> MigrationReport:
    """Create the store at ``url`` if it does not exist, and migrate its schema.

    Waits up to ``locked_for`` while others keep it locked. When it raises, the schema is unchanged.
    """
    return await find_backend(url).migrate(locked_for)


class StoreWithClock(Protocol):
    """A store, as far as its time goes."""

    async def read_clock(self) -> datetime | None:
        """The store's own clock; None where it is the host's."""
        ...


@asynccontextmanager
async def open_clock(store: StoreWithClock) -> AsyncIterator[Clock]:
    """The clock that all processes on ``store`` share, corrected while the context lasts.

    It is the host's clock when the store has none.
    """
    if await store.read_clock() is None:
        yield SystemClock()
        return
    async with CorrectedClock(SystemClock(), store.read_clock) as clock:
        yield clock


class Backend(msgspec.Struct, frozen=True):
    """The functions of one backend, for a valid address and with the driver loaded."""

    open: Callable[[], Awaitable[OpenStore]]
    inspect: Callable[[], Awaitable[StoreInspection]]
    migrate: Callable[[timedelta], Awaitable[MigrationReport]]


def find_backend(url: str) -> Backend:
    """The backend of an address. Raises InvalidStoreUrlError when there is none."""
    if url.startswith(SHARDS):
        return _shards(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidStoreUrlError(url, "it does not start with a scheme, such as sqlite:///")
    if scheme == "memory":
        return _memory(url, rest)
    if scheme == "sqlite":
        return _sqlite(_sqlite_path(url, rest))
    servers = {_POSTGRES: _postgres, _REDIS: _redis, _MONGO: _mongo, _MYSQL: _mysql}
    for schemes, make in servers.items():
        if scheme in schemes:
            return make(url)
    raise InvalidStoreUrlError(
        url, "known schemes are memory, mongodb, mysql, postgresql, redis, shards and sqlite"
    )


def _read_shards(url: str) -> dict[str, str]:
    from rota.stores.shards.address import read_address  # noqa: PLC0415 - loads a reader of TOML

    return read_address(url)


def _shards(url: str) -> Backend:
    from rota.stores.shards.merge import merge_inspections  # noqa: PLC0415 - as below
    from rota.stores.shards.store import ShardedStore  # noqa: PLC0415 - other stores do not need it

    backends = {name: find_backend(address) for name, address in _read_shards(url).items()}

    async def inspect() -> StoreInspection:
        found = {name: await each.inspect() for name, each in backends.items()}
        return merge_inspections(found)

    async def migrate(locked_for: timedelta) -> MigrationReport:
        reports = [await each.migrate(locked_for) for each in backends.values()]
        applied = tuple(mark for report in reports for mark in report.applied)
        return MigrationReport(applied, reports[0].schema_version)

    openers = {name: each.open for name, each in backends.items()}
    return Backend(partial(ShardedStore.open, openers, SystemClock()), inspect, migrate)


def _memory(url: str, rest: str) -> Backend:
    if rest:
        raise InvalidStoreUrlError(url, "a store in memory has no name: write memory://")

    from rota.stores.memory import MemoryStore  # noqa: PLC0415 - other stores do not need it

    async def make() -> OpenStore:
        return MemoryStore()

    async def inspect() -> StoreInspection:
        return StoreInspection("memory://", "memory")

    async def migrate(_: timedelta) -> MigrationReport:
        return MigrationReport((), 0)

    return Backend(make, inspect, migrate)


def _sqlite(path: Path) -> Backend:
    from rota.stores.sqlite import connection, inspection, store  # noqa: PLC0415 - loads the driver

    settings = connection.SqliteSettings(path)
    return Backend(
        partial(store.SqliteStore.open, settings),
        partial(inspection.inspect_file, settings),
        lambda locked_for: inspection.migrate_file(replace(settings, busy_for=locked_for)),
    )


def _sqlite_path(url: str, rest: str) -> Path:
    host, slash, name = rest.partition("/")
    if host or not slash:
        raise InvalidStoreUrlError(
            url, "write sqlite:///relative.db or sqlite:////absolute/path.db"
        )
    if name == ":memory:":
        raise InvalidStoreUrlError(url, "for a store in memory, write memory://")
    if not name or name.endswith("/"):
        raise InvalidStoreUrlError(url, "the name of the file is missing")
    if "\0" in name or "?" in name or "#" in name:
        raise InvalidStoreUrlError(url, "the file's name must not hold ?, # or NUL")
    return Path(name).absolute()


@contextmanager
def _needing_driver(store: str, driver: str, extra: str) -> Iterator[None]:
    """Say what to install when the driver that is imported inside is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise StoreUnavailableError(
            f"A store in {store} needs the driver {driver}, which is not installed: "
            f"pip install 'rota[{extra}]'",
            {"missing": str(error.name), "extra": f"rota[{extra}]"},
        ) from error


def _postgres(url: str) -> Backend:
    with _needing_driver("PostgreSQL", "asyncpg", "postgres"):
        from rota.stores.postgres import address, schema, store  # noqa: PLC0415 - loads the driver
    settings = address.read_address(url)
    return _bind(
        settings, store.PostgresStore.open, schema.inspect_database, schema.migrate_database
    )


def _redis(url: str) -> Backend:
    with _needing_driver("Redis", "redis", "redis"):
        from rota.stores.redis import address, server, store  # noqa: PLC0415 - loads the driver
    settings = address.read_address(url)
    return _bind(settings, store.RedisStore.open, server.inspect_server, server.migrate_server)


def _mongo(url: str) -> Backend:
    with _needing_driver("MongoDB", "pymongo", "mongo"):
        from rota.stores.mongo import address, schema, store  # noqa: PLC0415 - loads the driver
    settings = address.read_address(url)
    return _bind(settings, store.MongoStore.open, schema.inspect_database, schema.migrate_database)


def _mysql(url: str) -> Backend:
    with _needing_driver("MariaDB or MySQL", "asyncmy", "mysql"):
        from rota.stores.mysql import address, schema, store  # noqa: PLC0415 - loads the driver
    settings = address.read_address(url)
    return _bind(settings, store.MysqlStore.open, schema.inspect_database, schema.migrate_database)


def _bind(
    settings: Settings,
    open_store: Callable[[Settings], Awaitable[OpenStore]],
    inspect: Callable[[Settings], Awaitable[StoreInspection]],
    migrate: Callable[[Settings, timedelta], Awaitable[MigrationReport]],
) -> Backend:
    return Backend(
        partial(open_store, settings), partial(inspect, settings), partial(migrate, settings)
    )
