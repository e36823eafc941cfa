"""Locks held by others, the journal mode, and the schema."""

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from rota.errors import SchemaOutdatedError, StoreUnavailableError
from rota.stores.migrations import read_migration
from rota.stores.protocol import DocumentWrite
from rota.stores.sqlite.connection import MIGRATIONS, SqliteSettings, migrate, transaction
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW, a_request

LATER = read_migration("0007_later.sql", "-- compatible: yes\nCREATE TABLE later (a);\n")
BREAKING = read_migration("0008_breaking.sql", "-- compatible: no\nDROP TABLE documents;\n")


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A directory of an unprivileged user, as whom the test runs: root may do anything."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid():
            yield Path(folder)
            return
        nobody = 65534
        os.chown(folder, nobody, nobody)
        os.seteuid(nobody)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("busy_for", "try_count"), [(timedelta(seconds=10), 10_000), (timedelta(0), 1)]
)
def test_a_lock_is_retried_every_millisecond(busy_for: timedelta, try_count: int) -> None:
    assert SqliteSettings(Path("rota.db"), busy_for).try_count == try_count


async def test_a_file_locked_for_too_long_is_unavailable_until_it_is_free(
    store: SqliteStore,
    new: Callable[..., DocumentWrite],
    held_lock: Callable[[], apsw.Connection],
) -> None:
    other = held_lock()
    for call in (store.write_each([new("a")]), store.write_all([new("a")])):
        with pytest.raises(StoreUnavailableError, match="kept it locked for too long") as caught:
            await call
        assert isinstance(caught.value.__cause__, apsw.BusyError)
    assert await store.read("tasks", ["a"]) == {}
    other.close()
    assert await store.write_each([new("a")]) == [1]


async def test_all_that_wait_for_a_locked_file_fail_together(
    store: SqliteStore,
    new: Callable[..., DocumentWrite],
    held_lock: Callable[[], apsw.Connection],
) -> None:
    other = held_lock()
    calls = (store.write_each([new(f"{number}")]) for number in range(5))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreUnavailableError}
    assert len(set(map(id, outcomes))) == 5  # each its own, or their tracebacks would mix
    other.close()


async def test_a_file_that_is_locked_while_it_is_opened_is_unavailable(
    path: Path, sqlite_settings: SqliteSettings
) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailableError, match="locked"):
        await SqliteStore.open(sqlite_settings)
    other.close()
    await (await SqliteStore.open(sqlite_settings)).close()


async def test_a_reader_elsewhere_delays_the_change_of_mode_and_no_more(
    path: Path, sqlite_settings: SqliteSettings
) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1), (2)")
    rows = other.execute("SELECT * FROM theirs")
    next(rows)
    with pytest.raises(StoreUnavailableError, match="journal mode"):
        await SqliteStore.open(sqlite_settings)
    other.close(force=True)
    await (await SqliteStore.open(sqlite_settings)).close()


async def test_a_file_system_without_a_write_ahead_log_is_refused(
    sqlite_settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QUERIES, "use_write_ahead_log", "PRAGMA journal_mode = DELETE")
    with pytest.raises(StoreUnavailableError, match="stays in mode delete"):
        await SqliteStore.open(sqlite_settings)


async def test_writes_are_on_the_disk_before_they_are_acknowledged(store: SqliteStore) -> None:
    pragmas = ("journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync")
    values = [store._writer._connection.pragma(name) for name in pragmas]
    assert values == ["wal", 2, 1, 1]


async def test_a_read_only_file_is_unavailable(ordinary_user: Path) -> None:
    settings = SqliteSettings(ordinary_user / "rota.db")
    await (await SqliteStore.open(settings)).close()
    settings.path.chmod(0o400)
    with pytest.raises(StoreUnavailableError, match="read-only"):
        await SqliteStore.open(settings)
    settings.path.chmod(0o600)
    await (await SqliteStore.open(settings)).close()


