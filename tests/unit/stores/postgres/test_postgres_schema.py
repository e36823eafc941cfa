"""The schema is created once, by the first process, and refused when it is not Rota's."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

import asyncpg
import pytest
from tests.servers.shared import in_database, new_database
from tests.unit.worker.workshop import NOW, succeed

from rota.errors import SchemaOutdatedError, StoreUnavailableError
from rota.jobs import JobStatus
from rota.stores.migrations import Migration, read_migration
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.queries import QUERIES, placed
from rota.stores.postgres.schema import MIGRATIONS, migrate, open_database
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock, a_job
from rota.worker import Worker

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

OURS = [(migration.mark.number, migration.mark.name) for migration in MIGRATIONS]
LATER = read_migration("9001_later.sql", "-- compatible: yes\nCREATE TABLE rota.later (a int);\n")
BREAKING = read_migration("9002_breaking.sql", "-- compatible: no\nDROP TABLE rota.documents;\n")


async def apply(settings: PostgresSettings, known: Sequence[Migration]) -> None:
    """What a program that knows these migrations does when it opens the store."""
    database = await open_database(settings)
    try:
        await database.run(lambda session: migrate(session, settings, known))
    finally:
        await database.close()


def as_user(settings: PostgresSettings, name: str) -> PostgresSettings:
    return replace(settings, url=re.sub("//[^@/]*@", f"//{name}@", settings.url))


async def applied(other: Connection) -> list[tuple[int, str]]:
    rows = await other.fetch("SELECT number, name FROM migrations ORDER BY number")
    return [tuple(row) for row in rows]


async def test_the_schema_is_brought_up_to_date_once(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    await apply(postgres_settings, MIGRATIONS)
    await apply(postgres_settings, (*MIGRATIONS, LATER))
    await apply(postgres_settings, (*MIGRATIONS, LATER))
    assert await applied(other) == [*OURS, (9001, "later")]


async def test_a_migration_may_take_longer_than_any_other_answer(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    await apply(postgres_settings, MIGRATIONS)
    slow = read_migration("9001_later.sql", "-- compatible: yes\nSELECT pg_sleep(0.5);\n")
    hasty = replace(postgres_settings, answer_for=timedelta(seconds=0.4))
    await apply(hasty, (*MIGRATIONS, slow))
    assert await applied(other) == [*OURS, (9001, "later")]


async def test_concurrent_callers_do_it_once(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    known = (*MIGRATIONS, LATER)
    await asyncio.gather(*(apply(postgres_settings, known) for _ in range(8)))
    assert await applied(other) == [*OURS, (9001, "later")]


async def test_an_older_program_goes_on_with_a_compatible_schema(
    postgres_settings: PostgresSettings,
) -> None:
    await apply(postgres_settings, (*MIGRATIONS, LATER))
    async with await PostgresStore.open(postgres_settings) as store:
        assert await store.read("tasks", ["a"]) == {}


async def test_an_older_program_is_refused_by_an_incompatible_schema(
    postgres_settings: PostgresSettings,
) -> None:
    await apply(postgres_settings, (*MIGRATIONS, LATER, BREAKING))
    with pytest.raises(SchemaOutdatedError, match="upgrade Rota"):
        await PostgresStore.open(postgres_settings)


async def test_a_migration_with_other_content_is_refused(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    await apply(postgres_settings, MIGRATIONS)
    await other.execute("UPDATE migrations SET checksum = 'tampered'")
    with pytest.raises(SchemaOutdatedError, match="another migration 0001_documents"):
        await PostgresStore.open(postgres_settings)


async def test_a_migration_that_fails_leaves_everything_as_it_was(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    broken = read_migration("9002_broken.sql", "-- compatible: yes\nDROP TABLE rota.absent;\n")
    await apply(postgres_settings, MIGRATIONS)
    with pytest.raises(SchemaOutdatedError, match=r"9002_broken does not fit.*absent"):
        await apply(postgres_settings, (*MIGRATIONS, LATER, broken))
    assert await applied(other) == OURS
    assert await other.fetchval("SELECT to_regclass('later')") is None


async def test_a_table_of_that_name_in_the_schema_is_refused_and_left_alone(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    await other.execute(
        f"CREATE SCHEMA {postgres_settings.schema}; CREATE TABLE documents (theirs int)"
    )
    with pytest.raises(SchemaOutdatedError, match=r"0001_documents.*already exists"):
        await PostgresStore.open(postgres_settings)
    assert await other.fetchval("SELECT to_regclass('migrations')") is None


async def test_waiters_give_up_when_the_lock_is_held_too_long(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    await other.execute("BEGIN")
    await other.execute(placed(QUERIES.lock_schema, postgres_settings.schema))
    impatient = replace(postgres_settings, connect_for=timedelta(milliseconds=500))
    with pytest.raises(StoreUnavailableError, match="kept it locked for too long"):
        await PostgresStore.open(impatient)
    await other.execute("ROLLBACK")
    await (await PostgresStore.open(postgres_settings)).close()


async def test_a_schema_that_is_up_to_date_needs_neither_a_lock_nor_the_right_to_create(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    await apply(postgres_settings, MIGRATIONS)
    schema = postgres_settings.schema
    await other.execute(
        f"CREATE ROLE {schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema}"
    )
    await other.execute("BEGIN")
    await other.execute(placed(QUERIES.lock_schema, schema))
    humble = as_user(postgres_settings, schema)
    async with await PostgresStore.open(humble) as store:
        assert await store.read("tasks", ["a"]) == {}
        job = a_job(kind="work", due_at=NOW, created_at=NOW)
        await store.insert([job], NOW)
        await Worker(store, {"work": succeed}, clock=VirtualClock(NOW)).run_once()
        kept = await store.get(job.tenant, [job.id])
        assert kept[job.id].status is JobStatus.COMPLETED
    with pytest.raises(StoreUnavailableError, match="this user may not do that"):
        await PostgresStore.open(replace(humble, schema="elsewhere"))
    await other.execute("ROLLBACK")
    await other.execute(f"DROP OWNED BY {schema}; DROP ROLE {schema}")


async def test_a_user_without_the_right_to_create_tables_gets_an_error(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    schema = postgres_settings.schema
    await other.execute(
        f"CREATE ROLE {schema} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {schema}"
    )
    await other.execute(f"REVOKE CREATE ON SCHEMA {schema} FROM {schema}")
    humble = as_user(postgres_settings, schema)
    with pytest.raises(StoreUnavailableError, match="this user may not do that"):
        await PostgresStore.open(humble)
    await other.execute(f"DROP SCHEMA {schema} CASCADE; DROP ROLE {schema}")


async def test_a_user_without_the_right_to_alter_tables_gets_an_error(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    await apply(postgres_settings, MIGRATIONS)
    schema = postgres_settings.schema
    await other.execute(
        f"CREATE ROLE {schema} LOGIN; GRANT USAGE, CREATE ON SCHEMA {schema} TO {schema};"
        f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO {schema}"
    )
    script = "-- compatible: yes\nALTER TABLE rota.documents ADD COLUMN a int;\n"
    with pytest.raises(StoreUnavailableError, match="this user may not do that"):
        await apply(
            as_user(postgres_settings, schema), (*MIGRATIONS, read_migration("9001_a.sql", script))
        )
    await other.execute(f"DROP OWNED BY {schema}; DROP ROLE {schema}")


async def test_a_database_that_cannot_hold_every_name_is_refused(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    name = postgres_settings.schema
    await other.execute(f"CREATE DATABASE {name} ENCODING SQL_ASCII LOCALE 'C' TEMPLATE template0")
    elsewhere = replace(postgres_settings, url=in_database(postgres_settings.url, name))
    with pytest.raises(StoreUnavailableError, match="encoded in SQL_ASCII"):
        await PostgresStore.open(elsewhere)
    await other.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_missing_database_is_named_in_the_error(
    postgres_settings: PostgresSettings,
) -> None:
    elsewhere = replace(postgres_settings, url=in_database(postgres_settings.url, "nowhere"))
    with pytest.raises(StoreUnavailableError, match="there is no such database") as caught:
        await PostgresStore.open(elsewhere)
    assert caught.value.details["outcome"] == "nothing was written"


async def test_two_schemas_of_one_database_are_two_stores(
    postgres_database: str,
) -> None:
    with new_database(postgres_database) as url:
        names = ["rota", "rota_staging"]
        stores = [await PostgresStore.open(PostgresSettings(url, name)) for name in names]
        for store, name in zip(stores, names, strict=True):
            write = DocumentWrite("tasks", "a", None, name.encode())
            assert await store.write_each([write]) == [1]
        for store, name in zip(stores, names, strict=True):
            assert (await store.read("tasks", ["a"]))["a"].body == name.encode()
            await store.close()
