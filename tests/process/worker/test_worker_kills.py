"""Four workers and a producer, killed with kill -9 at random moments, in real time.

2,000 jobs each time. The whole of it, 20,000 jobs, is
``KILL_LOOP_JOBS=20000 pytest -s --timeout=0 tests/process/worker/test_worker_kills.py``.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from tests.process.programs.job_group import BATCH, GroupOrder, number_id
from tests.process.worker.group import (
    ProcessGroup,
    count_open,
    gathered_group,
    pause_for,
    read_all,
    seconds_now,
)
from tests.servers.mariadb import MariadbServer
from tests.servers.mongo import MongoServer
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.verification.jobs_trace import JobEntry, Snapshot, check_jobs
from tests.verification.jobs_trace.records import (
    ApplyCalled,
    AttemptStarted,
    LeaseAnswered,
)

from rota.jobs import Ending, JobStatus

pytestmark = pytest.mark.process

SEED = 20_260_302
WORKER_COUNT = 4
JOB_COUNT = int(os.environ.get("KILL_LOOP_JOBS", "1200"))
LEAST_KILLS = 8
WORKS_FOR = timedelta(milliseconds=120)
"""How long a job takes: all of them take long enough for that many kills."""

KILLED_EVERY = (0.2, 2)
"""Seconds between two kills."""
LEAST_COMPLETED = 0.97
"""Which share is not lost three times in a row."""
GIVES_UP_AFTER = 60 + JOB_COUNT / 20
"""Real seconds, on however slow a machine."""


async def kill_until_done(
    group: ProcessGroup, address: str, disturb: Callable[[int], None] = lambda _: None
) -> float:
    """Kill somebody again and again for as long as there is work; how long it took.

    ``disturb`` is called after each kill, with its number.
    """
    random, begun_at = Random(SEED), seconds_now()
    group.start_producer()
    for _ in range(WORKER_COUNT):
        group.start_worker()
    while not await is_done(group, address):
        assert seconds_now() - begun_at < GIVES_UP_AFTER, "the work was never done"
        pause_for(timedelta(seconds=random.uniform(*KILLED_EVERY)))
        if group.at_work:
            group.kill_one(random)
            disturb(group.killed_count)
    group.stop()
    return seconds_now() - begun_at


async def is_done(group: ProcessGroup, address: str) -> bool:
    if any(member.order.role == "producer" for member in group.at_work):
        return False
    return group.count_acknowledged() >= JOB_COUNT / BATCH and await count_open(address) == 0


def assert_nothing_is_lost(history: list[JobEntry], snapshot: Snapshot) -> None:
    """All jobs are there and have ended: well, or after three losses in a row."""
    check_jobs(history, snapshot).assert_ok()
    assert set(snapshot.jobs) == {number_id(number) for number in range(JOB_COUNT)}
    endings = Counter((job.status, job.ending) for job in snapshot.jobs.values())
    assert set(endings) <= {
        (JobStatus.COMPLETED, None),
        (JobStatus.FAILED, Ending.LOST),
        (JobStatus.BLOCKED, None),
    }
    assert endings[JobStatus.COMPLETED, None] >= LEAST_COMPLETED * JOB_COUNT


def count_losses(history: list[JobEntry]) -> int:
    applied = (entry for entry in history if isinstance(entry, ApplyCalled))
    return sum(move.outcome == "lost" for entry in applied for move in entry.moves)


def assert_the_judge_would_have_noticed(history: list[JobEntry], snapshot: Snapshot) -> None:
    """The same history, with a lease given twice, is refused; so is a store that lost a job."""
    lease = next(one for one in history if isinstance(one, LeaseAnswered) and one.grants)
    position = history.index(lease)
    assert "I4" in check_jobs([*history, *_again(history, position)], snapshot).invariants
    snapshot.jobs.popitem()
    assert "I1" in check_jobs(history, snapshot).invariants


def _again(history: list[JobEntry], position: int) -> list[JobEntry]:
    answer = history[position]
    assert isinstance(answer, LeaseAnswered)
    call = next(
        one
        for one in history
        if getattr(one, "call", None) == answer.call and one.instance == answer.instance
    )
    return [_renamed(call), _renamed(answer)]


def _renamed(entry: JobEntry) -> JobEntry:
    return type(entry)(
        **{name: getattr(entry, name) for name in entry.__struct_fields__} | {"instance": "again"}
    )


def report(name: str, group: ProcessGroup, history: list[JobEntry], took: float) -> None:
    starts = sum(isinstance(entry, AttemptStarted) for entry in history)
    sys.stdout.write(
        f"\n{name}: {group.job_count} jobs, {group.killed_count} processes killed, "
        f"{starts} attempts, {count_losses(history)} of them lost, {len(history)} records, "
        f"{took:.1f} s\n"
    )


def order_group(address: str) -> GroupOrder:
    return GroupOrder(
        role="worker", store=address, history="", job_count=JOB_COUNT, works_for=WORKS_FOR
    )


async def test_workers_that_are_killed_lose_nothing_and_repeat_nothing_on_sqlite(
    tmp_path: Path,
) -> None:
    address = f"sqlite:///{tmp_path / 'rota.db'}"
    order = order_group(address)
    with gathered_group(tmp_path, order) as group:
        took = await kill_until_done(group, address)
        history, snapshot = group.merged_history(), await read_all(address)
    report("SQLite", group, history, took)
    assert_nothing_is_lost(history, snapshot)
    assert group.killed_count >= LEAST_KILLS
    assert count_losses(history) > 0
    assert_the_judge_would_have_noticed(history, snapshot)


async def test_workers_and_server_that_are_killed_lose_nothing_and_repeat_nothing_on_postgres(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    order = order_group(own_postgres.url)
    restarts: list[int] = []

    def kill_server(kill_count: int) -> None:
        if kill_count % 6 == 3:
            own_postgres.kill()
            own_postgres.restart()
            restarts.append(kill_count)

    with gathered_group(tmp_path, order) as group:
        took = await kill_until_done(group, own_postgres.url, kill_server)
        history, snapshot = group.merged_history(), await read_all(own_postgres.url)
    report(f"PostgreSQL, itself killed {len(restarts)} times", group, history, took)
    assert_nothing_is_lost(history, snapshot)
    assert group.killed_count >= LEAST_KILLS
    assert restarts
    assert_the_judge_would_have_noticed(history, snapshot)


async def test_workers_and_server_that_are_killed_lose_nothing_and_repeat_nothing_on_mysql(
    tmp_path: Path, own_mysql: MariadbServer
) -> None:
    order = order_group(own_mysql.url)
    restarts: list[int] = []

    def kill_server(kill_count: int) -> None:
        if kill_count % 6 == 3:
            own_mysql.kill()
            own_mysql.restart()
            restarts.append(kill_count)

    with gathered_group(tmp_path, order) as group:
        took = await kill_until_done(group, own_mysql.url, kill_server)
        history, snapshot = group.merged_history(), await read_all(own_mysql.url)
    report(f"MariaDB, itself killed {len(restarts)} times", group, history, took)
    assert_nothing_is_lost(history, snapshot)
    assert group.killed_count >= LEAST_KILLS
    assert restarts
    assert_the_judge_would_have_noticed(history, snapshot)


async def test_workers_and_server_that_are_killed_lose_nothing_and_repeat_nothing_on_redis(
    tmp_path: Path, own_redis: RedisServer
) -> None:
    order = order_group(own_redis.url)
    restarts: list[int] = []

    def kill_server(kill_count: int) -> None:
        if kill_count % 6 == 3:
            own_redis.kill()
            own_redis.start()
            restarts.append(kill_count)

    with gathered_group(tmp_path, order) as group:
        took = await kill_until_done(group, own_redis.url, kill_server)
        history, snapshot = group.merged_history(), await read_all(own_redis.url)
    report(f"Redis, itself killed {len(restarts)} times", group, history, took)
    assert_nothing_is_lost(history, snapshot)
    assert group.killed_count >= LEAST_KILLS
    assert restarts
    assert_the_judge_would_have_noticed(history, snapshot)


async def test_workers_and_server_that_are_killed_lose_nothing_and_repeat_nothing_on_mongo(
    tmp_path: Path, own_mongo: MongoServer
) -> None:
    order = order_group(own_mongo.url)
    restarts: list[int] = []

    def kill_server(kill_count: int) -> None:
        if kill_count % 6 == 1:
            own_mongo.kill()
            own_mongo.restart()
            restarts.append(kill_count)

    with gathered_group(tmp_path, order) as group:
        took = await kill_until_done(group, own_mongo.url, kill_server)
        history, snapshot = group.merged_history(), await read_all(own_mongo.url)
    report(f"MongoDB, itself killed {len(restarts)} times", group, history, took)
    assert_nothing_is_lost(history, snapshot)
    assert group.killed_count >= LEAST_KILLS
    assert restarts
    assert_the_judge_would_have_noticed(history, snapshot)
