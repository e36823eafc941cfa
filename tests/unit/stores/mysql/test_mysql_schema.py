"""The tables: created once, migrated, inspected, and refused where this program cannot use them."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.servers.mariadb import connect_to, execute, open_mysql
from tests.servers.shared import in_database, shared_mysql_url

from rota.errors import SchemaOutdatedError, StoreUnavailableError
from rota.runtime.wiring import inspect_store, migrate_store
from rota.stores.mysql.address import read_address
from rota.stores.mysql.schema import check_version
from rota.stores.mysql.store import MysqlStore
from rota.testing.builders import a_job

NAME = "rota_schema_test"


@pytest.fixture
def new_url() -> Iterator[str]:
    """A database without tables."""
    server = shared_mysql_url()
    execute(server, f"CREATE DATABASE {NAME}")
    yield in_database(server, NAME)
    execute(server, f"DROP DATABASE {NAME}")


async def test_many_programs_that_open_a_new_store_create_it_once(new_url: str) -> None:
    stores = await asyncio.gather(*(open_mysql(new_url) for _ in range(6)))
    assert (await inspect_store(new_url)).schema_version == 1
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_migration_that_was_interrupted_is_completed(new_url: str) -> None:
    await (await open_mysql(new_url)).close()
    execute(new_url, "DELETE FROM rota_migrations", "DROP TABLE rota_results")
    report = await migrate_store(new_url)
    assert [mark.name for mark in report.applied] == ["store"]
    assert execute(new_url, "SELECT COUNT(*) FROM rota_results") == [(0,)]


async def test_an_inspection_changes_nothing(new_url: str) -> None:
    found = await inspect_store(new_url)
    assert (found.exists, found.schema_version, found.job_counts) == (False, 0, None)
    assert execute(new_url, "SHOW TABLES") == []
    async with await open_mysql(new_url) as store:
        await store.insert([a_job()], a_job().created_at)
    found = await inspect_store(new_url)
    assert (found.kind, found.is_up_to_date, found.job_counts) == ("MariaDB", True, {"READY": 1})
    assert found.size is not None
    assert found.size > 0


async def test_a_store_of_a_newer_program_is_refused(new_url: str) -> None:
    await (await open_mysql(new_url)).close()
    execute(new_url, "INSERT INTO rota_migrations VALUES (2, 'later', 0, 'sum')")
    with pytest.raises(SchemaOutdatedError, match="0002_later"):
        await open_mysql(new_url)
    assert "upgrade Rota" in str((await inspect_store(new_url)).problem)


async def test_a_migration_waits_no_longer_than_it_may(new_url: str) -> None:
    other = await connect_to(new_url)
    async with other.cursor() as cursor:
        await cursor.execute("SELECT GET_LOCK(CONCAT('rota:', SHA1(DATABASE())), 0)")
    with pytest.raises(StoreUnavailableError, match="another program is migrating it"):
        await migrate_store(new_url, timedelta(seconds=0.1))
    await other.ensure_closed()


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("10.11.18-MariaDB-0+deb12u1", "MariaDB"),
        ("11.4.2-MariaDB", "MariaDB"),
        ("8.0.11", "MySQL"),
        ("9.1.0-commercial", "MySQL"),
    ],
)
def test_new_servers_are_taken(version: str, kind: str) -> None:
    assert check_version(version, "mysql://a@b/c") == kind


@pytest.mark.parametrize("version", ["10.6.12-MariaDB", "5.7.44", "10.4.0-mariadb-log", "nine"])
def test_old_servers_are_refused_with_what_is_needed(version: str) -> None:
    with pytest.raises(StoreUnavailableError, match=r"needs MariaDB 10\.11 or MySQL 8\.0"):
        check_version(version, "mysql://a@b/c")


def test_an_address_shows_no_password() -> None:
    settings = read_address("mariadb://ada:s%3Fcret@db.example/rota")
    assert settings.password == "s?cret"  # noqa: S105 - made up
    assert settings.label == "mysql://ada@db.example:3306/rota"
    assert "cret" not in repr(settings)


async def test_a_missing_database_is_named(mysql_url: str) -> None:
    with pytest.raises(StoreUnavailableError, match="CREATE DATABASE") as caught:
        await MysqlStore.open(read_address(in_database(mysql_url, "nowhere")))
    assert caught.value.details["outcome"] == "nothing was written"
