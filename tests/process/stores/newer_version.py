"""A version of Rota that knows more migrations than this one, and what it does to a store.

As a program, ``python -m tests.process.stores.newer_version URL SCRIPT``, it applies one migration
more than this version knows, for tests that kill it half-way.
"""

import asyncio
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from rota.stores.migrations import AppliedMigration, Migration, read_migration
from rota.stores.postgres import schema as postgres_schema
from rota.stores.postgres.address import read_address
from rota.stores.sqlite import connection as sqlite_connection
from rota.stores.sqlite.connection import SqliteSettings, open_writer
from rota.stores.sqlite.translation import translated

PATIENCE = timedelta(seconds=30)


def is_postgres(url: str) -> bool:
    return url.startswith("postgresql:")


def write_migration(
    url: str, name: str, script: str, *, number: int = 9001, is_compatible: bool = True
) -> Migration:
    """A migration as the store at this address needs it; tables in the script are called T.x."""
    placed = script.replace("T.", "rota." if is_postgres(url) else "")
    first_line = f"-- compatible: {'yes' if is_compatible else 'no'}\n"
    return read_migration(f"{number:04d}_{name}.sql", f"{first_line}{placed}\n")


def known_migrations(url: str) -> tuple[Migration, ...]:
    """What this version knows."""
    return postgres_schema.MIGRATIONS if is_postgres(url) else sqlite_connection.MIGRATIONS


async def upgrade(
    url: str, *later: Migration, locked_for: timedelta = PATIENCE
) -> tuple[AppliedMigration, ...]:
    """Open the store as a newer version does, and say what it went through beyond this one's."""
    if is_postgres(url):
        return await _upgrade_postgres(url, later, locked_for)
    return await asyncio.to_thread(_upgrade_sqlite, url, later, locked_for)


async def _upgrade_postgres(
    url: str, later: tuple[Migration, ...], locked_for: timedelta
) -> tuple[AppliedMigration, ...]:
    settings = replace(read_address(url), connect_for=locked_for)
    database = await postgres_schema.open_database(settings)
    try:
        known = (*postgres_schema.MIGRATIONS, *later)
        return await database.run(lambda session: postgres_schema.migrate(session, settings, known))
    finally:
        await database.close()


def _upgrade_sqlite(
    url: str, later: tuple[Migration, ...], locked_for: timedelta
) -> tuple[AppliedMigration, ...]:
    path = Path(url.removeprefix("sqlite:///"))
    connection = open_writer(SqliteSettings(path, locked_for))
    try:
        with translated(path):
            return sqlite_connection.migrate(connection, (*sqlite_connection.MIGRATIONS, *later))
    finally:
        connection.close()


if __name__ == "__main__":
    address, text = sys.argv[1:]
    asyncio.run(upgrade(address, write_migration(address, "killed", text)))
