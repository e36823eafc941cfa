"""Connections to the file: opened, made ready, and patient with other processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import apsw

from rota.errors import SchemaOutdatedError, StoreUnavailableError
from rota.stores.migrations import (
    AppliedMigration,
    Migration,
    load_migrations,
    pending_migrations,
)
from rota.stores.sqlite.file import check_edges, check_file, check_library, prepare_file
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.translation import translated

MIGRATIONS = load_migrations("rota.stores.sqlite")


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    """Which file, and how long to wait while another process writes to it."""

    path: Path
    busy_for: timedelta = timedelta(seconds=10)

    @property
    def try_count(self) -> int:
        """How often to ask for a lock that is taken, a millisecond apart."""
        return max(1, self.busy_for // timedelta(milliseconds=1))


def open_writer(settings: SqliteSettings) -> apsw.Connection:
    """The connection that writes, to a sound file with the schema this program needs."""
    check_library(apsw.sqlite_lib_version())
    prepare_file(settings.path)
    with translated(settings.path):
        connection = apsw.Connection(str(settings.path), flags=apsw.SQLITE_OPEN_READWRITE)
        with _closed_on_error(connection):
            if connection.readonly("main"):  # SQLite settles for reading when it may not write
                raise apsw.ReadOnlyError("the file may not be written")
            _be_patient(connection, settings)
            check_file(connection, settings.path)
            _use_write_ahead_log(connection, settings)
            _run_script(connection, QUERIES.configure_writer)
            migrate(connection, MIGRATIONS)
            check_edges(connection)
        return connection


def open_reader(settings: SqliteSettings) -> apsw.Connection:
    """A connection that can only read, for a file that is already open for writing."""
    with translated(settings.path):
        connection = apsw.Connection(str(settings.path), flags=apsw.SQLITE_OPEN_READONLY)
        with _closed_on_error(connection):
            _be_patient(connection, settings)
            _run_script(connection, QUERIES.configure_reader)
        return connection


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """All that is written inside is durable afterwards, or none of it is written."""
    connection.execute(QUERIES.begin_write)
    try:
        yield
        connection.execute(QUERIES.commit)
    except BaseException:
        # Some errors, such as a full disk, have already rolled it back.
        if connection.in_transaction:
            connection.execute(QUERIES.roll_back)
        raise


def migrate(connection: apsw.Connection, known: tuple[Migration, ...]) -> None:
    """Bring the schema up to date; whoever comes first does it, the others find it done."""
    with transaction(connection):
        connection.execute(QUERIES.create_migrations)
        applied = connection.execute(QUERIES.read_migrations)
        for migration in pending_migrations(known, map(AppliedMigration._make, applied)):
            _apply(connection, migration)


def _apply(connection: apsw.Connection, migration: Migration) -> None:
    mark = migration.mark
    try:
        _run_script(connection, migration.script)
    except apsw.SQLError as error:
        raise SchemaOutdatedError(
            f"Migration {mark.number:04d}_{mark.name} does not fit this file: {error}",
            {"migration": mark.number, "name": mark.name},
        ) from error
    connection.execute(QUERIES.record_migration, mark)


def _run_script(connection: apsw.Connection, script: str) -> None:
    """Run every statement of a script; apsw pauses at each row that one of them gives."""
    connection.execute(script).fetchall()


@contextmanager
def _closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _be_patient(connection: apsw.Connection, settings: SqliteSettings) -> None:
    """Ask for a taken lock every millisecond, however long it has taken so far.

    SQLite's own timeout asks ever more seldom, so that whoever has waited longest is served last.
    """
    try_count = settings.try_count

    def wait(tried_count: int) -> bool:
        apsw.sleep(1)
        return tried_count < try_count

    connection.set_busy_handler(wait)


def _use_write_ahead_log(connection: apsw.Connection, settings: SqliteSettings) -> None:
    for _ in range(settings.try_count):
        try:
            mode = connection.execute(QUERIES.use_write_ahead_log).fetchall()[0][0]
        except apsw.BusyError:
            # Changing the mode asks once, whatever the busy handler says.
            apsw.sleep(1)
        else:
            break
    else:
        raise apsw.BusyError("the journal mode cannot be changed")
    if mode != "wal":
        raise StoreUnavailableError(
            f"The store {settings.path} is not available: its file system has no write-ahead log "
            f"(SQLite stays in mode {mode}); keep it on a local disk",
            {"path": str(settings.path), "reason": "no write-ahead log"},
        )
