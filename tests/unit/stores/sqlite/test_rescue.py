"""Saving what can be read of a damaged file."""

import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from rota.errors import StoreDamagedError, StoreUnavailableError
from rota.jobs import Discarded, Failed, Succeeded
from rota.stores.protocol import Document, DocumentWrite
from rota.stores.sqlite.connection import MIGRATIONS, SqliteSettings, migrate
from rota.stores.sqlite.rescue import RescueReport, main, rescue
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, end, everything, take

DOCUMENT_COUNT = 5_000
JOB_COUNT = 1_000


@pytest.fixture
async def filled(sqlite_settings: SqliteSettings) -> Path:
    async with await SqliteStore.open(sqlite_settings) as store:
        await store.write_all(
            DocumentWrite("tasks", f"task-{number:05}", None, b"body" * 40)
            for number in range(DOCUMENT_COUNT)
        )
        await store.write_each([DocumentWrite("tasks", "task-00000", 1, b"changed")])
    return sqlite_settings.path


@pytest.fixture
def rescued(path: Path) -> Path:
    return path.with_name("rota-rescued.db")


def damage(path: Path, *, page: int | None = None) -> None:
    content = bytearray(path.read_bytes())
    start = 4096 * (len(content) // 4096 // 2 if page is None else page)
    content[start : start + 4096] = bytes(4096)
    path.write_bytes(content)


def middle_page_with(path: Path, text: bytes) -> int:
    """The middle one of the pages that contain this text."""
    content = path.read_bytes()
    starts = range(0, len(content), 4096)
    found = [start // 4096 for start in starts if text in content[start : start + 4096]]
    return found[len(found) // 2]


async def read_all(path: Path) -> list[Document]:
    async with await SqliteStore.open(SqliteSettings(path)) as store:
        return [document async for page in store.scan("tasks") for document in page]


async def test_a_sound_file_is_copied_whole_with_its_versions(filled: Path, rescued: Path) -> None:
    assert rescue(filled, rescued) == RescueReport(DOCUMENT_COUNT, 0, is_complete=True)
    assert await read_all(rescued) == await read_all(filled)


async def test_rescue_saves_the_rows_before_and_after_the_damage(
    filled: Path, rescued: Path
) -> None:
    before = await read_all(filled)
    damage(filled)
    report = rescue(filled, rescued)
    assert not report.is_complete
    assert DOCUMENT_COUNT - 100 < report.document_count < DOCUMENT_COUNT
    saved = await read_all(rescued)
    assert len(saved) == report.document_count
    assert set(saved) <= set(before)
    assert (saved[0], saved[-1]) == (before[0], before[-1])


async def test_jobs_are_saved_with_all_that_belongs_to_them(path: Path, rescued: Path) -> None:
    async with await SqliteStore.open(SqliteSettings(path)) as store:
        parent = a_job()
        child = a_job(dependencies=[parent.id], payload={"b": 1, "a": 2})
        await store.insert([parent, child], NOW)
        (leased,) = await take(store)
        await end(store, leased, Failed("no", traceback="Traceback"))
        wide = a_job(dependencies=[child.id], on_parent_failure="run")
        done = a_job()
        await store.insert([wide, done], NOW)
        (leased,) = await take(store)
        await end(store, leased, Succeeded(b"7"))
        before = await everything(store)
    assert rescue(path, rescued) == RescueReport(0, 4, is_complete=True)
    async with await SqliteStore.open(SqliteSettings(rescued)) as store:
        assert await everything(store) == before
        (attempt,) = await store.attempts("default", parent.id)
        assert (attempt.error, attempt.traceback) == ("no", "Traceback")
        assert await store.results("default", [done.id]) == {done.id: b"7"}
        (leased,) = await take(store, NOW + DAY)
        assert (await end(store, leased)).released == (child.id,)
        (leased,) = await take(store, NOW + DAY)
        assert (await end(store, leased, Discarded("no"))).released == (wide.id,)


async def test_jobs_before_and_behind_the_damage_are_saved(path: Path, rescued: Path) -> None:
    async with await SqliteStore.open(SqliteSettings(path)) as store:
        await store.insert([a_job(payload="x" * 400) for _ in range(JOB_COUNT)], NOW)
    damage(path, page=middle_page_with(path, b"x" * 400))
    report = rescue(path, rescued)
    assert not report.is_complete
    assert JOB_COUNT - 200 < report.job_count < JOB_COUNT
    async with await SqliteStore.open(SqliteSettings(rescued)) as store:
        assert len(await take(store, limit=JOB_COUNT)) == report.job_count


def test_a_file_from_before_there_were_jobs_is_saved_too(path: Path, rescued: Path) -> None:
    older = apsw.Connection(str(path))
    migrate(older, MIGRATIONS[:1])
    older.execute("INSERT INTO documents VALUES ('tasks', 'a', 1, x'00')")
    older.close()
    assert rescue(path, rescued) == RescueReport(1, 0, is_complete=True)


def test_a_file_without_its_first_page_cannot_be_read(filled: Path, rescued: Path) -> None:
    damage(filled, page=0)
    with pytest.raises(StoreDamagedError):
        rescue(filled, rescued)
    assert not rescued.exists()


def test_an_existing_file_is_never_written_to(filled: Path, rescued: Path) -> None:
    rescued.write_bytes(b"precious")
    with pytest.raises(StoreUnavailableError, match="exists already"):
        rescue(filled, rescued)
    assert rescued.read_bytes() == b"precious"


async def test_the_command_named_by_the_error_works(filled: Path, rescued: Path) -> None:
    damage(filled)
    with pytest.raises(StoreDamagedError) as caught:
        await SqliteStore.open(SqliteSettings(filled))
    command = shlex.split(caught.value.details["recovery"])
    assert command[0] == "python"
    assert run([sys.executable, *command[1:]]) == 3
    assert len(await read_all(rescued)) > DOCUMENT_COUNT - 100


def run(command: list[str]) -> int:
    return subprocess.run(command, check=False).returncode


def test_the_program_says_what_it_saved(
    filled: Path, rescued: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(filled), str(rescued)]) == 0
    told = f"Saved 5000 documents and 0 jobs to {rescued}; that is all there were.\n"
    assert capsys.readouterr().out == told
    assert main([str(filled), str(rescued)]) == 1
    assert "exists already" in capsys.readouterr().err


def test_the_program_says_when_something_was_lost(
    filled: Path, rescued: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(filled)
    assert main([str(filled), str(rescued)]) == 3
    assert "others could not be read" in capsys.readouterr().out


def test_the_program_says_how_it_is_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["rescue"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(rescue.__code__.co_filename), run_name="__main__")
    assert caught.value.code == 2
    assert "DAMAGED RESCUED" in capsys.readouterr().err
