"""Inspects a file without changing it, and migrates it on request."""

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw

from rota.clock.loop import in_flight
from rota.stores.inspection import (
    MigrationReport,
    StoreInspection,
    compare_schema,
    describe_content,
    schema_version,
)
from rota.stores.migrations import AppliedMigration, read_marks
from rota.stores.sqlite.connection import MIGRATIONS, SqliteSettings, open_migrated
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.translation import translated


async def inspect_file(settings: SqliteSettings) -> StoreInspection:
    """The state of the file; a missing file is not created."""
    with in_flight():
        return await asyncio.to_thread(_inspect_file, settings)


async def migrate_file(settings: SqliteSettings) -> MigrationReport:
    """Bring the file up to date; create it if it is missing. See ``open_writer``."""
    with in_flight():
        return await asyncio.to_thread(_migrate_file, settings)


def _inspect_file(settings: SqliteSettings) -> StoreInspection:
    if _is_missing(settings.path):
        pending = compare_schema(MIGRATIONS, ()).pending
        return replace(_describe(settings.path), exists=False, pending=pending)
    with translated(settings.path), closing(_open(settings)) as connection:
        return _inspect(connection, settings.path)


def _is_missing(path: Path) -> bool:
    """False if the path cannot be checked: then the driver reports why."""
    try:
        return not path.exists()
    except OSError:
        return False


def _migrate_file(settings: SqliteSettings) -> MigrationReport:
    connection, applied = open_migrated(settings)
    with translated(settings.path), closing(connection):
        return MigrationReport(applied, schema_version(_read_applied(connection)))


def _describe(path: Path) -> StoreInspection:
    return StoreInspection(f"sqlite:///{path}", "SQLite", apsw.sqlite_lib_version())


def _open(settings: SqliteSettings) -> apsw.Connection:
    """Opened for writing, so that the last to close the file can fold its log; it only reads."""
    connection = apsw.Connection(str(settings.path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(settings.try_count)
    connection.execute(QUERIES.configure_reader).fetchall()
    return connection


def _inspect(connection: apsw.Connection, path: Path) -> StoreInspection:
    tables = {name for (name,) in _fetch(connection, QUERIES.read_tables)}
    applied = _read_applied(connection) if "rota_migrations" in tables else ()
    names = {mark.name for mark in applied}
    documents = _fetch(connection, QUERIES.count_documents) if "documents" in names else []
    jobs = _fetch(connection, QUERIES.count_jobs) if "jobs" in names else None
    ((size,),) = _fetch(connection, QUERIES.measure_file)
    base = replace(_describe(path), size=size)
    return describe_content(base, compare_schema(MIGRATIONS, applied), documents, jobs)


def _read_applied(connection: apsw.Connection) -> tuple[AppliedMigration, ...]:
    return read_marks(_fetch(connection, QUERIES.read_migrations))


def _fetch(connection: apsw.Connection, statement: str) -> list[tuple[Any, ...]]:
    return connection.execute(statement).fetchall()
