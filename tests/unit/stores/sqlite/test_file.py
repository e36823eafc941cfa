"""Which files are used, made and refused."""

import stat
from pathlib import Path

import apsw
import pytest

from rota.errors import StoreDamagedError, StoreUnavailableError
from rota.stores.protocol import DocumentWrite
from rota.stores.sqlite import connection
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore

PAGE_SIZE = 4096


async def fill(settings: SqliteSettings) -> None:
    """A few hundred pages of documents, folded into the file."""
    store = await SqliteStore.open(settings)
    await store.write_all(
        DocumentWrite("tasks", f"task-{number:05}", None, b"body" * 40) for number in range(5_000)
    )
    await store.close()


def overwrite(path: Path, page: int, content: bytes) -> None:
    path.touch()
    with path.open("r+b") as opened:
        opened.seek(page * PAGE_SIZE)
        opened.write(content)


def content_of(path: Path) -> bytes:
    return path.read_bytes()


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2"])
def test_a_library_that_can_damage_files_is_refused(version: str) -> None:
    with pytest.raises(StoreUnavailableError, match=f"SQLite {version} can damage") as caught:
        connection.check_library(version)
    assert caught.value.details == {"version": version}


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0.0"])
def test_a_library_without_that_fault_is_used(version: str) -> None:
    connection.check_library(version)


async def test_the_library_is_checked_before_the_file_is_touched(
    sqlite_settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    with pytest.raises(StoreUnavailableError, match="WAL-reset bug"):
        await SqliteStore.open(sqlite_settings)
    assert not sqlite_settings.path.exists()


async def test_the_files_are_for_their_owner_alone(store: SqliteStore, path: Path) -> None:
    await store.write_each([DocumentWrite("tasks", "a", None, b"")])
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == {"rota.db": 0o600, "rota.db-wal": 0o600, "rota.db-shm": 0o600}


async def test_a_missing_directory_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "mistyped"
    with pytest.raises(StoreUnavailableError, match=f'mkdir -m 700 "{missing}"'):
        await SqliteStore.open(SqliteSettings(missing / "rota.db"))
    assert not missing.exists()


async def test_a_directory_in_place_of_the_file_is_refused(path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="the file cannot be opened"):
        await SqliteStore.open(SqliteSettings(path.parent))


async def test_a_name_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="the file cannot be created"):
        await SqliteStore.open(SqliteSettings(tmp_path / ("x" * 300)))


async def test_closing_leaves_one_file(sqlite_settings: SqliteSettings) -> None:
    await fill(sqlite_settings)
    assert [each.name for each in sqlite_settings.path.parent.iterdir()] == ["rota.db"]


async def test_a_file_that_is_not_a_database_is_refused_and_left_alone(path: Path) -> None:
    letter = b"not a database at all, but someone's letter" * 100
    overwrite(path, 0, letter)
    with pytest.raises(StoreDamagedError, match="is damaged") as caught:
        await SqliteStore.open(SqliteSettings(path))
    assert caught.value.details["path"] == str(path)
    assert f"python -m rota.stores.sqlite.rescue {path} " in caught.value.message
    assert content_of(path) == letter


@pytest.mark.parametrize("whole_check_size", [connection.WHOLE_CHECK_SIZE, 0])
async def test_a_truncated_file_is_refused(
    sqlite_settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch, whole_check_size: int
) -> None:
    monkeypatch.setattr(connection, "WHOLE_CHECK_SIZE", whole_check_size)
    await fill(sqlite_settings)
    path = sqlite_settings.path
    with path.open("r+b") as opened:
        opened.truncate(path.stat().st_size - 10 * PAGE_SIZE)
    with pytest.raises(StoreDamagedError):
        await SqliteStore.open(sqlite_settings)


async def test_a_small_file_damaged_anywhere_is_refused(sqlite_settings: SqliteSettings) -> None:
    await fill(sqlite_settings)
    path = sqlite_settings.path
    overwrite(path, path.stat().st_size // PAGE_SIZE // 2, bytes(PAGE_SIZE))
    with pytest.raises(StoreDamagedError, match="damaged") as caught:
        await SqliteStore.open(sqlite_settings)
    assert "\n" not in caught.value.message


async def test_a_large_file_damaged_at_its_edge_is_refused(
    sqlite_settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WHOLE_CHECK_SIZE", 0)
    await fill(sqlite_settings)
    path = sqlite_settings.path
    overwrite(path, path.stat().st_size // PAGE_SIZE - 1, b"\xff" * PAGE_SIZE)
    with pytest.raises(StoreDamagedError):
        await SqliteStore.open(sqlite_settings)


async def test_damage_inside_a_large_file_is_reported_by_the_call_that_meets_it(
    sqlite_settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WHOLE_CHECK_SIZE", 0)
    await fill(sqlite_settings)
    path = sqlite_settings.path
    overwrite(path, path.stat().st_size // PAGE_SIZE // 2, b"\xff" * PAGE_SIZE)
    async with await SqliteStore.open(sqlite_settings) as store:
        assert await store.read("tasks", ["task-00000"])
        with pytest.raises(StoreDamagedError):
            [page async for page in store.scan("tasks")]


async def test_an_empty_file_beside_a_full_log_is_refused(path: Path) -> None:
    overwrite(path, 0, b"")
    log = path.with_name("rota.db-wal")
    overwrite(log, 0, b"everything that was ever written")
    with pytest.raises(StoreDamagedError, match="empty while its write-ahead log is not"):
        await SqliteStore.open(SqliteSettings(path))
    assert content_of(log) == b"everything that was ever written"


async def test_an_empty_file_is_a_new_store(path: Path) -> None:
    overwrite(path, 0, b"")
    async with await SqliteStore.open(SqliteSettings(path)) as store:
        assert await store.write_each([DocumentWrite("tasks", "a", None, b"")]) == [1]
