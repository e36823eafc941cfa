"""The tables in the database: created, migrated and inspected."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

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
from rota.stores.mysql.connections import Database, Session
from rota.stores.mysql.queries import QUERIES
from rota.stores.rows import Row

MIGRATIONS = load_migrations("rota.stores.mysql")

LONGEST_STEP = timedelta(hours=1)
"""An index over many jobs takes its time; only a server that is gone is given up."""

_OLDEST = {"MariaDB": (10, 11), "MySQL": (8, 0)}


async def open_database(settings: MysqlSettings) -> Database:
    """The database at an address, with the tables that this program needs."""
    database = Database(settings)
    try:
        (server,) = await database.run(lambda session: session.fetch(QUERIES.read_server))
        check_version(server[0], settings.label)
        database.most_bytes = server[1]
        await migrate(database, settings, settings.connect_for)
    except BaseException:
        await database.close()
        raise
    return database


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


async def migrate(
    database: Database, settings: MysqlSettings, locked_for: timedelta
) -> tuple[AppliedMigration, ...]:
    """Migrate the tables, and return the migrations that were applied; the first program does it.

    A user who may not create anything can work if nothing is to do.
    """
    if await database.run(has_migrations):
        applied = await database.run(read_applied)
        if not pending_migrations(MIGRATIONS, applied):
            return ()
    patient = Database(replace(settings, answer_for=LONGEST_STEP))
    try:
        return await patient.run(lambda session: _migrate(session, settings, locked_for))
    finally:
        await patient.close()


async def _migrate(
    session: Session, settings: MysqlSettings, locked_for: timedelta
) -> tuple[AppliedMigration, ...]:
    ((is_locked,),) = await session.fetch(QUERIES.lock_schema, seconds=locked_for.total_seconds())
    if not is_locked:
        raise StoreUnavailableError(
            f"The store {settings.label} is not available: another program is migrating it",
            {"store": settings.label, "reason": "another program is migrating it"},
        )
    try:
        await session.run(QUERIES.create_migrations)
        pending = pending_migrations(MIGRATIONS, await read_applied(session))
        for migration in pending:
            await _apply(session, migration)
    finally:
        await session.run(QUERIES.unlock_schema)
    return tuple(migration.mark for migration in pending)


async def _apply(session: Session, migration: Migration) -> None:
    """Each statement commits by itself, and can be repeated."""
    lines = migration.script.splitlines()
    script = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
    try:
        for statement in script.split(";"):
            if statement.strip():
                await session.run(statement)
    except errors.ProgrammingError as error:
        raise misfit(migration, "database", error) from error
    await session.write(QUERIES.record_migration, [migration.mark])


async def has_migrations(session: Session) -> bool:
    """Whether the table of migrations exists."""
    return bool((await session.fetch(QUERIES.read_server))[0][2])


async def read_applied(session: Session) -> tuple[AppliedMigration, ...]:
    """The migrations that the database has been through."""
    return read_marks(await session.fetch(QUERIES.read_migrations))


async def inspect_database(settings: MysqlSettings) -> StoreInspection:
    """The state of the tables; missing ones are not created."""
    database = Database(settings)
    try:
        return await database.run(lambda session: _inspect(session, settings))
    finally:
        await database.close()


async def _inspect(session: Session, settings: MysqlSettings) -> StoreInspection:
    ((version, _, has_table, size),) = await session.fetch(QUERIES.read_server)
    kind = check_version(version, settings.label)
    applied = await read_applied(session) if has_table else ()
    documents: Sequence[Row] = await session.fetch(QUERIES.count_documents) if applied else ()
    jobs = await session.fetch(QUERIES.count_jobs) if applied else None
    release = version.partition("-")[0]
    base = StoreInspection(settings.label, kind, release, exists=bool(has_table), size=int(size))
    return describe_content(base, compare_schema(MIGRATIONS, applied), documents, jobs)


async def migrate_database(settings: MysqlSettings, locked_for: timedelta) -> MigrationReport:
    """Migrate the tables, or create them; waits up to ``locked_for`` for another program."""
    database = Database(settings)
    try:
        ((version, *_),) = await database.run(lambda session: session.fetch(QUERIES.read_server))
        check_version(version, settings.label)
        applied = await migrate(database, settings, locked_for)
        return MigrationReport(applied, schema_version(await database.run(read_applied)))
    finally:
        await database.close()
