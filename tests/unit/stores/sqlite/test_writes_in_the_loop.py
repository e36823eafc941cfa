"""A lone new job is written in the event loop, where that cannot hold the loop up for long."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import Any

import apsw
import pytest

from rota.errors import StoreClosedError, StoreUnavailableError
from rota.jobs import Job
from rota.stores.sqlite import threads
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW, a_request


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """A store whose writes have been quick, and which is patient with locks."""
    async with await SqliteStore.open(
        SqliteSettings(path, busy_for=timedelta(seconds=30))
    ) as store:
        store._writer._rows._recent_seconds = 0
        yield store


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write seems to take no time at all, however busy this machine is."""
    monkeypatch.setattr(threads, "monotonic", lambda: 0.0)


def note_commits(store: SqliteStore) -> list[int]:
    """A list that gets the thread of each commit from now on."""
    commits: list[int] = []

    def note() -> bool:
        commits.append(get_ident())
        return False

    store._writer._connection.set_commit_hook(note)
    return commits


async def insert(store: SqliteStore, *jobs: Job) -> None:
    await store.insert(jobs or [a_job()], NOW)


@pytest.mark.usefixtures("quick")
async def test_a_lone_job_is_written_in_the_loop(store: SqliteStore) -> None:
    commits = note_commits(store)
    for number in range(3):
        (inserted,) = await store.insert([a_job(id=f"{number}")], NOW)
        assert inserted.job.id == f"{number}"
    assert commits == [get_ident()] * 3
    leased = await store.lease(a_request(), NOW)
    assert sorted(job.id for job in leased) == ["0", "1", "2"]


@pytest.mark.usefixtures("quick")
async def test_a_job_that_exists_is_left_to_the_kernel(store: SqliteStore) -> None:
    job = a_job()
    await insert(store, job)
    (again,) = await store.insert([job], NOW)
    assert again.job == job
    assert await store.count(job.tenant) == 1


@pytest.mark.usefixtures("quick")
async def test_jobs_of_one_turn_share_transactions_in_the_thread(store: SqliteStore) -> None:
    commits = note_commits(store)
    await asyncio.gather(*(insert(store) for _ in range(50)))
    assert get_ident() not in commits
    assert len(commits) <= 10  # mostly one; more if this machine is very busy
    assert await store.count("default") == 50


@pytest.mark.usefixtures("quick")
async def test_a_job_beside_another_call_goes_to_the_thread(store: SqliteStore) -> None:
    commits = note_commits(store)
    await asyncio.gather(insert(store), store.lease(a_request(), NOW))
    assert get_ident() not in commits


@pytest.mark.usefixtures("quick")
async def test_the_loop_turns_between_two_writes(store: SqliteStore) -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        loop = asyncio.get_running_loop()
        while True:
            turns += 1
            turned = loop.create_future()
            loop.call_soon(turned.set_result, None)
            await turned

    other = asyncio.ensure_future(take_turns())
    for _ in range(20):
        await insert(store)
    other.cancel()
    assert turns >= 10


