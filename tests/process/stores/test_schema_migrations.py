"""The schema is changed while others use it: on SQLite, and on a real PostgreSQL server."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import apsw
import psycopg
import pytest
from tests.process.fleet import ROOT, wait_for
from tests.process.stores.newer_version import (
    is_postgres,
    known_migrations,
    upgrade,
    write_migration,
)

from rota import open_store
from rota.errors import SchemaOutdatedError, StoreUnavailableError
from rota.runtime.wiring import inspect_store
from rota.stores.postgres.address import read_address
from rota.stores.protocol import DocumentStore, DocumentWrite

pytestmark = pytest.mark.process

ROTA = str(Path(sys.executable).with_name("rota"))
A_MOMENT = timedelta(milliseconds=200)
ADD_COLUMN = "ALTER TABLE T.documents ADD COLUMN note text;"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that does not exist yet, on each backend."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'rota.db'}"
    address: str = request.getfixturevalue("new_postgres_url")
    return address


@pytest.fixture
async def store(url: str) -> AsyncIterator[DocumentStore]:
    """The store as this version has made it; to a newer one it is the older program."""
    async with await open_store(url) as store:
        await store.write_each([DocumentWrite("tasks", "before", None, b"kept")])
        yield store


async def works(store: DocumentStore) -> bool:
    """Whether the older program can still read and write."""
    kept = (await store.read("tasks", ["before"]))["before"].body
    (version,) = await store.write_each([DocumentWrite("tasks", "probe", None, b"")])
    (gone,) = await store.write_each([DocumentWrite("tasks", "probe", version, None)])
    return (kept, version, gone) == (b"kept", 1, 0)


async def applied_names(url: str) -> list[str]:
    return [mark.name for mark in (await inspect_store(url)).applied]


def ours(url: str) -> list[str]:
    return [migration.mark.name for migration in known_migrations(url)]


def columns(url: str, table: str) -> set[str]:
    """What a table has; nothing when there is no such table."""
    if is_postgres(url):
        settings = read_address(url)
        with psycopg.connect(settings.url) as connection:
            rows = connection.execute(
                "SELECT column_name FROM information_schema.columns"
                " WHERE table_schema = %s AND table_name = %s",
                (settings.schema, table),
            ).fetchall()
            return {name for (name,) in rows}
    file = apsw.Connection(url.removeprefix("sqlite:///"))
    found = file.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    file.close()
    return {str(name) for (name,) in found}


@contextmanager
def reader_of_documents(url: str) -> Iterator[None]:
    """Another program that is in the middle of reading, and takes its time."""
    settings = read_address(url)
    with psycopg.connect(settings.url) as connection:
        connection.execute(f"LOCK TABLE {settings.schema}.documents IN ACCESS SHARE MODE".encode())
        yield


def test_processes_that_migrate_at_once_do_it_once(url: str) -> None:
    command = [ROTA, "store", "migrate", url, "--json", "--lock-timeout", "60"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    outputs = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0, 0]
    reports = [json.loads(output) for output in outputs]
    assert {report["schema_version"] for report in reports} == {len(ours(url))}
    assert sorted(len(report["applied"]) for report in reports) == [0, 0, 0, len(ours(url))]


async def test_an_older_program_goes_on_after_a_compatible_migration(
    url: str, store: DocumentStore
) -> None:
    later = write_migration(url, "later", ADD_COLUMN)
    assert [mark.name for mark in await upgrade(url, later)] == ["later"]
    assert "note" in columns(url, "documents")
    assert await works(store)
    async with await open_store(url) as again:
        assert await works(again)


async def test_an_older_program_is_refused_after_one_that_is_not(
    url: str, store: DocumentStore
) -> None:
    later = write_migration(url, "later", ADD_COLUMN, is_compatible=False)
    await upgrade(url, later)
    assert await works(store)
    with pytest.raises(SchemaOutdatedError, match=r"9001_later.*upgrade Rota"):
        await open_store(url)


async def test_a_migration_that_was_edited_is_refused_and_changes_nothing(
    url: str, store: DocumentStore
) -> None:
    await upgrade(url, write_migration(url, "later", ADD_COLUMN))
    edited = write_migration(url, "later", ADD_COLUMN.replace("note", "remark"))
    further = write_migration(url, "further", "CREATE TABLE T.further (a text);", number=9002)
    with pytest.raises(SchemaOutdatedError, match="another migration 9001_later"):
        await upgrade(url, edited, further)
    assert await applied_names(url) == [*ours(url), "later"]
    assert columns(url, "further") == set()
    assert await works(store)


async def test_a_migration_that_fails_leaves_nothing_half_done(
    url: str, store: DocumentStore
) -> None:
    script = f"CREATE TABLE T.half (a text); {ADD_COLUMN} DROP TABLE T.absent;"
    sound = write_migration(url, "sound", "CREATE TABLE T.sound (a text);")
    with pytest.raises(SchemaOutdatedError, match="9002_broken does not fit"):
        await upgrade(url, sound, write_migration(url, "broken", script, number=9002))
    assert await applied_names(url) == ours(url)
    assert columns(url, "half") == columns(url, "sound") == set()
    assert "note" not in columns(url, "documents")
    assert await works(store)


async def test_writers_do_not_notice_a_compatible_migration(url: str, store: DocumentStore) -> None:
    written = 0
    is_over = False

    async def write_on() -> None:
        nonlocal written
        while not is_over:
            key = f"task-{written}"
            assert await store.write_each([DocumentWrite("tasks", key, None, b"")]) == [1]
            assert key in await store.read("tasks", [key])
            written += 1

    writing = asyncio.create_task(write_on())
    for number in range(5):
        script = f"ALTER TABLE T.documents ADD COLUMN note_{number} text;"
        later = [
            write_migration(url, f"later_{n}", script.replace(str(number), str(n)), number=9001 + n)
            for n in range(number + 1)
        ]
        assert len(await upgrade(url, *later)) == 1
    before = written
    while written == before and not writing.done():
        await asyncio.wait([writing], timeout=0.01)
    is_over = True
    await writing
    found = [len(page) async for page in store.scan("tasks")]
    assert sum(found) == written + 1


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_reader_that_locks_a_table_stops_only_the_migration(
    url: str, store: DocumentStore
) -> None:
    later = write_migration(url, "later", ADD_COLUMN)
    with reader_of_documents(url):
        with pytest.raises(StoreUnavailableError, match="kept it locked for too long") as caught:
            await upgrade(url, later, locked_for=A_MOMENT)
        assert caught.value.details["outcome"] == "nothing was written"
        assert await works(store)
        assert await applied_names(url) == ours(url)
    assert [mark.name for mark in await upgrade(url, later)] == ["later"]
    assert await works(store)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_writer_that_keeps_the_file_locked_stops_the_migration(
    url: str, store: DocumentStore
) -> None:
    other = apsw.Connection(url.removeprefix("sqlite:///"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="kept it locked for too long"):
        await upgrade(url, write_migration(url, "later", ADD_COLUMN), locked_for=A_MOMENT)
    other.close()
    assert await applied_names(url) == ours(url)
    assert await works(store)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_reader_of_the_file_neither_stops_a_migration_nor_notices_it(
    url: str, store: DocumentStore
) -> None:
    other = apsw.Connection(url.removeprefix("sqlite:///"))
    other.execute("BEGIN")
    assert other.execute("SELECT key FROM documents").fetchall() == [("before",)]
    assert len(await upgrade(url, write_migration(url, "later", ADD_COLUMN))) == 1
    assert other.execute("SELECT key FROM documents").fetchall() == [("before",)]
    other.close()
    assert await works(store)


SLOW = {
    "sqlite": (
        "WITH RECURSIVE counted (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM counted"
        " WHERE n < 1000000000) SELECT count(*) FROM counted;"
    ),
    "postgresql": "SELECT pg_sleep(1.5);",
}


@pytest.fixture
def migrating(url: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is in the middle of a migration, after its first change."""
    script = f"{ADD_COLUMN} CREATE TABLE T.half (a text); {SLOW[url.partition(':')[0]]}"
    command = [sys.executable, "-m", "tests.process.stores.newer_version", url, script]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_for(lambda: is_being_migrated(url), "the migration")
        yield process
    finally:
        process.kill()
        process.wait()


def is_being_migrated(url: str) -> bool:
    """Whether somebody has got as far as the slow part."""
    if is_postgres(url):
        settings = read_address(url)
        asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        with psycopg.connect(settings.url) as connection:
            row = connection.execute(
                f"{asked} AND query LIKE '%%{settings.schema}.half%%'".encode()
            )
            return row.fetchall() == [(1,)]
    file = apsw.Connection(url.removeprefix("sqlite:///"))
    try:
        file.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return True
    finally:
        file.close()
    return False


async def test_a_process_that_is_killed_while_it_migrates_leaves_nothing_behind(
    url: str, store: DocumentStore, migrating: "subprocess.Popen[bytes]"
) -> None:
    migrating.kill()
    migrating.wait()
    later = write_migration(url, "later", "CREATE TABLE T.later (a text);")
    assert [mark.name for mark in await upgrade(url, later)] == ["later"]
    assert columns(url, "half") == set()
    assert "note" not in columns(url, "documents")
    assert await applied_names(url) == [*ours(url), "later"]
    assert await works(store)
