"""Commands that look after jobs, on an SQLite file of their own, at a fixed instant."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.cli.conftest import NOW, RunRota

from rota import Worker, open_store
from rota.testing import VirtualClock
from rota.worker import Context

Work = Callable[..., None]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the default store will be made."""
    for name in ("ROTA_STORE", "ROTA_URL", "ROTA_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    return tmp_path


@pytest.fixture
def created(rota: RunRota) -> Callable[..., str]:
    """Creates a job and returns its id."""

    def create(name: str, *options: str) -> str:
        outcome = rota("jobs", "create", name, *options, "--json")
        assert outcome.status == 0, outcome.err
        return str(outcome.document["id"])

    return create


@pytest.fixture
def fail_all() -> Callable[[], None]:
    """Tries every job that is due until it is dead."""

    async def run() -> None:
        clock = VirtualClock(NOW)

        async def fail(_context: Context) -> None:
            raise ValueError("out of paper")

        async with await open_store("sqlite:///rota.db") as store:
            worker = Worker(store, {"print": fail}, clock=clock)
            for _ in range(5):
                await worker.run_once()
                await clock.advance(timedelta(hours=2))

    return lambda: asyncio.run(run())