async def test_a_directory_that_may_not_be_written_is_unavailable(ordinary_user: Path) -> None:
    closed = SqliteSettings(ordinary_user / "rota.db")
    closed.path.parent.chmod(0o500)
    with pytest.raises(StoreUnavailableError, match="Permission denied"):
        await SqliteStore.open(closed)
    closed.path.parent.chmod(0o700)


async def test_a_reader_that_cannot_be_opened_leaves_nothing_open(
    sqlite_settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QUERIES, "configure_reader", "PRAGMA page_count; nonsense")
    with pytest.raises(StoreUnavailableError, match="nonsense"):
        await SqliteStore.open(sqlite_settings)
    assert [each.name for each in sqlite_settings.path.parent.iterdir()] == ["rota.db"]


def test_a_transaction_that_fails_halfway_is_rolled_back() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE one (a)")
    with pytest.raises(apsw.SQLError, match="nonsense"), transaction(connection):
        connection.execute("INSERT INTO one VALUES (1); nonsense")
    assert connection.execute("SELECT * FROM one").fetchall() == []
    assert not connection.in_transaction


def test_a_transaction_already_rolled_back_is_left_alone() -> None:
    connection = apsw.Connection(":memory:")
    with pytest.raises(apsw.SQLError, match="nonsense"), transaction(connection):
        connection.execute("ROLLBACK; nonsense")


def test_the_schema_is_brought_up_to_date_once() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, MIGRATIONS)
    migrate(connection, (*MIGRATIONS, LATER))
    migrate(connection, (*MIGRATIONS, LATER))
    rows = connection.execute("SELECT number, name FROM rota_migrations").fetchall()
    assert rows == [
        (1, "documents"),
        (2, "jobs"),
        (3, "results"),
        (4, "newest_last"),
        (5, "dead_letters"),
        (6, "cheaper_conditions"),
        (7, "later"),
    ]


def test_an_older_program_goes_on_with_a_compatible_schema() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, (*MIGRATIONS, LATER))
    migrate(connection, MIGRATIONS)
    assert connection.execute("SELECT count(*) FROM documents").fetchall() == [(0,)]


async def test_a_program_that_knows_no_jobs_goes_on_with_the_schema_that_has_them(
    store: SqliteStore, path: Path
) -> None:
    """What it does to documents, and whatever else its first migration lets it do, still works."""
    await store.insert([a_job()], NOW)
    older = apsw.Connection(str(path))
    with transaction(older):
        older.execute("INSERT INTO documents VALUES ('tasks', 'theirs', 1, x'00')")
    migrate(older, MIGRATIONS[:1])
    older.close()
    assert list(await store.read("tasks", ["theirs"])) == ["theirs"]
    assert len(await store.lease(a_request(), NOW)) == 1


async def test_a_file_from_before_there_were_jobs_is_brought_up_to_date(
    path: Path, sqlite_settings: SqliteSettings
) -> None:
    older = apsw.Connection(str(path))
    migrate(older, MIGRATIONS[:1])
    older.execute("INSERT INTO documents VALUES ('tasks', 'theirs', 1, x'00')")
    older.close()
    async with await SqliteStore.open(sqlite_settings) as store:
        await store.insert([a_job()], NOW)
        assert list(await store.read("tasks", ["theirs"])) == ["theirs"]


def test_an_older_program_is_refused_by_an_incompatible_schema() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, (*MIGRATIONS, LATER, BREAKING))
    with pytest.raises(SchemaOutdatedError, match="upgrade Rota"):
        migrate(connection, MIGRATIONS)


async def test_a_file_with_a_table_of_that_name_is_refused_and_left_alone(
    path: Path, sqlite_settings: SqliteSettings
) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE documents (theirs)")
    with pytest.raises(SchemaOutdatedError, match=r"0001_documents.*already exists"):
        await SqliteStore.open(sqlite_settings)
    names = other.execute("SELECT name FROM sqlite_schema").fetchall()
    assert names == [("documents",)]
    other.close()
