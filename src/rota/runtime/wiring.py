"""From an address to a store. The only module that names a backend."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from rota.clock.corrected import CorrectedClock
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import InvalidStoreUrlError, StoreUnavailableError
from rota.ops.store_comparison import MarkedTarget, Tell, refuse_same_store, refuse_unfinished
from rota.ops.store_copy import (
    CopyPlan,
    CopyReport,
    check_idle,
    copy_everything,
    plan_copy,
    recognise_copy,
)
from rota.stores.inspection import MigrationReport, StoreInspection
from rota.stores.memory import MemoryStore
from rota.stores.opened import OpenStore

LOCKED_FOR = timedelta(seconds=10)
"""How long others may keep a store locked before a migration gives up."""

_MONGO = ("mongodb", "mongodb+srv")
_POSTGRES = ("postgresql", "postgres")
_REDIS = ("redis", "rediss", "unix", "redis+unix", "redis+sentinel", "rediss+sentinel")


async def open_store(url: str) -> OpenStore:
    """Open the store at ``url``, made ready if it is new and brought up to date if it is old.

    ``memory://``, ``sqlite:///rota.db``, ``postgresql://user@host/database``,
    ``mongodb://host/database`` or ``redis://host:6379/0``.
    Close it when done, or say ``async with await open_store(url) as store``. Raises
    InvalidStoreUrlError when the address names no store, before anything is touched, and
    CopyUnfinishedError when ``copy_store`` into it has not come to its end.
    """
    store = await _find_backend(url).open()
    try:
        await refuse_unfinished(store)
    except BaseException:
        await store.close()
        raise
    return store


def check_address(url: str) -> None:
    """Refuse what ``open_store`` would refuse before anything is touched; nothing is opened."""
    _find_backend(url)


def is_missing(url: str) -> bool:
    """Whether the store is a file that is not there, so that ``open_store`` would make it.

    Of one that cannot be looked for, ``open_store`` says why.
    """
    scheme, _, rest = url.partition("://")
    try:
        return scheme == "sqlite" and not _sqlite_path(url, rest).exists()
    except OSError:
        return False


async def inspect_store(url: str) -> StoreInspection:
    """Look at the store at ``url`` without making or changing anything.

    Raises what ``open_store`` raises, except that a schema which this program cannot work with is
    a finding like any other.
    """
    return await _find_backend(url).inspect()


async def migrate_store(url: str, locked_for: timedelta = LOCKED_FOR) -> MigrationReport:
    """Make the store at ``url`` if there is none, and bring its schema up to date.

    Waits for others who keep it locked, but no longer than ``locked_for``, and as long as it takes
    for the migrations themselves. When it raises, the schema is as it was.
    """
    return await _find_backend(url).migrate(locked_for)


async def plan_store_copy(source_url: str, target_url: str) -> CopyPlan:
    """What ``copy_store`` would do; raises what it would raise before anything is written.

    Whether the source is in use is not asked.
    """
    source, target = _find_backend(source_url), _find_backend(target_url)
    return plan_copy(await source.inspect(), await target.inspect())


async def copy_store(
    source_url: str, target_url: str, clock: Clock, tell: Tell, *, is_forced: bool = False
) -> CopyReport:
    """Copy everything from one store to another that is empty, and compare them.

    The source is only read. Until the copy has been found equal, ``open_store`` refuses the target;
    repeating the call goes on where a copy was cut off, and finds that one was finished. A source
    that is in use is refused, unless ``is_forced``. Raises CopyRefusedError, and CopyDiffersError
    when something was not copied or has changed meanwhile.
    """
    plan = await plan_store_copy(source_url, target_url)
    async with await open_store(source_url) as source:
        if not is_forced:
            await check_idle(source, await source.read_clock() or clock.now())
        async with await _find_backend(target_url).open() as target:
            await refuse_same_store(source, target)
            if plan.is_repetition:
                return await recognise_copy(source, target, tell)
            now = await target.read_clock() or clock.now()
            marked = await MarkedTarget.begin(target, plan.source.address)
            return await copy_everything(source, target, marked, now, tell)


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


@dataclass(frozen=True, slots=True)
class _Backend:
    """What can be done with one store, whose address is in order and whose driver is loaded."""

    open: Callable[[], Awaitable[OpenStore]]
    inspect: Callable[[], Awaitable[StoreInspection]]
    migrate: Callable[[timedelta], Awaitable[MigrationReport]]


def _find_backend(url: str) -> _Backend:
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidStoreUrlError(url, "it does not start with a scheme, such as sqlite:///")
    if scheme == "memory":
        return _memory(url, rest)
    if scheme == "sqlite":
        return _sqlite(_sqlite_path(url, rest))
    if scheme in _POSTGRES:
        return _postgres(url)
    if scheme in _REDIS:
        return _redis(url)
    if scheme in _MONGO:
        return _mongo(url)
    raise InvalidStoreUrlError(
        url, "known schemes are memory, mongodb, postgresql, redis and sqlite"
    )


def _memory(url: str, rest: str) -> _Backend:
    if rest:
        raise InvalidStoreUrlError(url, "a store in memory has no name: write memory://")

    async def make() -> OpenStore:
        return MemoryStore()

    async def inspect() -> StoreInspection:
        return StoreInspection("memory://", "memory")

    async def migrate(_: timedelta) -> MigrationReport:
        return MigrationReport((), 0)

    return _Backend(make, inspect, migrate)


def _sqlite(path: Path) -> _Backend:
    from rota.stores.sqlite.connection import SqliteSettings  # noqa: PLC0415 - loads the driver
    from rota.stores.sqlite.inspection import (  # noqa: PLC0415 - loads the driver
        inspect_file,
        migrate_file,
    )
    from rota.stores.sqlite.store import SqliteStore  # noqa: PLC0415 - loads the driver

    settings = SqliteSettings(path)
    return _Backend(
        partial(SqliteStore.open, settings),
        partial(inspect_file, settings),
        lambda locked_for: migrate_file(replace(settings, busy_for=locked_for)),
    )


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


def _postgres(url: str) -> _Backend:
    try:
        from rota.stores.postgres.address import read_address  # noqa: PLC0415 - as below
        from rota.stores.postgres.schema.inspection import (  # noqa: PLC0415 - loads the driver
            inspect_database,
            migrate_database,
        )
        from rota.stores.postgres.store import PostgresStore  # noqa: PLC0415 - loads the driver
    except ModuleNotFoundError as error:
        raise StoreUnavailableError(
            "A store in PostgreSQL needs the driver asyncpg, which is not installed: "
            "pip install 'rota[postgres]'",
            {"missing": str(error.name), "extra": "rota[postgres]"},
        ) from error
    settings = read_address(url)
    return _Backend(
        partial(PostgresStore.open, settings),
        partial(inspect_database, settings),
        partial(migrate_database, settings),
    )


def _redis(url: str) -> _Backend:
    try:
        from rota.stores.redis.address import read_address  # noqa: PLC0415 - as below
        from rota.stores.redis.server import (  # noqa: PLC0415 - loads the driver
            inspect_server,
            migrate_server,
        )
        from rota.stores.redis.store import RedisStore  # noqa: PLC0415 - loads the driver
    except ModuleNotFoundError as error:
        raise StoreUnavailableError(
            "A store in Redis needs the driver redis, which is not installed: "
            "pip install 'rota[redis]'",
            {"missing": str(error.name), "extra": "rota[redis]"},
        ) from error
    settings = read_address(url)
    return _Backend(
        partial(RedisStore.open, settings),
        partial(inspect_server, settings),
        partial(migrate_server, settings),
    )


def _mongo(url: str) -> _Backend:
    try:
        from rota.stores.mongo.address import read_address  # noqa: PLC0415 - as below
        from rota.stores.mongo.schema.inspection import (  # noqa: PLC0415 - loads the driver
            inspect_database,
            migrate_database,
        )
        from rota.stores.mongo.store import MongoStore  # noqa: PLC0415 - loads the driver
    except ModuleNotFoundError as error:
        raise StoreUnavailableError(
            "A store in MongoDB needs the driver pymongo, which is not installed: "
            "pip install 'rota[mongo]'",
            {"missing": str(error.name), "extra": "rota[mongo]"},
        ) from error
    settings = read_address(url)
    return _Backend(
        partial(MongoStore.open, settings),
        partial(inspect_database, settings),
        partial(migrate_database, settings),
    )
