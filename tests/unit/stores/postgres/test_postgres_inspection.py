"""A database looked at without being changed, and brought up to date when told to."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

import asyncpg
import pytest
from tests.servers.shared import with_option

from rota.errors import StoreUnavailableError
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.queries import QUERIES, placed
from rota.stores.postgres.schema import MIGRATIONS, inspect_database, migrate_database
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import DocumentWrite
from rota.testing import a_job

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

OURS = tuple(migration.mark for migration in MIGRATIONS)
A_MOMENT = timedelta(milliseconds=300)


async def test_a_missing_schema_is_reported_and_not_created(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    found = await inspect_database(postgres_settings)
    assert (found.exists, found.applied, found.pending) == (False, (), OURS)
    assert (found.size, found.document_counts, found.job_counts) == (0, {}, None)
    assert not await other.fetchval("SELECT to_regnamespace($1)", postgres_settings.schema)


async def test_migrating_makes_the_schema_once(postgres_settings: PostgresSettings) -> None:
    first = await migrate_database(postgres_settings, A_MOMENT)
    assert (first.applied, first.schema_version) == (OURS, len(OURS))
    second = await migrate_database(postgres_settings, A_MOMENT)
    assert (second.applied, second.schema_version) == ((), len(OURS))


async def test_of_concurrent_migrations_one_reports_the_work(
    postgres_settings: PostgresSettings,
) -> None:
    patience = timedelta(seconds=30)
    reports = await asyncio.gather(
        *(migrate_database(postgres_settings, patience) for _ in range(4))
    )
    assert sorted(len(report.applied) for report in reports) == [0, 0, 0, len(OURS)]


async def test_a_store_is_shown_with_what_it_holds(
    postgres_settings: PostgresSettings, store: PostgresStore, other: Connection
) -> None:
    await store.write_each([DocumentWrite("tasks", key, None, b"") for key in "ab"])
    parent = a_job()
    jobs = [parent, a_job(dependencies=[parent.id]), a_job()]
    await store.insert(jobs, datetime(2026, 1, 1, tzinfo=UTC))
    found = await inspect_database(postgres_settings)
    assert found.exists
    assert found.is_up_to_date
    assert found.kind == "PostgreSQL"
    assert found.version == (await other.fetchval("SHOW server_version")).split(" ")[0]
    assert found.document_counts == {"tasks": 2}
    assert found.job_counts == {"PENDING": 1, "READY": 2}
    assert found.set_aside_job_count == 0
    assert found.size is not None
    assert found.size > 0
    await other.execute("UPDATE jobs SET set_aside = 'its body cannot be read'")
    assert (await inspect_database(postgres_settings)).set_aside_job_count == 3


async def test_the_address_shows_which_store_it_is_and_no_secret(
    postgres_settings: PostgresSettings,
) -> None:
    url = postgres_settings.url.replace("@", ":secret@", 1)
    secret = replace(postgres_settings, url=with_option(url, "application_name", "shop"))
    place = {name: value for name, value in parse_qsl(urlsplit(url).query) if name == "host"}
    shown = (await inspect_database(secret)).address
    assert "secret" not in shown
    assert dict(parse_qsl(urlsplit(shown).query)) == {**place, "schema": secret.schema}
    usual = (await inspect_database(replace(secret, schema="rota"))).address
    assert usual.partition("?")[0] == secret.label
    assert dict(parse_qsl(urlsplit(usual).query)) == place


async def test_a_schema_of_a_newer_version_is_a_finding(
    postgres_settings: PostgresSettings, store: PostgresStore, other: Connection
) -> None:
    del store
    await other.execute("INSERT INTO migrations VALUES (9001, 'breaking', false, '')")
    found = await inspect_database(postgres_settings)
    assert found.schema_version == 9001
    assert "9001_breaking" in (found.problem or "")


async def test_a_lock_held_too_long_is_reported(
    postgres_settings: PostgresSettings, other: Connection
) -> None:
    await other.execute("BEGIN")
    await other.execute(placed(QUERIES.lock_schema, postgres_settings.schema))
    with pytest.raises(StoreUnavailableError, match="kept it locked for too long") as caught:
        await migrate_database(postgres_settings, A_MOMENT)
    assert caught.value.details["outcome"] == "nothing was written"
    await other.execute("ROLLBACK")
    assert (await migrate_database(postgres_settings, A_MOMENT)).applied == OURS


async def test_a_server_that_is_not_there_is_unavailable(
    postgres_settings: PostgresSettings,
) -> None:
    nowhere = replace(postgres_settings, url="postgresql://rota@/x?host=/nowhere")
    for call in (inspect_database(nowhere), migrate_database(nowhere, A_MOMENT)):
        with pytest.raises(StoreUnavailableError, match="no server listens"):
            await call
