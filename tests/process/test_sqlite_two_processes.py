"""Several processes on one SQLite file: nothing acknowledged is lost, nothing given out twice."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.runtime.wiring import open_store
from rota.stores.protocol import DocumentWrite

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).with_name("sqlite_writers.py")
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota.db"


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    """Start one of the programs on the file; whatever still runs at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def start_one(name: str, count: int = 0) -> "subprocess.Popen[str]":
        command = [sys.executable, "-W", "ignore", str(PROGRAM), name, str(path), str(count)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


async def make_counter(path: Path) -> None:
    async with await open_store(f"sqlite:///{path}") as store:
        await store.write_each([DocumentWrite("tasks", "counter", None, b"")])


async def read_counter(path: Path) -> int:
    async with await open_store(f"sqlite:///{path}") as store:
        return (await store.read("tasks", ["counter"]))["counter"].version


def lines_of(process: "subprocess.Popen[str]", count: int) -> list[int]:
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(count)]


def rest_of(process: "subprocess.Popen[str]", *, returncode: int = 0) -> list[int]:
    assert process.stdout is not None
    output = process.stdout.read()  # communicate() leaves out what readline() has read ahead
    assert process.wait(timeout=120) == returncode
    # The last line of a killed program may be cut off: what is not a whole line was never said.
    return [int(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]


async def test_the_version_counts_the_acknowledged_increments(path: Path, start: Start) -> None:
    await make_counter(path)
    processes = [start("increment", 100) for _ in range(4)]
    acknowledged = [version for process in processes for version in rest_of(process)]
    assert sorted(acknowledged) == list(range(2, 402))
    assert await read_counter(path) == 401


async def test_a_process_that_is_killed_takes_nothing_acknowledged_with_it(
    path: Path, start: Start
) -> None:
    await make_counter(path)
    victim = start("increment", 1_000_000)
    others = [start("increment", 150) for _ in range(2)]
    acknowledged = lines_of(victim, 50)
    victim.kill()
    acknowledged += rest_of(victim, returncode=-9)
    for other in others:
        acknowledged += rest_of(other)
    assert len(set(acknowledged)) == len(acknowledged)
    version = await read_counter(path)
    # The one write the victim was about may have been done without having been acknowledged.
    assert version - 1 - len(acknowledged) in {0, 1}
    assert max(acknowledged) <= version


async def test_a_process_killed_inside_a_long_write_leaves_nothing_of_it(
    path: Path, start: Start
) -> None:
    writer = start("write_endlessly")
    assert lines_of(writer, 4) == [0, 10_000, 20_000, 30_000]
    writer.kill()
    rest_of(writer, returncode=-9)
    async with await open_store(f"sqlite:///{path}") as store:
        assert [page async for page in store.scan("tasks")] == []
        assert await store.write_each([DocumentWrite("tasks", "a", None, b"")]) == [1]


async def test_processes_that_open_a_new_store_together_share_one(path: Path, start: Start) -> None:
    processes = [start("open_and_write") for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [rest_of(process) for process in processes] == [[1]] * 4
    async with await open_store(f"sqlite:///{path}") as store:
        assert [len(page) async for page in store.scan("tasks")] == [4]


def test_a_forked_child_must_open_its_own_store(start: Start) -> None:
    process = start("use_in_forked_child")
    output, _ = process.communicate(timeout=120)
    message, child_status, version = output.splitlines()
    assert "cannot be used in its forked child" in message
    assert (child_status, version) == ("7", "1")
