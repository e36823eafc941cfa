"""The schema in the database: made when it is not there, brought up to date when it is old."""

from collections.abc import Sequence
from datetime import timedelta

import asyncpg
from asyncpg import Record

from rota.errors import SchemaOutdatedError, StoreUnavailableError
from rota.stores.migrations import (
    AppliedMigration,
    Migration,
    load_migrations,
    pending_migrations,
)
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.session import Session

MIGRATIONS = load_migrations("rota.stores.postgres")

LONGEST_STEP = timedelta(hours=1)
"""An index over very many jobs takes its time; only a server that is gone is given up."""


async def migrate(
    session: Session, settings: PostgresSettings, known: Sequence[Migration] = MIGRATIONS
) -> tuple[AppliedMigration, ...]:
    """Bring the schema up to date, and say by which migrations.

    Whoever comes first does it, the others find it done. Where nothing is to be done nothing is
    locked, and a user who may not create anything is fine.
    """
    surroundings = await _read_surroundings(session)
    _refuse_other_encodings(surroundings["encoding"], settings.label)
    if surroundings["has_migrations"] and not await _read_pending(session, known):
        return ()
    with session.patient(LONGEST_STEP):
        return await _migrate(session, settings, known)


async def _migrate(
    session: Session, settings: PostgresSettings, known: Sequence[Migration]
) -> tuple[AppliedMigration, ...]:
    async with session.transaction():
        await session.fetch(QUERIES.wait_for_locks, _milliseconds(settings.connect_for))
        await session.fetch(QUERIES.lock_schema)
        if not (await _read_surroundings(session))["has_schema"]:
            await session.run_script(QUERIES.create_schema)
        await session.run_script(QUERIES.create_migrations)
        pending = await _read_pending(session, known)
        for migration in pending:
            await _apply(session, migration)
    return tuple(migration.mark for migration in pending)


async def _read_surroundings(session: Session) -> Record:
    (surroundings,) = await session.fetch(QUERIES.read_surroundings)
    return surroundings


async def _read_pending(session: Session, known: Sequence[Migration]) -> tuple[Migration, ...]:
    applied = await session.fetch(QUERIES.read_migrations)
    return pending_migrations(known, map(AppliedMigration._make, applied))


async def _apply(session: Session, migration: Migration) -> None:
    mark = migration.mark
    try:
        await session.run_script(migration.script)
    except asyncpg.InsufficientPrivilegeError:
        raise
    except asyncpg.SyntaxOrAccessError as error:
        raise SchemaOutdatedError(
            f"Migration {mark.number:04d}_{mark.name} does not fit this database: {error}",
            {"migration": mark.number, "name": mark.name},
        ) from error
    await session.fetch(QUERIES.record_migration, *mark)


def _refuse_other_encodings(encoding: str, label: str) -> None:
    if encoding != "UTF8":
        raise StoreUnavailableError(
            f"The store {label} is not available: its database is encoded in {encoding}, which "
            "cannot hold every name; create one with ENCODING UTF8",
            {"store": label, "reason": "the encoding is not UTF8"},
        )


def _milliseconds(duration: timedelta) -> str:
    return str(duration // timedelta(milliseconds=1))
