"""``enqueue_sync`` on SQLite writes in the caller's own thread."""

import asyncio
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import get_ident
from typing import Any

import apsw
import pytest

from rota import Rota
from rota.errors import StoreUnavailableError
from rota.stores.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota.db"


@pytest.fixture
def app(path: Path) -> Iterator[Rota]:
    made = Rota(f"sqlite:///{path}")

    @made.task(name="add")
    def add(number: int) -> int:
        return number + 1

    yield made
    made.sessions.close_bridge()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The thread of each insert that the event loop did not carry out."""
    seen: list[int] = []
    insert = SqliteStore.insert_here

    def noted(self: SqliteStore, *args: Any) -> Any:
        inserted = insert(self, *args)
        if inserted:
            seen.append(get_ident())
        return inserted

    monkeypatch.setattr(SqliteStore, "insert_here", noted)
    return seen


def count_jobs(path: Path) -> int:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return len(connection.execute("SELECT id FROM jobs").fetchall())
    finally:
        connection.close()


def test_the_first_call_opens_the_bridge_and_the_next_writes_here(
    app: Rota, path: Path, threads: list[int]
) -> None:
    app.tasks["add"].enqueue_sync(1)
    assert threads == []
    handle = app.tasks["add"].enqueue_sync(2)
    assert threads == [get_ident()]
    assert handle.status_sync() == "READY"
    assert count_jobs(path) == 2


def test_several_threads_lose_and_double_nothing(app: Rota, path: Path) -> None:
    add = app.tasks["add"]
    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(add.enqueue_sync, range(200)))
    assert len({handle.id for handle in handles}) == 200
    assert count_jobs(path) == 200


def test_a_known_key_returns_the_known_job(app: Rota, path: Path) -> None:
    keyed = app.tasks["add"].using(key="once")
    first = keyed.enqueue_sync(1)
    assert keyed.enqueue_sync(1) == first
    assert count_jobs(path) == 1


def test_inside_a_running_loop(app: Rota, path: Path, threads: list[int]) -> None:
    async def call() -> None:
        app.tasks["add"].enqueue_sync(1)
        app.tasks["add"].enqueue_sync(2)

    asyncio.run(call())
    assert threads == [get_ident()]
    assert count_jobs(path) == 2


def test_after_the_bridge_was_closed(app: Rota, path: Path) -> None:
    app.tasks["add"].enqueue_sync(1)
    app.sessions.close_bridge()
    app.tasks["add"].enqueue_sync(2)
    assert count_jobs(path) == 2


def _enqueue_twice(app: Rota) -> None:
    app.tasks["add"].enqueue_sync(1)
    app.tasks["add"].enqueue_sync(2)


def test_after_a_fork(app: Rota, path: Path) -> None:
    _enqueue_twice(app)
    child = multiprocessing.get_context("fork").Process(target=_enqueue_twice, args=(app,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    _enqueue_twice(app)
    assert count_jobs(path) == 6


def test_waits_while_another_connection_writes(app: Rota, path: Path) -> None:
    app.tasks["add"].enqueue_sync(1)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(app.tasks["add"].enqueue_sync, 2)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        other.execute("COMMIT")
        waiting.result(10)
    other.close()
    assert count_jobs(path) == 2


def test_an_error_of_the_file_is_one_of_the_store(app: Rota, path: Path) -> None:
    app.tasks["add"].enqueue_sync(1)
    other = apsw.Connection(str(path))
    other.execute("DROP TABLE jobs")
    other.close()
    with pytest.raises(StoreUnavailableError, match="no such table"):
        app.tasks["add"].enqueue_sync(2)
