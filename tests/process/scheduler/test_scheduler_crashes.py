"""kill -9 right before and right after every write of a scheduler: what the next one finds."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex

import msgspec
import pytest
from tests.process.fleet import PATIENCE, ROOT
from tests.process.programs.crash_stage import TASKS, FailPoint, Life, Reached
from tests.process.programs.history import read_history
from tests.servers.shared import in_database, shared_mongo_url, with_option
from tests.verification.trace import (
    Crashed,
    Entry,
    LeftRunning,
    Observed,
    RunFailed,
    RunStarted,
    RunSucceeded,
    Verdict,
    check_trace,
)

from rota import open_store
from rota.scheduler.storage import BrokenRecord, scan_tasks
from rota.scheduler.task import TaskPhase, TaskState

pytestmark = pytest.mark.process

BEGINS_AT = datetime(2024, 3, 4, 10, 0, 30, tzinfo=UTC)
FIRST_LIFE = timedelta(minutes=2, seconds=40)
NEXT_LIFE = timedelta(seconds=75)
DEAD_FOR = timedelta(seconds=7)
SAMPLED = {"sqlite": 1, "postgres": 7, "redis": 5, "mongo": 15}
"""A server is tried with one in this many fail points; odd: every other one is after a write."""

NewAddress = Callable[[Path], str]


@pytest.fixture(scope="module")
def stage() -> Iterator["subprocess.Popen[str]"]:
    """The program that plays lives, one process for each."""
    command = [sys.executable, "-m", "tests.process.programs.crash_stage"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe) as program:
        yield program
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(PATIENCE) == 0


@pytest.fixture(params=SAMPLED)
def server(request: pytest.FixtureRequest) -> str:
    """The sort of store on which lives are played."""
    return str(request.param)


@pytest.fixture
def new_address(request: pytest.FixtureRequest, server: str) -> NewAddress:
    """The address of another empty store, each time it is asked for."""
    name = f"crash_{token_hex(6)}"
    if server == "postgres":
        database = request.getfixturevalue("postgres_database")
        return lambda folder: with_option(database, "schema", f"{name}_{folder.name}")
    if server == "redis":
        url = request.getfixturevalue("redis_server_url")
        return lambda folder: with_option(url, "name", f"{name}_{folder.name}")
    if server == "mongo":
        return lambda folder: in_database(shared_mongo_url(), f"{name}_{folder.name}")
    return on_sqlite


def on_sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'rota.db'}"


@dataclass
class Play:
    """Lives on one store, one after the other, and what is known of them."""

    stage: "subprocess.Popen[str]"
    folder: Path
    store: str
    trace: list[Entry] = field(default_factory=list)
    stored: dict[str, TaskState] = field(default_factory=dict)
    points: list[Reached] = field(default_factory=list)
    """The fail points of the latest life."""

    async def live(self, dies_at: FailPoint | None = None) -> int:
        """One life more; says how its process ended."""
        begins_at = self.trace[-1].at + DEAD_FOR if self.trace else BEGINS_AT
        ends_at = begins_at + (NEXT_LIFE if self.trace else FIRST_LIFE)
        number = len(list(self.folder.glob("*.jsonl"))) // 2
        history, points = self.folder / f"{number}.jsonl", self.folder / f"{number}-points.jsonl"
        life = Life(self.store, str(history), str(points), begins_at, ends_at, dies_at)
        status = self._ask(life)
        self.points = [
            msgspec.json.decode(line, type=Reached) for line in points.read_bytes().splitlines()
        ]
        self.stored = await read_states(self.store)
        self._note_end(read_history(history), status)
        return status

    def judge(self) -> Verdict:
        closed = [*self.trace, Observed(at=self.trace[-1].at)]
        return check_trace(closed, zone=UTC, allowance=timedelta())

    def _ask(self, life: Life) -> int:
        assert self.stage.stdin is not None
        assert self.stage.stdout is not None
        self.stage.stdin.write(msgspec.json.encode(life).decode() + "\n")
        self.stage.stdin.flush()
        return int(self.stage.stdout.readline())

    def _note_end(self, history: list[Entry], status: int) -> None:
        self.trace += history
        if status:
            died_at = self.points[-1].at
            held = {name for name, state in self.stored.items() if state.running}
            left_running = tuple(sorted(held - list_cut(history)))
            self.trace += [Crashed(at=died_at), LeftRunning(left_running, at=died_at)]


def make_play(
    stage: "subprocess.Popen[str]", folder: Path, new_address: NewAddress = on_sqlite
) -> Play:
    folder.mkdir()
    return Play(stage, folder, new_address(folder))


async def read_states(address: str) -> dict[str, TaskState]:
    """Every stored task; a record that cannot be read is a failure of the test."""
    states: dict[str, TaskState] = {}
    async with await open_store(address) as store:
        async for found in scan_tasks(store):
            assert not isinstance(found, BrokenRecord), found
            states[found.name] = found.state
    return states


def list_cut(history: list[Entry]) -> set[str]:
    """What had been started and not ended when the history broke off."""
    running: set[str] = set()
    for entry in history:
        if isinstance(entry, RunStarted):
            running.add(entry.name)
        elif isinstance(entry, RunSucceeded | RunFailed):
            running.discard(entry.name)
    return running


async def die_at(play: Play, point: FailPoint) -> None:
    """One life that ends there, with what must hold of any such end."""
    before = len(play.trace)
    assert await play.live(point) == -9, point
    assert play.points[-1].point == point
    cut = list_cut(play.trace[before:])
    running = {name for name, state in play.stored.items() if state.running}
    assert cut <= running, f"{point}: an attempt was begun before it was recorded"
    assert set(play.stored) in ({*TASKS}, set()), f"{point}: a list was taken over in part"


async def live_on(play: Play) -> None:
    """A life to its end: what was interrupted is started again, and nothing is left open."""
    before = len(play.trace)
    interrupted = {name for name, state in play.stored.items() if state.running}
    assert await play.live() == 0
    restarted = {entry.name for entry in play.trace[before:] if isinstance(entry, RunStarted)}
    assert interrupted <= restarted
    assert not any(state.running for state in play.stored.values())
    play.judge().assert_ok()


async def list_points(play: Play) -> list[FailPoint]:
    """Every fail point of a life in which nothing happens."""
    await live_on(play)
    assert {reached.verb for reached in play.points} == {"write_all", "write_each"}
    numbers = [reached.point.number for reached in play.points]
    assert sorted(numbers) == sorted([*range(1, max(numbers) + 1)] * 2)
    return [reached.point for reached in play.points]


async def test_after_a_kill_at_any_write_the_next_instance_carries_on(
    stage: "subprocess.Popen[str]", tmp_path: Path, server: str, new_address: NewAddress
) -> None:
    points = await list_points(make_play(stage, tmp_path / "undisturbed", new_address))
    assert len(points) >= 20
    points = points[:: SAMPLED[server]]
    assert {point.moment for point in points} == {"before", "after"}
    hit: list[FailPoint] = []
    for point in points:
        folder = tmp_path / f"{point.number}_{point.moment}"
        play = make_play(stage, folder, new_address)
        await die_at(play, point)
        hit.append(play.points[-1].point)
        await live_on(play)
    assert hit == points


async def test_after_a_kill_at_any_write_of_the_recovery_the_next_instance_carries_on(
    stage: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """The first life dies with a run under way and a retry pending."""
    first = FailPoint(8, "after")
    recovery = make_play(stage, tmp_path / "recovery")
    await die_at(recovery, first)
    assert {state.phase for state in recovery.stored.values()} == {
        TaskPhase.RUNNING,
        TaskPhase.AWAITING_RETRY,
    }
    await live_on(recovery)
    for reached in recovery.points:
        folder = tmp_path / f"{reached.point.number}-{reached.point.moment}"
        play = make_play(stage, folder)
        await die_at(play, first)
        await die_at(play, reached.point)
        await live_on(play)


async def test_the_judge_notices_a_settled_run_that_is_repeated(
    stage: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    play = make_play(stage, tmp_path / "repeated")
    await live_on(play)
    ended = next(entry for entry in play.trace if isinstance(entry, RunSucceeded))
    position = play.trace.index(ended) + 1
    play.trace[position:position] = [
        RunStarted(ended.name, at=ended.at),
        RunSucceeded(ended.name, at=ended.at),
    ]
    assert {"S1", "S2"} <= play.judge().axioms
