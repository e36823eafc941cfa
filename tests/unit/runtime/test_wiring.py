"""Which store an address opens."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.clock import CorrectedClock, SystemClock
from rota.errors import InvalidStoreUrlError, StoreUnavailableError
from rota.runtime.wiring import open_clock, open_store
from rota.stores.memory import MemoryStore
from rota.stores.sqlite.store import SqliteStore


async def test_memory_is_opened_by_its_bare_scheme() -> None:
    assert isinstance(await open_store("memory://"), MemoryStore)


async def test_a_relative_file_is_found_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with await open_store("sqlite:///rota.db") as store:
        assert isinstance(store, SqliteStore)
        monkeypatch.chdir("/")
        assert await store.read("tasks", ["a"]) == {}
    assert (tmp_path / "rota.db").is_file()


async def test_an_absolute_file_takes_four_slashes(tmp_path: Path) -> None:
    async with await open_store(f"sqlite:///{tmp_path}/with space.db"):
        assert (tmp_path / "with space.db").is_file()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "does not start with a scheme"),
        ("rota.db", "does not start with a scheme"),
        ("oracle://host/rota", "known schemes are memory, mongodb, mysql, postgresql, redis,"),
        ("mysql://host/rota", "the host or the user is missing; write mysql://user:password@host"),
        ("mariadb://user@host", "the name of one database is needed"),
        ("mysql://user@host/rota?ssl=1", "it has no options"),
        ("mysql://user@host:port/rota", "it cannot be read as an address"),
        ("postgresql://host/rota?schema=No", "the schema must be named"),
        ("mongodb://host/ro+ta", "the name of a database is 1 to 63 letters"),
        ("redis://host/rota", "a database of Redis is a number"),
        ("memory://name", "a store in memory has no name: write memory://"),
        ("sqlite://rota.db", "write sqlite:///relative.db or sqlite:////absolute/path.db"),
        ("sqlite://host/rota.db", "write sqlite:///relative.db"),
        ("sqlite:///", "the name of the file is missing"),
        ("sqlite:///folder/", "the name of the file is missing"),
        ("sqlite:///:memory:", "for a store in memory, write memory://"),
        ("sqlite:///rota.db?mode=ro", "must not hold"),
        ("sqlite:///rota.db#part", "must not hold"),
        ("sqlite:///ro\0ta.db", "must not hold"),
    ],
)
async def test_an_address_that_names_no_store_is_refused_with_a_hint(
    url: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidStoreUrlError) as caught:
        await open_store(url)
    assert reason in caught.value.message
    assert caught.value.url == url.partition("?schema")[0]  # options may hold a password
    assert not any(os.scandir(tmp_path))


async def test_a_missing_driver_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("rota.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreUnavailableError, match=r"pip install 'rota\[postgres\]'") as caught:
        await open_store("postgresql://host/rota")
    assert caught.value.details == {"missing": "asyncpg", "extra": "rota[postgres]"}


def test_a_driver_is_not_loaded_before_its_store_is_opened() -> None:
    code = (
        "import rota.runtime.wiring, sys;"
        "sys.exit(not sys.modules.keys().isdisjoint({'apsw', 'asyncpg'}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class StoreOfClock:
    def __init__(self, shown: datetime) -> None:
        self._shown = shown

    async def read_clock(self) -> datetime | None:
        return self._shown


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_store_on_this_host_has_the_clock_of_the_host(kind: str, tmp_path: Path) -> None:
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/rota.db"
    async with await open_store(url) as store, open_clock(store) as clock:
        assert isinstance(clock, SystemClock)


@pytest.mark.parametrize("server", ["postgres", "mysql", "redis", "mongo"])
async def test_a_store_on_a_server_has_the_clock_of_the_server(
    request: pytest.FixtureRequest, server: str
) -> None:
    url: str = request.getfixturevalue(f"{server}_url")
    async with await open_store(url) as store, open_clock(store) as clock:
        assert isinstance(clock, CorrectedClock)
        shown = await store.read_clock()
        assert shown is not None
        assert abs(clock.now() - shown) < timedelta(seconds=5)


async def test_a_store_elsewhere_sets_the_clock_of_the_host_right() -> None:
    elsewhere = datetime(2040, 1, 1, tzinfo=UTC)
    async with open_clock(StoreOfClock(elsewhere)) as clock:
        assert isinstance(clock, CorrectedClock)
        assert timedelta(0) <= clock.now() - elsewhere < timedelta(minutes=1)
