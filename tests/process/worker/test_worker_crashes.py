"""kill -9 right before, at the commit of and right after every write of a worker and a producer.

What each process did is in files outside the store; they and a last look at the store are judged.
Of each verb and moment some fail points are left out unless ``CRASH_POINTS=all``.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import TypeAlias, cast

import msgspec
import pytest
from tests.process.fleet import PATIENCE, ROOT
from tests.process.programs.job_stage import (
    BEGINS_AT,
    SETTINGS,
    FailPoint,
    JobLife,
    Passed,
    number_id,
)
from tests.servers.schemas import Schemas
from tests.servers.shared import (
    mysql_database,
    new_mongo_database,
    shared_mongo_url,
    shared_mysql_url,
    with_option,
)
from tests.verification.jobs_trace import (
    JobEntry,
    Snapshot,
    check_jobs,
    check_liveness,
    read_history,
    take_snapshot,
)
from tests.verification.jobs_trace.records import ApplyCalled, Crashed, InsertAnswered

from rota import open_store
from rota.jobs import Ending, JobId, JobStatus
from rota.stores.protocol import JobStore

pytestmark = pytest.mark.process

DEAD_FOR = timedelta(seconds=7)
MOST_LIVES = 8
MOST_TRIES = 12
IS_WHOLE = os.environ.get("CRASH_POINTS") == "all"
RESCUED_WITHIN = SETTINGS.lease_for + timedelta(seconds=15)
"""Lease and sweep; no worker polls, since the store notifies all of them."""
VERBS = {"insert", "lease", "apply", "extend", "sweep", "prune"}
MOMENTS = ("before", "commit", "after")
KEYED_TWICE, DEADLY, LAST = number_id(5), number_id(12), number_id(13)

MakeAddress: TypeAlias = Callable[[], AbstractContextManager[str]]
"""An empty store for one play."""

MEMORY_DISK = Path("/dev/shm")  # noqa: S108 - the folder made there has a name of its own


@pytest.fixture
def folder() -> Iterator[Path]:
    """On a disk in memory, if there is one: the system keeps written data after kill -9."""
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def stage() -> Iterator["subprocess.Popen[str]"]:
    """The program that plays lives, one process for each."""
    command = [sys.executable, "-m", "tests.process.programs.job_stage"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe) as program:
        yield program
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(PATIENCE) == 0


@dataclass
class Play:
    """Lives on one store, one after the other, and what is known of them."""

    stage: "subprocess.Popen[str]"
    store: str
    folder: Path
    history: list[JobEntry] = field(default_factory=list)
    points: list[list[Passed]] = field(default_factory=list)
    """The fail points of each life."""
    begins_at: datetime = BEGINS_AT
    has_deadly: bool = True

    def live(self, dies_at: FailPoint | None = None) -> int:
        """One life more; says how its process ended."""
        if self.history:
            self.begins_at = self.history[-1].at + DEAD_FOR
        number = len(self.points)
        history, points = self.folder / f"{number}.jsonl", self.folder / f"{number}-points.jsonl"
        inserted_count = sum(isinstance(entry, InsertAnswered) for entry in self.history)
        life = JobLife(
            store=self.store,
            history=str(history),
            points=str(points),
            begins_at=self.begins_at,
            inserted_count=inserted_count,
            dies_at=dies_at,
            has_deadly=self.has_deadly,
        )
        status = self._ask(life)
        lines = points.read_bytes().splitlines()
        self.points.append([msgspec.json.decode(line, type=Passed) for line in lines])
        self.history += read_history(history)
        if status:
            self.history.append(Crashed(at=self.history[-1].at, instance=str(history)))
        return status

    def live_on(self) -> None:
        """Life after life, until one comes to its end."""
        while self.live():
            assert len(self.points) < MOST_LIVES, "the deadly job was never set aside"

    async def judge(self) -> Snapshot:
        """Nothing is lost, doubled or out of order, and all that was handed in has ended well."""
        async with await open_store(self.store) as opened:
            store = cast(JobStore, opened)
            snapshot = await take_snapshot(store, ["default"], self.history[-1].at)
        check_jobs(self.history, snapshot).assert_ok()
        check_liveness(
            self.history, snapshot, since=self.begins_at, within=RESCUED_WITHIN
        ).assert_ok()
        return snapshot

    def _ask(self, life: JobLife) -> int:
        assert self.stage.stdin is not None
        assert self.stage.stdout is not None
        self.stage.stdin.write(msgspec.json.encode(life).decode() + "\n")
        self.stage.stdin.flush()
        return int(self.stage.stdout.readline())


def list_ended(history: list[JobEntry], snapshot: Snapshot) -> dict[JobId, set[JobStatus]]:
    """In which states each job ended, or may have; those that are gone were done before."""
    ended: dict[JobId, set[JobStatus]] = {}
    for entry in history:
        for move in entry.moves if isinstance(entry, ApplyCalled) else ():
            if move.target.is_terminal:
                ended.setdefault(move.job_id, set()).add(move.target)
    for job in snapshot.jobs.values():
        ended[job.id] = {job.status}
    return ended


def assert_all_has_happened(play: Play, snapshot: Snapshot) -> None:
    """Every job is done, the deadly one is set aside, and a series has occurred three times."""
    ended = list_ended(play.history, snapshot)
    expected = {number_id(number) for number in range(1, 14)} - {KEYED_TWICE}
    if not play.has_deadly:
        expected -= {DEADLY}
    assert expected <= set(ended)
    assert len(ended) == len(expected) + 2
    assert snapshot.jobs[LAST].status is JobStatus.READY, "all it waits for is done"
    del ended[LAST]
    if play.has_deadly:
        deadly = snapshot.jobs[DEADLY]
        given_up = JobStatus.FAILED, Ending.LOST, 3
        assert (deadly.status, deadly.ending, deadly.loss_count) == given_up
        del ended[DEADLY]
    assert set.union(*ended.values()) == {JobStatus.COMPLETED}


@dataclass(frozen=True)
class Death:
    """In which life, and where."""

    life: int
    passed: Passed


def list_deaths(calm: list[Passed], deadly: list[list[Passed]]) -> list[Death]:
    """Every fail point of two undisturbed plays at which something was written.

    The first life is taken from a play without the deadly job, which would only add the same three
    lives after each point. Of the other play, the third life is like the second: the deadly job,
    rescued, kills again.
    """
    lives = {0: calm, 1: deadly[1], len(deadly) - 1: deadly[-1]}
    return [Death(life, passed) for life, points in lives.items() for passed in written(points)]


def written(points: list[Passed]) -> Iterator[Passed]:
    """The fail points of calls that wrote something.

    To be killed before a write leaves the store as a kill at its commit does. It is tried with the
    first call of each verb, and wherever a call has no commit to be killed at.
    """
    calls = {it.point.call for it in points if it.point.moment == "after" and it.has_effect}
    committed = {it.point.call for it in points if it.point.moment in {"commit", "staged"}}
    tried: set[str] = set()
    for passed in points:
        point = passed.point
        is_first = passed.verb not in tried
        if point.call not in calls:
            continue
        if point.moment == "before" and point.call in committed and not is_first:
            continue
        tried.add(passed.verb)
        yield passed


async def die_and_live_on(play: Play, death: Death) -> bool:
    """Whether the play came to that point; either way nothing may be lost."""
    for _ in range(death.life):
        assert play.live() == -9
    assert play.live(death.passed.point) in {-9, 0}
    is_hit = play.points[-1][-1].point == death.passed.point
    play.live_on()
    assert_all_has_happened(play, await play.judge())
    return is_hit


@dataclass
class Toll:
    """How often processes were to be killed at which moment of which verb, and were."""

    listed: Counter[tuple[str, str]] = field(default_factory=Counter)
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)

    def report(self, store: str) -> None:
        """Shown with ``pytest -s``."""
        lines = [
            f"  {verb:<7}{moment:<7}{self.hits[verb, moment]:>4} of {count}"
            for (verb, moment), count in sorted(self.listed.items())
        ]
        head = f"\n{store}: killed {self.hits.total()} times"
        sys.stdout.write("\n".join([head, *lines, ""]))


def thin_out(deaths: list[Death], most: int | None) -> list[Death]:
    """The first ``most``, in each life, of those at the same moment of the same verb.

    With 0 the first one of all lives.
    """
    kept: Counter[tuple[int, str, str]] = Counter()
    chosen: list[Death] = []
    for death in deaths:
        life = death.life if most else 0
        where = life, death.passed.verb, death.passed.point.moment
        kept[where] += 1
        if most is None or kept[where] <= max(most, 1):
            chosen.append(death)
    return chosen


async def die_everywhere(
    stage: "subprocess.Popen[str]",
    folder: Path,
    make_address: MakeAddress,
    most: int | None = None,
) -> Toll:
    """A play for every fail point, each to its end.

    Where two calls are under way at once, it is a matter of luck which commits first: a point that
    a play does not come to is tried for again.
    """
    with make_address() as address:
        calm = await play_undisturbed(stage, folder / "calm", address, has_deadly=False)
    with make_address() as address:
        deadly = await play_undisturbed(stage, folder / "deadly", address, has_deadly=True)
    toll = Toll()
    deaths = thin_out(list_deaths(calm.points[0], deadly.points), most)
    for number, death in enumerate(deaths):
        where = death.passed.verb, death.passed.point.moment
        toll.listed[where] += 1
        for attempt in range(MOST_TRIES):
            has_deadly = death.life > 0
            with make_address() as address:
                play = make_play(
                    stage, folder / f"{number}-{attempt}", address, has_deadly=has_deadly
                )
                is_hit = await die_and_live_on(play, death)
            if is_hit:
                toll.hits[where] += 1
                break
    return toll


async def play_undisturbed(
    stage: "subprocess.Popen[str]", folder: Path, address: str, *, has_deadly: bool
) -> Play:
    play = make_play(stage, folder, address, has_deadly=has_deadly)
    play.live_on()
    assert_all_has_happened(play, await play.judge())
    return play


def make_play(
    stage: "subprocess.Popen[str]", folder: Path, address: str, *, has_deadly: bool
) -> Play:
    folder.mkdir()
    return Play(stage, address, folder, has_deadly=has_deadly)


async def test_after_a_kill_at_any_write_to_sqlite_nothing_is_lost_or_done_twice(
    stage: "subprocess.Popen[str]", folder: Path
) -> None:
    toll = await die_everywhere(
        stage,
        folder,
        lambda: nullcontext(f"sqlite:///{folder / token_hex(4)}.db"),
        most=None if IS_WHOLE else 1,
    )
    toll.report("SQLite")
    assert toll.hits == toll.listed
    assert set(toll.hits) == {(verb, moment) for verb in VERBS for moment in MOMENTS}
    assert toll.hits.total() >= 25


async def test_after_a_kill_at_any_write_to_postgres_nothing_is_lost_or_done_twice(
    stage: "subprocess.Popen[str]",
    tmp_path: Path,
    postgres_database: str,
    postgres_schemas: Schemas,
) -> None:
    """Here the server tells when there is work, in real time: not every play is quite the same.

    A lease, an extension and the end of one job alone are single statements, which commit by
    themselves.
    """
    toll = await die_everywhere(
        stage,
        tmp_path,
        lambda: postgres_schemas.use(postgres_database),
        most=None if IS_WHOLE else 1,
    )
    toll.report("PostgreSQL")
    assert set(toll.listed) >= {(verb, moment) for verb in VERBS for moment in ("before", "after")}
    assert {verb for verb, moment in toll.hits if moment == "commit"} >= {"insert", "sweep"}
    assert all(toll.hits[where] for where in toll.listed)
    assert toll.hits.total() >= 0.9 * toll.listed.total() >= 17


async def test_after_a_kill_at_any_write_to_mysql_nothing_is_lost_or_done_twice(
    stage: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """An extension is a single statement, which commits by itself."""
    toll = await die_everywhere(
        stage,
        tmp_path,
        lambda: mysql_database(shared_mysql_url()),
        most=None if IS_WHOLE else 1,
    )
    toll.report("MariaDB")
    moments = {(verb, moment) for verb in VERBS for moment in ("before", "after")}
    moments |= {(verb, "commit") for verb in ("insert", "lease", "apply", "sweep", "prune")}
    assert set(toll.listed) >= moments
    assert all(toll.hits[where] for where in toll.listed)
    assert toll.hits.total() >= 0.9 * toll.listed.total() >= 17


async def test_after_a_kill_at_any_write_to_redis_nothing_is_lost_or_done_twice(
    stage: "subprocess.Popen[str]", tmp_path: Path, redis_server_url: str
) -> None:
    """In place of a commit: a script was sent, and the process dies before the answer."""
    toll = await die_everywhere(
        stage,
        tmp_path,
        lambda: nullcontext(with_option(redis_server_url, "name", f"crash-{token_hex(6)}")),
        most=None if IS_WHOLE else 1,
    )
    toll.report("Redis")
    assert set(toll.listed) >= {(verb, moment) for verb in VERBS for moment in MOMENTS}
    assert all(toll.hits[where] for where in toll.listed)
    assert toll.hits.total() >= 0.9 * toll.listed.total() >= 17


async def test_after_a_kill_at_any_write_to_mongo_nothing_is_lost_or_done_twice(
    stage: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """Here there is a moment more: a write without a transaction is done, and not answered yet."""
    toll = await die_everywhere(
        stage,
        tmp_path,
        lambda: new_mongo_database(shared_mongo_url()),
        most=None if IS_WHOLE else 0,
    )
    toll.report("MongoDB")
    assert all(toll.hits[where] for where in toll.listed)
    moments = {(verb, moment) for verb in VERBS for moment in ("before", "after")}
    moments |= {(verb, "commit") for verb in ("insert", "apply", "sweep", "prune")}
    moments |= {(verb, "staged") for verb in ("insert", "lease", "extend")}
    assert set(toll.listed) >= moments
    assert toll.hits.total() >= 0.9 * toll.listed.total() >= 17
