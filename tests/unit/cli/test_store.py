"""``rota store`` on files, and on what is not there."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest
from tests.unit.cli.conftest import RunRota

from rota import open_store
from rota.cli.store import format_size, list_facts, list_findings
from rota.scheduler.storage import SET_ASIDE
from rota.stores.inspection import StoreInspection
from rota.stores.migrations import AppliedMigration
from rota.stores.protocol import DocumentWrite
from rota.stores.sqlite.connection import MIGRATIONS, SqliteSettings
from rota.stores.sqlite.store import SqliteStore
from rota.testing import a_job

NAMES = [f"{migration.mark.number:04d}_{migration.mark.name}" for migration in MIGRATIONS]
LAST = len(MIGRATIONS)
DONE = AppliedMigration(1, "documents", is_compatible=False, checksum="")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def write(url: str, *writes: DocumentWrite) -> None:
    async def run() -> None:
        async with await open_store(url) as store:
            await store.write_each(writes)

    asyncio.run(run())


def test_a_missing_store_is_reported_and_not_created(rota: RunRota, url: str, path: Path) -> None:
    outcome = rota("store", "status", url)
    assert outcome.status == 1
    assert "The store does not exist yet; rota store migrate makes it." in outcome.out
    assert not path.exists()


def test_migrating_makes_the_store_says_so_and_is_done_once(rota: RunRota, url: str) -> None:
    first, second = rota("store", "migrate", url), rota("store", "migrate", url)
    assert (first.status, second.status) == (0, 0)
    applied = [f"Applied {name}" for name in NAMES]
    assert first.out.splitlines() == [*applied, f"The schema is now at version {LAST}."]
    assert second.out == f"The schema is already at version {LAST}.\n"


def test_migrating_answers_programs_too(rota: RunRota, url: str) -> None:
    first = rota("store", "migrate", url, "--json").document
    assert [mark["number"] for mark in first["applied"]] == list(range(1, LAST + 1))
    assert first["applied"][0] == {"number": 1, "name": "documents", "is_compatible": False}
    assert rota("store", "migrate", url, "--json").document == {
        "applied": [],
        "schema_version": LAST,
    }


def test_a_store_that_is_well_is_shown_with_what_it_holds(rota: RunRota, url: str) -> None:
    write(url, *(DocumentWrite("tasks", key, None, b"") for key in "ab"))
    write(url, DocumentWrite("other", "a", None, b""))
    outcome = rota("store", "status", url)
    assert outcome.status == 0
    facts = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    assert facts["Store"] == url
    assert facts["Kind"] == f"SQLite {apsw.sqlite_lib_version()}"
    assert facts["Schema"] == f"version {LAST}, up to date"
    assert facts["Documents"] == "3 in 2 collections: other 1, tasks 2"
    assert facts["Size"].endswith("KiB")


def test_the_status_is_to_be_had_for_programs(rota: RunRota, url: str, path: Path) -> None:
    write(url, DocumentWrite("tasks", "a", None, b""))
    document = rota("store", "status", url, "--json").document
    assert document["address"] == url
    assert document["kind"] == "SQLite"
    assert document["exists"] is document["is_up_to_date"] is True
    assert document["schema_version"] == LAST
    assert [mark["number"] for mark in document["applied"]] == list(range(1, LAST + 1))
    assert (document["pending"], document["problem"]) == ([], None)
    assert document["documents"] == {"tasks": 1}
    assert document["set_aside"] == {"documents": 0, "jobs": 0}
    assert document["size"] == path.stat().st_size


def test_looking_changes_nothing(rota: RunRota, url: str, path: Path) -> None:
    write(url, DocumentWrite("tasks", "a", None, b""))
    before = path.read_bytes()
    rota("store", "status", url)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["rota.db"]


def test_a_record_that_was_set_aside_is_a_problem(rota: RunRota, url: str) -> None:
    write(url, DocumentWrite(SET_ASIDE, "broken", None, b"?"))
    outcome = rota("store", "status", url)
    assert outcome.status == 1
    assert outcome.out.splitlines()[-1].startswith("1 record is set aside")
    assert rota("store", "status", url, "--json").document["set_aside"]["documents"] == 1


def test_an_older_store_lists_pending_migrations(rota: RunRota, url: str, path: Path) -> None:
    rota("store", "migrate", url)
    with apsw.Connection(str(path)) as connection:
        connection.execute("DELETE FROM rota_migrations; DROP TABLE documents")
    outcome = rota("store", "status", url)
    assert outcome.status == 1
    assert f"Pending: {', '.join(NAMES)}; rota store migrate applies them." in outcome.out


def test_a_schema_of_a_newer_version_is_a_problem(rota: RunRota, url: str, path: Path) -> None:
    rota("store", "migrate", url)
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO rota_migrations VALUES (9001, 'breaking', 0, '')")
    connection.close()
    status = rota("store", "status", url)
    assert status.status == 1
    assert "9001_breaking" in status.out
    assert "upgrade Rota" in rota("store", "status", url, "--json").document["problem"]
    assert rota("store", "migrate", url).status == 6


def test_a_store_that_others_keep_locked_is_left_as_it_was(
    rota: RunRota, url: str, path: Path
) -> None:
    rota("store", "migrate", url)
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    outcome = rota("store", "migrate", url, "--lock-timeout", "0.05")
    connection.close()
    assert outcome.status == 6
    assert "kept it locked for too long" in outcome.err
    assert outcome.err.splitlines()[-1] == (
        "The schema is as it was, and programs that use it go on working."
    )


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "100000"])
def test_a_lock_timeout_that_makes_no_sense_is_refused(
    rota: RunRota, url: str, path: Path, seconds: str
) -> None:
    assert rota("store", "migrate", url, f"--lock-timeout={seconds}").status == 2
    assert not path.exists()


@pytest.mark.parametrize("command", ["status", "migrate"])
def test_an_address_that_names_no_store_is_bad_input(rota: RunRota, command: str) -> None:
    outcome = rota("store", command, "oracle://me:secret@host/rota", "--json")
    assert outcome.status == 2
    assert outcome.error["type"] == "InvalidStoreUrlError"
    assert "secret" not in outcome.err


@pytest.mark.parametrize("command", ["status", "migrate"])
def test_a_file_that_is_damaged_is_the_fault_of_the_store(
    rota: RunRota, url: str, path: Path, command: str
) -> None:
    path.write_bytes(b"no database" * 500)
    outcome = rota("store", command, url)
    assert outcome.status == 6
    assert "damaged" in outcome.err


def test_a_store_in_memory_has_no_schema(rota: RunRota) -> None:
    status = rota("store", "status", "memory://")
    assert status.status == 0
    assert "Schema     none" in status.out
    assert rota("store", "migrate", "memory://").status == 0


def test_the_address_is_taken_from_the_environment_or_an_option(
    rota: RunRota, url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_STORE", url)
    assert rota("store", "migrate").status == 0
    assert path.exists()
    assert rota("store", "status", "--store", "memory://").out.startswith("Store      memory://")


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (13_002_342, "12.4 MiB")],
)
def test_sizes_are_said_as_people_say_them(size: int, shown: str) -> None:
    assert format_size(size) == shown


def test_jobs_are_counted_by_status_in_the_order_of_their_lives() -> None:
    counts = {"FAILED": 1, "READY": 2, "mended": 3}
    inspection = StoreInspection("a", "b", applied=(DONE,), job_counts=counts)
    rows = dict(list_facts(inspection))
    assert rows["Jobs"] == "6: READY 2, FAILED 1"
    empty = StoreInspection("a", "b", applied=(DONE,), job_counts={})
    assert ("Jobs", "0") in list_facts(empty)


def test_jobs_that_were_set_aside_are_a_finding() -> None:
    inspection = StoreInspection("a", "b", applied=(DONE,), set_aside_job_count=2)
    assert list_findings(inspection) == [
        "2 records are set aside: they could not be read, and are kept as they were."
    ]


def test_the_jobs_of_a_file_are_counted(rota: RunRota, url: str, path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    async def insert() -> None:
        async with await SqliteStore.open(SqliteSettings(path)) as store:
            parent = a_job()
            await store.insert([parent, a_job(dependencies=[parent.id])], now)

    asyncio.run(insert())
    document = rota("store", "status", url, "--json").document
    assert document["jobs"] == {"PENDING": 1, "READY": 1}
