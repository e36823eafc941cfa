"""Connections to the file: checks, migrations, and waiting for locks of other processes.

Only SQLite opens an existing file. If Python opened and closed it as well, that would drop the
locks that SQLite holds on it for the whole process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import apsw

from rota.errors import StoreUnavailableError
from rota.stores.migrations import (
    AppliedMigration,
    Migration,
    load_migrations,
    misfit,
    pending_migrations,
    read_marks,
)
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.translation import damaged, translated

MIGRATIONS = load_migrations("rota.stores.sqlite")

WHOLE_CHECK_SIZE = 32 * 1024 * 1024
"""A file of up to this many bytes is checked as a whole when opened; that takes milliseconds."""

_FIRST_SAFE_VERSION = (3, 51, 3)


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    """The file, and how long to wait while another process writes to it."""

    path: Path
    busy_for: timedelta = timedelta(seconds=10)

    @property
    def try_count(self) -> int:
        """How often to ask for a lock, a millisecond apart."""
        return max(1, self.busy_for // timedelta(milliseconds=1))


def open_writer(settings: SqliteSettings) -> apsw.Connection:
    """The connection that writes. The file is sound and has the schema of this program."""
    return open_migrated(settings)[0]


def open_migrated(settings: SqliteSettings) -> tuple[apsw.Connection, tuple[AppliedMigration, ...]]:
    """The same, and the migrations that were applied."""
    check_library(apsw.sqlite_lib_version())
    prepare_file(settings.path)
    with translated(settings.path):
        connection = apsw.Connection(str(settings.path), flags=apsw.SQLITE_OPEN_READWRITE)
        with _closed_on_error(connection):
            if connection.readonly("main"):  # SQLite settles for reading when it may not write
                raise apsw.ReadOnlyError("the file may not be written")
            be_patient(connection, settings)
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
            be_patient(connection, settings)
            _run_script(connection, QUERIES.configure_reader)
        return connection


def open_watch(settings: SqliteSettings) -> apsw.Connection:
    """Another that can only read, and never waits: it fails if a lock is taken."""
    connection = open_reader(settings)
    connection.set_busy_handler(None)
    return connection


def open_beside(settings: SqliteSettings) -> apsw.Connection:
    """Another connection that writes, to a file that is already open for writing."""
    with translated(settings.path):
        connection = apsw.Connection(str(settings.path), flags=apsw.SQLITE_OPEN_READWRITE)
        with _closed_on_error(connection):
            be_patient(connection, settings)
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
    """Create a missing file, for its owner alone; never a directory.

    A missing directory is usually a mistyped address, and a new, empty store in the wrong place
    would hide that.
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
    """SQLite treats an empty file as new, and would delete the log with all its content."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size and path.exists() and not path.stat().st_size:
        raise damaged(path, "the file is empty while its write-ahead log is not")


def check_file(connection: apsw.Connection, path: Path) -> None:
    """Refuse a file that is truncated, not a database, or visibly damaged.

    A file of up to ``WHOLE_CHECK_SIZE`` is read as a whole. Of a larger one the header, the length
    and the schema are checked, and ``check_edges`` reads both edges of the trees. The call that
    meets other damage reports it.
    """
    size = connection.execute(QUERIES.measure_file).fetchone()
    if size is not None and size[0] <= WHOLE_CHECK_SIZE:
        (finding,) = connection.execute(QUERIES.check_structure).fetchall()[0]
        if finding != "ok":
            raise damaged(path, str(finding).replace("\n", "; "))


def check_edges(connection: apsw.Connection) -> None:
    """Read the first and the last records; SQLite raises if it meets damage."""
    connection.execute(QUERIES.check_edges).fetchall()


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """All writes inside are durable afterwards, or none is made."""
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
    """Bring the schema up to date; by which migrations. Of several processes the first does it."""
    with transaction(connection):
        connection.execute(QUERIES.create_migrations)
        applied = read_marks(connection.execute(QUERIES.read_migrations))
        pending = pending_migrations(known, applied)
        for migration in pending:
            _apply(connection, migration)
    return tuple(migration.mark for migration in pending)


def _apply(connection: apsw.Connection, migration: Migration) -> None:
    try:
        _run_script(connection, migration.script)
    except apsw.SQLError as error:
        raise misfit(migration, "file", error) from error
    connection.execute(QUERIES.record_migration, migration.mark)


def _run_script(connection: apsw.Connection, script: str) -> None:
    """Run every statement of a script; apsw pauses at each row."""
    connection.execute(script).fetchall()


@contextmanager
def _closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


class Patience:
    """Asks for a taken lock every millisecond, for as long as the settings say.

    SQLite's own timeout asks less and less often, so the longest wait is served last.
    """

    def __init__(self, settings: SqliteSettings) -> None:
        self._try_count = settings.try_count
        self.is_over = False
        """True for statements that are to fail at once."""

    def __call__(self, tried_count: int) -> bool:
        if self.is_over:
            return False
        apsw.sleep(1)
        return tried_count < self._try_count


def be_patient(connection: apsw.Connection, settings: SqliteSettings) -> Patience:
    """Have the connection wait for the locks of others."""
    patience = Patience(settings)
    connection.set_busy_handler(patience)
    return patience


def _use_write_ahead_log(connection: apsw.Connection, settings: SqliteSettings) -> None:
    for _ in range(settings.try_count):
        try:
            mode = connection.execute(QUERIES.use_write_ahead_log).fetchall()[0][0]
        except apsw.BusyError:
            # Changing the mode asks once, without the busy handler.
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
