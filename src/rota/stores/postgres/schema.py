"""The schema in the database: created, migrated and inspected."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode

import asyncpg
from asyncpg import Connection, Record

from rota.clock.loop import in_flight
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
from rota.stores.postgres.address import DEFAULT_SCHEMA, Pooling, PostgresSettings
from rota.stores.postgres.connections import Database, Session, translated
from rota.stores.postgres.cursor import describe_hold, read_hold
from rota.stores.postgres.dialling import connect
from rota.stores.postgres.poolers import describe_pooler
from rota.stores.postgres.queries import QUERIES

MIGRATIONS = load_migrations("rota.stores.postgres")

LONGEST_STEP = timedelta(hours=1)
"""An index over many jobs takes its time; only a server that is gone is given up."""

_PLACE = frozenset({"host", "port", "dbname", "database"})
"""The options that tell one server or database from another."""


async def open_database(settings: PostgresSettings) -> Database:
    """The database at an address, with the schema that this program needs."""
    database = await Database.open(settings)
    try:
        await database.run(lambda session: migrate(session, settings))
    except BaseException:
        await database.close()
        raise
    return database


async def migrate(
    session: Session, settings: PostgresSettings, known: Sequence[Migration] | None = None
) -> tuple[AppliedMigration, ...]:
    """Migrate the schema, and return the migrations that were applied.

    Of several programs the first one migrates. Where nothing is to do nothing is locked, and a
    user who may not create anything can work.
    """
    known = MIGRATIONS if known is None else known
    context = await _read_context(session)
    _check_encoding(context["encoding"], settings.label)
    if context["has_migrations"] and not await _read_pending(session, known):
        return ()
    with session.patient(LONGEST_STEP):
        return await _migrate(session, settings, known)


async def _migrate(
    session: Session, settings: PostgresSettings, known: Sequence[Migration]
) -> tuple[AppliedMigration, ...]:
    async with session.transaction():
        milliseconds = settings.connect_for // timedelta(milliseconds=1)
        await session.fetch(QUERIES.wait_for_locks, str(milliseconds))
        await session.fetch(QUERIES.lock_schema)
        if not (await _read_context(session))["has_schema"]:
            await session.run_script(QUERIES.create_schema)
        await session.run_script(QUERIES.create_migrations)
        pending = await _read_pending(session, known)
        for migration in pending:
            await _apply(session, migration)
    return tuple(migration.mark for migration in pending)


async def _read_context(session: Session) -> Record:
    (context,) = await session.fetch(QUERIES.read_context)
    return context


async def _read_applied(session: Session) -> tuple[AppliedMigration, ...]:
    return read_marks(await session.fetch(QUERIES.read_migrations))


async def _read_pending(session: Session, known: Sequence[Migration]) -> tuple[Migration, ...]:
    return pending_migrations(known, await _read_applied(session))


async def _apply(session: Session, migration: Migration) -> None:
    try:
        await session.run_script(migration.script)
    except asyncpg.InsufficientPrivilegeError:
        raise
    except asyncpg.SyntaxOrAccessError as error:
        raise misfit(migration, "database", error) from error
    await session.fetch(QUERIES.record_migration, *migration.mark)


def _check_encoding(encoding: str, label: str) -> None:
    if encoding != "UTF8":
        raise StoreUnavailableError(
            f"The store {label} is not available: its database is encoded in {encoding}, which "
            "cannot hold every name; create one with ENCODING UTF8",
            {"store": label, "reason": "the encoding is not UTF8"},
        )


async def inspect_database(settings: PostgresSettings) -> StoreInspection:
    """The state of the schema; a missing one is not created."""
    async with _connected(settings) as connection:
        session = Session(connection, settings)
        (server,) = await session.fetch(QUERIES.read_server)
        applied = await _read_applied(session) if server["has_migrations"] else ()
        names = {mark.name for mark in applied}
        documents = await session.fetch(QUERIES.count_documents) if "documents" in names else ()
        jobs = await session.fetch(QUERIES.count_jobs) if "jobs" in names else None
        base = StoreInspection(
            _show_address(settings),
            "PostgreSQL",
            server["version"].split(" ")[0],
            exists=server["has_schema"],
            size=server["size"],
            pinned_by=describe_hold(await read_hold(session)),
            notes=tuple(await describe_pooler(connection, settings)),
        )
        return describe_content(base, compare_schema(MIGRATIONS, applied), documents, jobs)


async def migrate_database(settings: PostgresSettings, locked_for: timedelta) -> MigrationReport:
    """Migrate the schema, or create it.

    Gives up if another program keeps it, or a table in it, locked for longer than ``locked_for``;
    nothing is changed then.
    """
    patient = replace(settings, connect_for=locked_for)
    async with _connected(settings) as connection:
        session = Session(connection, patient)
        applied = await migrate(session, patient)
        return MigrationReport(applied, schema_version(await _read_applied(session)))


def _show_address(settings: PostgresSettings) -> str:
    """Without password, and with only those options that say which store it is."""
    options = parse_qsl(settings.url.partition("?")[2])
    shown = [each for each in options if each[0] in _PLACE]
    if settings.schema != DEFAULT_SCHEMA:
        shown.append(("schema", settings.schema))
    return f"{settings.label}?{urlencode(shown, safe='/')}" if shown else settings.label


@asynccontextmanager
async def _connected(settings: PostgresSettings) -> AsyncIterator["Connection[Record]"]:
    """One connection with the server's own settings, directly or through a pooler."""
    anyhow = replace(settings, pooling=Pooling.TRANSACTION)
    with in_flight(), translated(settings.label):
        connection = await connect(anyhow)
        try:
            yield connection
        finally:
            connection.terminate()
