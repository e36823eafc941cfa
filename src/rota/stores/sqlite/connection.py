"""Connections to the file: whether it may be used, opened, and patient with other processes.

A file that exists is only ever opened by SQLite. Opening and closing it here as well would drop the
locks that SQLite holds on it for the whole process.
"""

import os
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
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.translation import damaged, translated

MIGRATIONS = load_migrations("rota.stores.sqlite")

WHOLE_CHECK_SIZE = 32 * 1024 * 1024
"""Up to this many bytes a file is checked as a whole when it is opened; that takes milliseconds."""

_FIRST_SAFE_VERSION = (3, 51, 3)


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
    return open_migrated(settings)[0]


def open_migrated(settings: SqliteSettings) -> tuple[apsw.Connection, tuple[AppliedMigration, ...]]:
    """The same, and the migrations that the file went through for it."""
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
            applied = migrate(connection, MIGRATIONS)
            check_edges(connection)
        return connection, applied


def open_reader(settings: SqliteSettings) -> apsw.Connection:
    """A connection that can only read, for a file that is already open for writing."""
    with translated(settings.path):
        connection = apsw.Connection(str(settings.path), flags=apsw.SQLITE_OPEN_READONLY)
        with _closed_on_error(connection):
            _be_patient(connection, settings)
            _run_script(connection, QUERIES.configure_reader)
        return connection


def open_watch(settings: SqliteSettings) -> apsw.Connection:
    """Another that can only read, and never waits: what cannot be had at once is refused."""
    connection = open_reader(settings)
    connection.set_busy_handler(None)
    return connection


def open_beside(settings: SqliteSettings) -> apsw.Connection:
    """Another connection that writes, to a file that is already open for writing."""
    with translated(settings.path):
        connection = apsw.Connection(str(settings.path), flags=apsw.SQLITE_OPEN_READWRITE)
        with _closed_on_error(connection):
            _be_patient(connection, settings)
            _run_script(connection, QUERIES.configure_writer)
        return connection


def check_library(version: str) -> None:
    """Refuse a SQLite library that can damage a file which several connections write to."""
    if tuple(int(part) for part in version.split(".")) < _FIRST_SAFE_VERSION:
        raise StoreUnavailableError(
            f"SQLite {version} can damage a file in write-ahead mode (the WAL-reset bug of 3.7.0 "
            "to 3.51.2): install apsw 3.51.3 or newer",
            {"version": version},
        )


def prepare_file(path: Path) -> None:
    """Make the file if there is none, for its owner alone; never a directory.

    A directory that is missing is more often a mistyped address than a wish, and a new, empty
    store in the wrong place is the worst answer to it.
    """
    if not path.parent.is_dir():
        raise StoreUnavailableError(
            f"The store {path} is not available: the directory {path.parent} does not exist. "
            f'Create it first: mkdir -m 700 "{path.parent}"',
            {"path": str(path), "reason": "the directory does not exist"},
        )
    try:
        _refuse_a_lost_file(path)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnavailableError(
            f"The store {path} is not available: the file cannot be created ({error.strerror})",
            {"path": str(path), "reason": "the file cannot be created"},
        ) from error


def _refuse_a_lost_file(path: Path) -> None:
    """SQLite takes an empty file for a new one, and deletes the log with all that is in it."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size and path.exists() and not path.stat().st_size:
        raise damaged(path, "the file is empty while its write-ahead log is not")


def check_file(connection: apsw.Connection, path: Path) -> None:
    """Refuse a file that is truncated, no database, or damaged where it can be seen cheaply.

    A file of up to ``WHOLE_CHECK_SIZE`` is walked as a whole. Of a larger one the header, the
    length and the schema are checked, and by ``check_edges`` both edges of the trees;
    what is damaged deeper inside is reported by the call that meets it.
    """
    size = connection.execute(QUERIES.measure_file).fetchone()
    if size is not None and size[0] <= WHOLE_CHECK_SIZE:
        (finding,) = connection.execute(QUERIES.check_structure).fetchall()[0]
        if finding != "ok":
            raise damaged(path, str(finding).replace("\n", "; "))


def check_edges(connection: apsw.Connection) -> None:
    """Read the first and the last of all; SQLite raises when it meets damage on the way."""
    connection.execute(QUERIES.check_edges).fetchall()


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


def migrate(
    connection: apsw.Connection, known: tuple[Migration, ...]
) -> tuple[AppliedMigration, ...]:
    """Bring the schema up to date, and say by which migrations.

    Whoever comes first does it, the others find it done.
    """
    with transaction(connection):
        connection.execute(QUERIES.create_migrations)
        applied = connection.execute(QUERIES.read_migrations)
        pending = pending_migrations(known, map(AppliedMigration._make, applied))
        for migration in pending:
            _apply(connection, migration)
    return tuple(migration.mark for migration in pending)


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
