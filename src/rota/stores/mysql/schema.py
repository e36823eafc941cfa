"""The tables in the database: created, migrated and inspected."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from asyncmy import errors

from rota.errors import StoreUnavailableError
from rota.stores.inspection import (
    MigrationReport,
    StoreInspection,
    compare_schema,
    describe_content,
    schema_version,
)
from rota.stores.migrations import (
    AppliedMigration,
    Migration,
    load_migrations,
    misfit,
    pending_migrations,
    read_marks,
)
from rota.stores.mysql.address import MysqlSettings
from rota.stores.mysql.connections import MysqlDatabase
from rota.stores.mysql.queries import QUERIES
from rota.stores.rows import Row
from rota.stores.sql.server import ServerSession

MIGRATIONS = load_migrations("rota.stores.mysql")

LONGEST_STEP = timedelta(hours=1)
"""An index over many jobs takes its time; only a server that is gone is given up."""

_OLDEST = {"MariaDB": (10, 11), "MySQL": (8, 0)}


class Server(NamedTuple):
    """What the server says about itself and the database."""

    version: str
    most_bytes: int
    has_migrations: int
    size: int


async def open_database(settings: MysqlSettings) -> MysqlDatabase:
    """The database at an address, with the tables that this program needs."""
    async with _connected(settings) as (database, server):
        await _migrate(database, server, settings, settings.connect_for)
    return MysqlDatabase(settings, server.most_bytes)


async def migrate_database(settings: MysqlSettings, locked_for: timedelta) -> MigrationReport:
    """Migrate the tables, or create them; waits up to ``locked_for`` for another program."""
    async with _connected(settings) as (database, server):
        applied = await _migrate(database, server, settings, locked_for)
        return MigrationReport(applied, schema_version(await database.run(_read_applied)))


async def inspect_database(settings: MysqlSettings) -> StoreInspection:
    """The state of the tables; missing ones are not created."""
    async with _connected(settings) as (database, server):
        applied = await database.run(_read_applied) if server.has_migrations else ()
        content = await database.run(_count) if applied else ((), None)
    base = StoreInspection(
        settings.label,
        check_version(server.version, settings.label),
        server.version.partition("-")[0],
        exists=bool(server.has_migrations),
        size=int(server.size),
    )
    return describe_content(base, compare_schema(MIGRATIONS, applied), *content)


async def _count(session: ServerSession) -> tuple[list[Row], list[Row]]:
    return await session.fetch(QUERIES.count_documents), await session.fetch(QUERIES.count_jobs)


def check_version(version: str, label: str) -> str:
    """The kind of server; StoreUnavailableError if it is too old."""
    kind = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST[kind]:
        raise StoreUnavailableError(
            f"The store {label} is not available: its server is {kind} {version}, and Rota needs "
            "MariaDB 10.11 or MySQL 8.0, or newer",
            {"store": label, "reason": "the server is too old", "version": version},
        )
    return kind


@asynccontextmanager
async def _connected(settings: MysqlSettings) -> AsyncIterator[tuple[MysqlDatabase, Server]]:
    database = MysqlDatabase(settings)
    try:
        (row,) = await database.run(lambda session: session.fetch(QUERIES.read_server))
        server = Server._make(row)
        check_version(server.version, settings.label)
        yield database, server
    finally:
        await database.close()


async def _migrate(
    database: MysqlDatabase, server: Server, settings: MysqlSettings, locked_for: timedelta
) -> tuple[AppliedMigration, ...]:
    """Migrate the tables, and return the migrations that were applied; the first program does it.

    A user who may not create anything can work if nothing is to do.
    """
    if server.has_migrations:
        applied = await database.run(_read_applied)
        if not pending_migrations(MIGRATIONS, applied):
            return ()
    patient = MysqlDatabase(replace(settings, answer_for=LONGEST_STEP))
    try:
        return await patient.run(lambda session: _apply_pending(session, settings, locked_for))
    finally:
        await patient.close()


async def _apply_pending(
    session: ServerSession, settings: MysqlSettings, locked_for: timedelta
) -> tuple[AppliedMigration, ...]:
    ((is_locked,),) = await session.fetch(QUERIES.lock_schema, seconds=locked_for.total_seconds())
    if not is_locked:
        raise StoreUnavailableError(
            f"The store {settings.label} is not available: another program is migrating it",
            {"store": settings.label, "reason": "another program is migrating it"},
        )
    try:
        await session.run(QUERIES.create_migrations)
        pending = pending_migrations(MIGRATIONS, await _read_applied(session))
        for migration in pending:
            await _apply(session, migration)
    finally:
        await session.run(QUERIES.unlock_schema)
    return tuple(migration.mark for migration in pending)


async def _apply(session: ServerSession, migration: Migration) -> None:
    """Each statement commits by itself, and can be repeated."""
    lines = migration.script.splitlines()
    script = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
    try:
        for statement in filter(str.strip, script.split(";")):
            await session.run(statement)
    except errors.ProgrammingError as error:
        raise misfit(migration, "database", error) from error
    await session.write(QUERIES.record_migration, [migration.mark])


async def _read_applied(session: ServerSession) -> tuple[AppliedMigration, ...]:
    return read_marks(await session.fetch(QUERIES.read_migrations))
