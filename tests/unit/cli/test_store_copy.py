"""``rota store copy`` from file to file."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest
from tests.unit.cli.conftest import NOW as CLI_NOW
from tests.unit.cli.conftest import RunRota

from rota import open_store
from rota.cli.store import CopyBars
from rota.ops.store_comparison import UNFINISHED, Phase
from rota.stores.protocol import DocumentWrite, HeldLease, Record
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore
from rota.testing import a_job
from rota.testing.job_store_fixture import MINUTE, NOW, take
from rota.testing.portable_store_contract import dump_all, expect_same, records_of_every_sort


@pytest.fixture
def source(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/source.db"


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/target.db"


def fill(url: str, records: Sequence[Record]) -> None:
    async def run() -> None:
        async with await open_store(url) as store:
            await store.load(records, NOW)

    asyncio.run(run())


def read(url: str) -> list[Record]:
    async def run() -> list[Record]:
        path = Path(url.removeprefix("sqlite:///"))
        async with await SqliteStore.open(SqliteSettings(path)) as store:
            return await dump_all(store)

    return asyncio.run(run())


def test_everything_is_copied_and_said_to_be_equal(rota: RunRota, source: str, target: str) -> None:
    fill(source, records_of_every_sort())
    before = read(source)
    outcome = rota("store", "copy", source, target)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (
        f"{target}: verified 8 jobs, 4 attempts, 3 documents: equal "
        "(1 of the jobs cannot be read, and are set aside).\n"
    )
    expect_same(read(target), before)
    expect_same(read(source), before)
    asyncio.run(_open_and_close(target))


async def _open_and_close(url: str) -> None:
    await (await open_store(url)).close()


def test_programs_get_it_too(rota: RunRota, source: str, target: str) -> None:
    fill(source, records_of_every_sort())
    document = rota("store", "copy", source, target, "--json").document
    assert len(document.pop("digest")) == 64
    assert document == {
        "source": source,
        "target": target,
        "is_resumed": False,
        "was_finished": False,
        "is_equal": True,
        "jobs": 8,
        "unreadable_jobs": 1,
        "attempts": 4,
        "documents": 3,
    }


def test_on_a_terminal_there_is_a_bar_for_each_phase(
    rota: RunRota, source: str, target: str
) -> None:
    fill(source, records_of_every_sort())
    outcome = rota("store", "copy", source, target, width=100)
    for label in ("Copying", "Verifying the source", "Verifying the target"):
        assert label in outcome.err
    assert "11/11" in outcome.err
    assert "100%" in outcome.err


def test_a_dry_run_says_what_would_be_copied_and_makes_nothing(
    rota: RunRota, source: str, target: str, tmp_path: Path
) -> None:
    fill(source, records_of_every_sort())
    outcome = rota("store", "copy", source, target, "--dry-run", width=200)
    assert outcome.status == 0
    assert [line.split(maxsplit=1) for line in outcome.out.splitlines()] == [
        ["Source", source],
        ["Target", target],
        ["Documents", "3 in 2 collections: tasks 2, tâches 1"],
        ["Jobs", "8: PENDING 1, READY 3, RUNNING 1, COMPLETED 1, FAILED 1, BLOCKED 1"],
        ["Would", "make the store and fill it"],
    ]
    document = rota("store", "copy", source, target, "--dry-run", "--json").document
    assert document["documents"] == {"tasks": 2, "tâches": 1}
    assert not (tmp_path / "target.db").exists()


def test_a_target_that_is_not_empty_is_refused_and_left_alone(
    rota: RunRota, source: str, target: str
) -> None:
    fill(source, records_of_every_sort())
    fill(target, records_of_every_sort()[:1])
    before = read(target)
    outcome = rota("store", "copy", source, target)
    assert outcome.status == 5
    assert "is not empty: it holds 1 jobs" in outcome.err
    expect_same(read(target), before)


def test_a_source_in_use_is_refused_unless_forced(
    rota: RunRota, source: str, target: str, tmp_path: Path
) -> None:
    async def lease() -> None:
        async with await open_store(source) as store:
            await store.insert([a_job()], NOW)
            (leased,) = await take(store, limit=1)
            held = [HeldLease(leased.id, leased.last_token)]
            assert await store.extend(held, CLI_NOW + MINUTE, NOW) == [True]

    asyncio.run(lease())
    outcome = rota("store", "copy", source, target)
    assert outcome.status == 5
    assert "The source is in use: 1 jobs are leased. Stop what works with it" in outcome.err
    assert not (tmp_path / "target.db").exists()
    assert rota("store", "copy", source, target, "--force").status == 0


def test_an_unfinished_target_cannot_be_opened_and_the_copy_can_continue(
    rota: RunRota, source: str, target: str
) -> None:
    fill(source, records_of_every_sort())
    mark = b'{"source":"%s"}' % source.encode()

    async def begin() -> None:
        async with await open_store(target) as store:
            await store.write_each([DocumentWrite(UNFINISHED, "target", None, mark)])
            await store.load((await _dump_of(source))[:5], NOW)

    asyncio.run(begin())
    refused = rota("jobs", "list", "--store", target)
    assert refused.status == 6
    assert f"A copy from {source} into this store is not finished" in refused.err
    status = rota("store", "status", target)
    assert status.status == 1
    assert "A copy into it was begun and is not finished; repeat it." in status.out
    assert "continue the copy" in rota("store", "copy", source, target, "--dry-run").out
    document = rota("store", "copy", source, target, "--json").document
    assert (document["is_resumed"], document["is_equal"]) == (True, True)
    expect_same(read(target), read(source))
    assert rota("jobs", "list", "--store", target).status == 0


async def _dump_of(url: str) -> list[Record]:
    async with await open_store(url) as store:
        return await dump_all(store)


def test_a_difference_is_an_error_and_the_target_stays_refused(
    rota: RunRota, source: str, target: str
) -> None:
    fill(source, records_of_every_sort())
    mark = b'{"source":"%s","is_copied":true}' % source.encode()

    async def pretend() -> None:
        async with await open_store(target) as store:
            await store.load((await _dump_of(source))[1:], NOW)
            await store.write_each([DocumentWrite(UNFINISHED, "target", None, mark)])

    asyncio.run(pretend())
    outcome = rota("store", "copy", source, target)
    assert outcome.status == 6
    assert 'document "a" of "tasks" is missing in the target' in outcome.err
    assert rota("store", "status", target).status == 1


def test_an_interruption_says_how_to_continue(
    rota: RunRota, source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, records_of_every_sort())

    def interrupt(_bars: CopyBars, _phase: Phase, _count: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CopyBars, "report", interrupt)
        outcome = rota("store", "copy", source, target)
    assert (outcome.status, outcome.out) == (130, "")
    assert "The source is unchanged; the same command continues" in outcome.err
    assert rota("store", "copy", source, target, "--json").document["is_resumed"]


@pytest.mark.parametrize(
    ("place", "address", "status", "said"),
    [
        (0, "memory://", 2, "A store in memory cannot be copied"),
        (1, "memory://", 2, "A store in memory cannot be copied"),
        (0, "oracle://db", 2, "known schemes are"),
        (1, "oracle://db", 2, "known schemes are"),
        (0, "sqlite:////nowhere/at/all.db", 6, "There is no store at"),
        (1, "sqlite:////nowhere/at/all.db", 6, "does not exist"),
        (1, "postgresql://rota@127.0.0.1:9/rota", 6, "no server listens at that address"),
    ],
)
def test_an_address_without_a_store_is_named(
    rota: RunRota, source: str, target: str, *, place: int, address: str, status: int, said: str
) -> None:
    fill(source, [])
    addresses = [source, target]
    addresses[place] = address
    outcome = rota("store", "copy", *addresses)
    assert outcome.status == status
    assert said in outcome.err


def test_the_same_store_by_the_same_or_another_name_is_refused(
    rota: RunRota, source: str, tmp_path: Path
) -> None:
    fill(source, records_of_every_sort())
    assert "are the same store" in rota("store", "copy", source, source).err
    before = read(source)
    (tmp_path / "other.db").symlink_to(tmp_path / "source.db")
    for name in ("other.db", "../" + tmp_path.name + "/source.db"):
        outcome = rota("store", "copy", source, f"sqlite:///{tmp_path}/{name}")
        assert outcome.status == 2
        assert "are the same store by two addresses; nothing was changed" in outcome.err
    expect_same(read(source), before)


def test_an_empty_store_is_not_copied_to_itself_either(
    rota: RunRota, source: str, tmp_path: Path
) -> None:
    fill(source, [])
    (tmp_path / "other.db").symlink_to(tmp_path / "source.db")
    outcome = rota("store", "copy", source, f"sqlite:///{tmp_path}/other.db")
    assert (outcome.status, "the same store" in outcome.err) == (2, True)
    assert read(source) == []


def test_a_copy_that_was_finished_is_recognised_when_it_is_repeated(
    rota: RunRota, source: str, target: str
) -> None:
    fill(source, records_of_every_sort())
    rota("store", "copy", source, target)
    before = read(target)
    assert "see whether the target" in rota("store", "copy", source, target, "--dry-run").out
    outcome = rota("store", "copy", source, target)
    assert (outcome.status, outcome.err) == (0, "")
    assert "had been finished before; nothing was copied now" in outcome.out
    document = rota("store", "copy", source, target, "--json").document
    assert (document["was_finished"], document["is_equal"]) == (True, True)
    expect_same(read(target), before)


def test_a_copy_that_was_used_is_refused_with_the_differences(
    rota: RunRota, source: str, target: str
) -> None:
    fill(source, records_of_every_sort())
    rota("store", "copy", source, target)

    async def write() -> None:
        async with await open_store(target) as store:
            await store.write_each([DocumentWrite("tasks", "a", 7, b"moved on")])

    asyncio.run(write())
    outcome = rota("store", "copy", source, target)
    assert outcome.status == 5
    assert 'is not a copy of the source: document "a" of "tasks" differs' in outcome.err
    assert rota("jobs", "list", "--store", target).status == 0, "other commands are not refused"


def test_an_older_schema_must_be_migrated_first(
    rota: RunRota, source: str, target: str, tmp_path: Path
) -> None:
    fill(source, [])
    with apsw.Connection(str(tmp_path / "source.db")) as connection:
        connection.execute("DELETE FROM rota_migrations WHERE number > 1")
    outcome = rota("store", "copy", source, target)
    assert outcome.status == 6
    assert "rota store migrate" in outcome.err
    assert not (tmp_path / "target.db").exists()


def test_a_job_that_cannot_be_read_is_copied_with_its_bytes(
    rota: RunRota, source: str, target: str, tmp_path: Path
) -> None:
    broken = a_job(name="broken")

    async def insert() -> None:
        async with await open_store(source) as store:
            child = a_job(name="child", dependencies=[broken.id])
            await store.insert([broken, child], NOW)

    asyncio.run(insert())
    with apsw.Connection(str(tmp_path / "source.db")) as connection:
        connection.execute("UPDATE jobs SET body = x'00ff' WHERE id = ?", (broken.id,))
    outcome = rota("store", "copy", source, target)
    assert outcome.status == 0
    assert "1 of the jobs cannot be read" in outcome.out
    kept = next(each for each in read(target) if getattr(each, "job_id", None) == broken.id)
    assert b'"body":"AP8="' in kept.content  # type: ignore[union-attr] # it is the unreadable one
    again = target.replace("target", "third")
    assert rota("store", "copy", target, again).status == 0
    expect_same(read(again), read(target))


def test_help_says_how_to_go_about_it(rota: RunRota) -> None:
    shown = rota("store", "copy", "--help").out
    for word in ("SOURCE", "TARGET", "--dry-run", "--force", "continues", "stop what works"):
        assert word in shown
