"""When maintenance is on, no handler starts any more, in any process."""

import asyncio
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.process.fleet import wait_for
from tests.process.service.up_process import Running

from rota import open_store
from rota.clock.system import SystemClock
from rota.gates import EVERYTHING, Maintenance
from rota.policy.watch import SETTLE_FOR
from rota.rail.settings import set_maintenance
from rota.stores.opened import OpenStore
from rota.testing import a_job

pytestmark = pytest.mark.process

ROUNDS = 2
JOBS = 2_000


class Note(NamedTuple):
    """A start of a handler."""

    at: float
    process: str


class Notes:
    """The file in which handlers note their starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def read(self) -> list[Note]:
        lines = self._path.read_text(encoding="ascii").splitlines()
        return [Note(float(at), process) for at, process in map(str.split, lines)]

    def wait_for_both(self, since: float) -> None:
        """Wait until two processes have started handlers after that time."""
        wait_for(lambda: len({it.process for it in self.read() if it.at > since}) == 2, "starts")


@pytest.mark.parametrize("sort", ["sqlite", "postgres"])
def test_no_handler_starts_after_the_setter_has_returned(
    sort: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    if sort != "sqlite":
        url = str(request.getfixturevalue(f"{sort}_url"))
    notes = Notes(tmp_path / "notes")
    environ = {"ROTA_STORE": url, "NOTES": str(tmp_path / "notes")}
    asyncio.run(fill(url))
    with ExitStack() as stack:
        for _ in range(2):
            work = Running(tmp_path, "work", "tests.process.programs.noted_tasks:app", **environ)
            stack.enter_context(work)
        notes.wait_for_both(0)
        closed = asyncio.run(race(url, notes))
        started = [it.at for it in notes.read()]
    assert len(started) < JOBS  # there was always one more that could start
    for begin, end in closed:
        assert [at for at in started if begin < at < end] == []


async def fill(url: str) -> None:
    now = SystemClock().now()
    jobs = [a_job(kind="note", payload={}, due_at=now, created_at=now) for _ in range(JOBS)]
    async with await open_store(url) as store:
        await store.insert(jobs, now)


async def race(url: str, notes: Notes) -> list[tuple[float, float]]:
    """Begin short windows of maintenance. Returns from when to when each was on for certain."""
    async with await open_store(url) as store:
        return [await close_for_a_moment(store, notes) for _ in range(ROUNDS)]


async def close_for_a_moment(store: OpenStore, notes: Notes) -> tuple[float, float]:
    clock = SystemClock()
    until = clock.now() + SETTLE_FOR + timedelta(seconds=0.7)
    await set_maintenance(store, EVERYTHING, Maintenance(until=until, reason="race"))
    begin, end = clock.now().timestamp(), until.timestamp()
    await asyncio.to_thread(notes.wait_for_both, end)
    assert begin < end, "the machine was too slow to see anything"
    return begin, end
