"""The bridge: sync calls beside a running loop, in threads and after a fork."""

import asyncio
import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota import JobStatus, Rota
from rota.bridge import Bridge
from rota.errors import AppUseError


def _make_app(folder: Path) -> Rota:
    return Rota(f"sqlite:///{folder}/rota.db")


async def _add(number: int) -> int:
    return number + 1


async def test_a_sync_call_works_beside_a_running_event_loop(tmp_path: Path) -> None:
    app = _make_app(tmp_path)
    add = app.task(_add)
    job = add.enqueue_sync(1)
    assert job.status_sync() is JobStatus.READY
    async with app:
        assert await job.status() is JobStatus.READY
        assert add.enqueue_sync(2).status_sync() is JobStatus.READY
    app.sessions.close_bridge()


async def test_an_async_call_works_where_the_app_is_not_open(tmp_path: Path) -> None:
    app = _make_app(tmp_path)
    job = await app.task(_add).enqueue(1)
    assert await job.status() is JobStatus.READY
    app.sessions.close_bridge()


def test_many_threads_share_one_bridge(tmp_path: Path) -> None:
    app = _make_app(tmp_path)
    add = app.task(_add)
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(add.enqueue_sync, range(40)))
        statuses = set(pool.map(lambda job: job.status_sync(), jobs))
    assert len({job.id for job in jobs}) == 40
    assert statuses == {JobStatus.READY}
    app.sessions.close_bridge()


def test_a_closed_bridge_starts_again(tmp_path: Path) -> None:
    app = _make_app(tmp_path)
    add = app.task(_add)
    job = add.enqueue_sync(1)
    app.sessions.close_bridge()
    assert job.status_sync() is JobStatus.READY
    app.sessions.close_bridge()


def test_a_sync_call_inside_the_bridge_is_refused(tmp_path: Path) -> None:
    app = _make_app(tmp_path)
    add = app.task(_add)

    async def call_sync(_: object) -> None:
        add.enqueue_sync(1)

    with pytest.raises(AppUseError, match="would wait for itself"):
        app.sessions.run_sync(call_sync)
    app.sessions.close_bridge()


async def test_a_sync_call_that_would_wait_for_its_own_loop_is_refused() -> None:
    app = Rota("memory://")
    add = app.task(_add)
    async with app:
        with pytest.raises(AppUseError, match="would wait for itself"):
            add.enqueue_sync(1)


async def test_a_second_store_in_memory_is_refused() -> None:
    app = Rota("memory://")
    add = app.task(_add)
    await asyncio.to_thread(add.enqueue_sync, 1)
    with pytest.raises(AppUseError, match="exists only there"):
        async with app:
            pass
    app.sessions.close_bridge()


def test_errors_reach_the_caller_and_the_bridge_goes_on() -> None:
    async def close() -> None: ...

    async def fail() -> None:
        raise ZeroDivisionError

    async def answer() -> int:
        return 42

    bridge = Bridge(close)
    with pytest.raises(ZeroDivisionError):
        bridge.call(fail)
    assert bridge.call(answer) == 42
    bridge.close()
    assert bridge.loop is None


def _enqueue_in_child(app: Rota, number: int, answers: "multiprocessing.Queue[str]") -> None:
    answers.put(app.tasks["add"].enqueue_sync(number).id)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_bridge_of_its_own(tmp_path: Path) -> None:
    app = _make_app(tmp_path)
    add = app.task(name="add")(_add)
    before = add.enqueue_sync(1)
    fork = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[str] = fork.Queue()
    children = [
        fork.Process(target=_enqueue_in_child, args=(app, number, answers)) for number in range(2)
    ]
    for child in children:
        child.start()
    made = [answers.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0]
    assert len({before.id, *made}) == 3
    assert [add.handle(each).status_sync() for each in (before.id, *made)] == [JobStatus.READY] * 3
    app.sessions.close_bridge()


PROGRAM = """
from rota import Rota
app = Rota("sqlite:///rota.db")

@app.task
async def add(number: int) -> int:
    return number + 1

print(add.enqueue_sync(1).status_sync())
"""


def test_a_script_ends_by_itself_and_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PROGRAM, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "READY\n", "")
