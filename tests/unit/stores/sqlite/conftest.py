"""A store on a file of its own, and hands to reach into it."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import apsw
import pytest

from rota.stores.protocol import DocumentWrite
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota.db"


@pytest.fixture
def sqlite_settings(path: Path) -> SqliteSettings:
    """Impatient, so that a test of a lock is short."""
    return SqliteSettings(path, busy_for=timedelta(milliseconds=20))


@pytest.fixture
async def store(sqlite_settings: SqliteSettings) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(sqlite_settings)
    yield store
    await store.close()


@pytest.fixture
def new() -> Callable[..., DocumentWrite]:
    def make(key: str, body: bytes = b"new") -> DocumentWrite:
        return DocumentWrite("tasks", key, None, body)

    return make


@pytest.fixture
def held_lock(path: Path) -> Callable[[], apsw.Connection]:
    """Take the write lock of the file on another connection; closing it lets the lock go."""

    def take() -> apsw.Connection:
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        return other

    return take


class Gate:
    """A stream of writes that keeps the writing thread busy until the gate is opened."""

    def __init__(self) -> None:
        self.reached = Event()
        self.opened = Event()

    def __iter__(self) -> Iterator[DocumentWrite]:
        self.reached.set()
        self.opened.wait(60)
        return iter(())


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def reach_in(path: Path) -> Callable[..., list[Any]]:
    """Run a statement on the file, past the store."""

    def run(statement: str, *values: Any) -> list[Any]:
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(5_000)
        try:
            return list(connection.execute(statement, values))
        finally:
            connection.close()

    return run
