"""Looks at a database without changing it, and brings it up to date when told to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode

import asyncpg

from rota.clock.idle import in_flight
from rota.stores.inspection import (
    MigrationReport,
    StoreInspection,
    compare_schema,
    schema_version,
)
from rota.stores.migrations import AppliedMigration
from rota.stores.postgres import queries as store_queries
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.jobs.pinned.horizon import describe_hold, read_hold
from rota.stores.postgres.schema.inspection.queries import QUERIES
from rota.stores.postgres.schema.migration import MIGRATIONS, migrate
from rota.stores.postgres.session import Session
from rota.stores.postgres.translation import translated

_PLACE = frozenset({"host", "port", "dbname", "database"})
"""The options by which one server or database is told from another."""


async def inspect_database(settings: PostgresSettings) -> StoreInspection:
    """How the schema stands; one that is missing is not made."""
    async with _connected(settings) as session:
        (server,) = await session.fetch(QUERIES.read_server)
        applied = await _read_applied(session) if server["has_migrations"] else ()
        standing = compare_schema(MIGRATIONS, applied)
        names = {mark.name for mark in applied}
        documents = await session.fetch(QUERIES.count_documents) if "documents" in names else ()
        jobs = await session.fetch(QUERIES.count_jobs) if "jobs" in names else None
        return StoreInspection(
            _show_address(settings),
            "PostgreSQL",
            server["version"].split(" ")[0],
            exists=server["has_schema"],
            applied=standing.applied,
            pending=standing.pending,
            problem=standing.problem,
            size=server["size"],
            document_counts={row["collection"]: row["number"] for row in documents},
            job_counts=None if jobs is None else {row["status"]: row["number"] for row in jobs},
            set_aside_job_count=sum(row["aside"] for row in jobs or ()),
            pinned_by=describe_hold(await read_hold(session)),
        )


async def migrate_database(settings: PostgresSettings, locked_for: timedelta) -> MigrationReport:
    """Bring the schema up to date, and make it if there is none.

    Gives up when another program keeps it, or a table in it, locked for longer than
    ``locked_for``; all is then as it was.
    """
    patient = replace(settings, connect_for=locked_for)
    async with _connected(patient, settings.connect_for) as session:
        applied = await migrate(session, patient)
        return MigrationReport(applied, schema_version(await _read_applied(session)))


def _show_address(settings: PostgresSettings) -> str:
    """Without password, and of its options only those that say which store it is."""
    options = parse_qsl(settings.url.partition("?")[2])
    said = [each for each in options if each[0] in _PLACE]
    if settings.schema != store_queries.DEFAULT_SCHEMA:
        said.append(("schema", settings.schema))
    return f"{settings.label}?{urlencode(said, safe='/')}" if said else settings.label


@asynccontextmanager
async def _connected(
    settings: PostgresSettings, connect_for: timedelta | None = None
) -> AsyncIterator[Session]:
    """One connection with the server's own settings, closed in the end."""
    patience = (connect_for or settings.connect_for).total_seconds()
    with in_flight(), translated(settings.label):
        async with (
            asyncpg.create_pool(settings.url, min_size=0, max_size=1, timeout=patience) as pool,
            pool.acquire() as connection,
        ):
            yield Session(connection, settings)


async def _read_applied(session: Session) -> tuple[AppliedMigration, ...]:
    rows = await session.fetch(store_queries.QUERIES.read_migrations)
    return tuple(AppliedMigration._make(row) for row in rows)