async def test_where_writes_are_slow_the_thread_writes(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count()
    monkeypatch.setattr(threads, "monotonic", lambda: next(ticks) * 2 * threads.QUICK_SECONDS)
    commits = note_commits(store)
    for _ in range(20):
        await insert(store)
    assert commits[0] == get_ident()
    assert get_ident() not in commits[-10:]
    monkeypatch.setattr(threads, "monotonic", lambda: 0.0)
    for _ in range(20):
        await insert(store)
    assert commits[-1] == get_ident()


@pytest.mark.parametrize(("slow_count", "is_in_loop"), [(1, True), (3, False)])
async def test_slow_writes_in_a_row_count(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, slow_count: int, is_in_loop: bool
) -> None:
    times = iter([0.0, 60.0] * slow_count + [0.0] * 1_000)
    monkeypatch.setattr(threads, "monotonic", lambda: next(times))
    for _ in range(slow_count):
        await insert(store)
    commits = note_commits(store)
    await insert(store)
    assert (commits == [get_ident()]) is is_in_loop


async def test_the_first_writes_to_a_file_are_not_known_to_be_quick(
    sqlite_settings: SqliteSettings,
) -> None:
    async with await SqliteStore.open(sqlite_settings) as store:
        commits = note_commits(store)
        await insert(store)
    assert get_ident() not in commits


@pytest.mark.usefixtures("quick")
async def test_the_thread_waits_for_the_lock_of_another(
    store: SqliteStore, held_lock: Callable[[], apsw.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    sleep = apsw.sleep

    def note(milliseconds: int) -> None:
        waits.append(get_ident())
        sleep(milliseconds)

    monkeypatch.setattr(apsw, "sleep", note)
    other = held_lock()
    inserting = asyncio.ensure_future(insert(store))
    while not waits:
        await asyncio.wait([inserting], timeout=0.001)
    assert not inserting.done()
    other.close()
    await asyncio.wait_for(inserting, 20)
    assert get_ident() not in waits
    assert await store.count("default") == 1


@pytest.mark.usefixtures("quick")
async def test_the_loop_does_not_wait_for_the_thread(store: SqliteStore, gate: Any) -> None:
    writing = asyncio.ensure_future(store.write_all(gate))
    inserting = asyncio.ensure_future(insert(store))
    await asyncio.wait([writing, inserting], timeout=0.01)
    assert not inserting.done()
    gate.opened.set()
    await asyncio.gather(writing, inserting)


@pytest.mark.usefixtures("quick")
async def test_a_long_log_is_folded_by_the_thread(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "LONG_LOG", 20)
    folds: list[int] = []
    fold = threads._Log.fold_if_long

    def note(log: threads._Log) -> None:
        if log.is_long:
            folds.append(get_ident())
        fold(log)

    monkeypatch.setattr(threads._Log, "fold_if_long", note)
    commits = note_commits(store)
    for _ in range(200):
        await insert(store)
    assert folds
    assert get_ident() in commits
    assert get_ident() not in folds
    assert path.with_name("rota.db-wal").stat().st_size < 100 * 4_096


async def test_a_blocking_caller_folds_a_long_log(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "LONG_LOG", 20)
    for _ in range(200):
        assert store.insert_here(a_job(), NOW)
    assert path.with_name("rota.db-wal").stat().st_size < 100 * 4_096


@pytest.mark.usefixtures("quick")
async def test_listeners_are_woken(store: SqliteStore) -> None:
    async with store.listen() as listener:
        await insert(store)
        await asyncio.wait_for(listener.wait(), 10)


@pytest.mark.usefixtures("quick")
async def test_a_caller_that_is_cancelled_leaves_the_writer_free(store: SqliteStore) -> None:
    commits = note_commits(store)
    inserting = asyncio.ensure_future(insert(store))
    asyncio.get_running_loop().call_soon(inserting.cancel)  # in its turn
    await asyncio.wait([inserting])
    assert inserting.cancelled()
    await insert(store)
    assert commits == [get_ident()]
    assert await store.count("default") == 1


@pytest.mark.usefixtures("quick")
async def test_a_store_that_is_closed_meanwhile_writes_or_refuses(path: Path) -> None:
    store = await SqliteStore.open(SqliteSettings(path))
    store._writer._rows._recent_seconds = 0
    inserting = asyncio.ensure_future(insert(store))
    closing = asyncio.ensure_future(store.close())
    outcome, _ = await asyncio.wait_for(
        asyncio.gather(inserting, closing, return_exceptions=True), 10
    )
    async with await SqliteStore.open(SqliteSettings(path)) as again:
        assert await again.count("default") == (0 if isinstance(outcome, StoreClosedError) else 1)


async def test_calls_that_wait_when_the_store_is_closed_are_carried_out(
    path: Path, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MOST_WRITES_TOGETHER", 1)
    store = await SqliteStore.open(SqliteSettings(path))
    writing = asyncio.ensure_future(store.write_all(gate))
    inserting = [asyncio.ensure_future(insert(store)) for _ in range(3)]
    while not gate.reached.is_set():
        await asyncio.wait([writing], timeout=0.001)
    closing = asyncio.ensure_future(store.close())
    while store._writer._thread._steps.empty():
        await asyncio.wait([closing], timeout=0.001)
    gate.opened.set()
    await asyncio.wait_for(asyncio.gather(writing, *inserting, closing), 10)


async def test_the_log_is_folded_between_the_transactions_of_many_waiting_calls(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MOST_WRITES_TOGETHER", 1)
    monkeypatch.setattr(threads, "LONG_LOG", 50)
    jobs = [a_job(id=f"{number}", payload="x" * 60_000) for number in range(40)]
    await asyncio.gather(*(insert(store, job) for job in jobs))
    assert await store.count("default") == 40
    assert path.with_name(f"{path.name}-wal").stat().st_size < 150 * 4096


@pytest.mark.usefixtures("quick")
async def test_a_full_disk_is_reported(store: SqliteStore) -> None:
    await insert(store)
    connection = store._writer._connection
    connection.pragma("max_page_count", connection.pragma("page_count"))
    with pytest.raises(StoreUnavailableError, match="disk is full") as caught:
        await insert(store, a_job(payload="x" * 100_000))
    assert isinstance(caught.value.__cause__, apsw.FullError)
    connection.pragma("max_page_count", 1_000_000)
    await insert(store, a_job(payload="x" * 100_000))
    assert await store.count("default") == 2


@pytest.mark.usefixtures("quick")
async def test_an_interrupt_leaves_the_file_unlocked(store: SqliteStore) -> None:
    """A signal may raise after any call, so here each of them raises in turn."""

    class Interrupt(BaseException):
        pass

    def interrupt_after(left: int) -> Callable[..., None]:
        def watch(_frame: object, event: str, _argument: object) -> None:
            nonlocal left
            left -= event == "c_return"
            if not left:
                sys.setprofile(None)
                raise Interrupt

        return watch

    gc.collect()  # what others have left would be interrupted too
    for calls in range(1, 1_000):
        inserting = store.insert([a_job(id=f"{calls}")], NOW)
        inserting.send(None)  # its turn
        gc.disable()
        sys.setprofile(interrupt_after(calls))
        try:
            inserting.send(None)
        except Interrupt:
            pass
        except StopIteration:
            break
        finally:
            sys.setprofile(None)
            gc.enable()
        assert not store._writer._lock.locked()
        await insert(store, a_job(id=f"after-{calls}"))
    assert calls > 4
