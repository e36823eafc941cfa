"""A flow of a thousand parts whose workers are killed at random moments, on PostgreSQL."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias

import msgspec
import pytest
from examples.etl import app as example
from examples.etl import extract, load, merge, transform
from tests.process.fleet import ROOT
from tests.process.programs.traced_etl import TRACE, Start

from rota import BackoffStrategy, JobStatus, RetryPolicy, open_store
from rota.clock.system import SystemClock
from rota.jobs import Job, JobId, format_instant

pytestmark = pytest.mark.process

SEED = 20_261_117
WORKER_COUNT = 3
CONCURRENCY = 8
KILL_COUNT = 8
RETRY = RetryPolicy(max_attempts=10, backoff_strategy=BackoffStrategy.FIXED, base_delay_seconds=1)
STEP_COUNT = 1003
PATIENCE = 240.0
POLL_FOR = timedelta(milliseconds=50)
APP = "tests.process.programs.traced_etl:app"
ReadJobs: TypeAlias = Callable[[], Awaitable[dict[JobId, Job]]]
ROTA = str(Path(sys.executable).with_name("rota"))


class Workers:
    """Processes that run ``rota work``, some of which are killed."""

    def __init__(self, url: str, folder: Path) -> None:
        self._running: list[subprocess.Popen[bytes]] = []
        self._log = folder / "workers.log"
        self._trace = folder / "trace"
        self._environ = {
            **os.environ,
            "ROTA_STORE": url,
            TRACE: str(self._trace),
            "WORKER_LEASE_MS": "2000",
            "WORKER_POLL_MS": "200",
        }

    def start(self) -> None:
        with self._log.open("ab") as log:
            argv = [
                ROTA,
                "work",
                "tests.process.programs.traced_etl:app",
                "--concurrency",
                str(CONCURRENCY),
            ]
            self._running.append(
                subprocess.Popen(argv, cwd=ROOT, env=self._environ, stdout=log, stderr=log)
            )

    @property
    def starts(self) -> list[Start]:
        """The steps that have started, in order."""
        lines = self._trace.read_bytes().splitlines() if self._trace.exists() else []
        return [msgspec.json.decode(line, type=Start) for line in lines]

    def kill(self, process_id: int) -> None:
        """Kill a worker with kill -9, and start another."""
        (victim,) = (it for it in self._running if it.pid == process_id)
        self._running.remove(victim)
        victim.kill()
        victim.wait()
        self.start()

    @property
    def process_ids(self) -> set[int]:
        return {process.pid for process in self._running}

    def has(self, name: str) -> bool:
        """Whether the worker of this name, ``host:process:random``, is running."""
        return int(name.split(":")[1]) in self.process_ids

    def stop(self) -> None:
        for process in self._running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()


@pytest.mark.timeout(600)
async def test_a_killed_flow_ends_with_the_right_result_and_repeats_no_completed_step(
    postgres_url: str, tmp_path: Path
) -> None:
    store = await open_store(postgres_url)
    workers = Workers(postgres_url, tmp_path)
    try:
        async with store, example.opened(store):
            async with example.flow("etl") as flow:
                rows = flow.add(extract.using(retry=RETRY), 1000)
                part = transform.using(retry=RETRY)
                parts = [flow.add(part, rows.output, number) for number in range(1000)]
                merged = flow.add(merge.using(retry=RETRY), [each.output for each in parts])
                loaded = flow.add(load.using(retry=RETRY), merged.output)
            for _ in range(WORKER_COUNT):
                workers.start()
            random = Random(SEED)
            read_jobs = partial(store.get, "default", [*flow.job_ids])
            await kill_at_points(workers, read_jobs, choose_points(random), random)
            assert await loaded.result(timeout="4m") == "1000 parts, 2999000 in all"
            jobs = await store.get("default", [*flow.job_ids])
    finally:
        workers.stop()
    assert_no_completed_step_ran_again(jobs, workers.starts)


def choose_points(random: Random) -> list[int]:
    """After which starts a worker is killed: the first step, and some others."""
    return [1, *sorted(random.sample(range(2, STEP_COUNT + 1), KILL_COUNT - 1))]


async def kill_at_points(
    workers: Workers, read_jobs: ReadJobs, points: list[int], random: Random
) -> None:
    """Kill a worker in the middle of its steps, at each of these points."""
    clock = SystemClock()
    for point in points:
        async with asyncio.timeout(PATIENCE):
            while not await can_be_killed(workers, point, read_jobs):
                await clock.sleep(POLL_FOR)
        workers.kill(random.choice(find_victims(workers)))


async def can_be_killed(workers: Workers, point: int, read_jobs: ReadJobs) -> bool:
    """The jobs are read, which takes longest, only when the point is reached."""
    is_reached = len(workers.starts) >= point and bool(find_victims(workers))
    return is_reached and not may_lose_its_third(workers, await read_jobs())


def may_lose_its_third(workers: Workers, jobs: dict[JobId, Job]) -> bool:
    """Whether a job has lost two workers: it is set aside when it loses a third."""
    return any(
        job.loss_count + (job.lease is not None and not workers.has(job.lease.worker)) > 1
        for job in jobs.values()
        if not job.status.is_terminal
    )


def find_victims(workers: Workers) -> list[int]:
    """The workers that have started a step."""
    return sorted({start.process_id for start in workers.starts} & workers.process_ids)


def assert_no_completed_step_ran_again(jobs: dict[JobId, Job], starts: list[Start]) -> None:
    """All steps completed, and the attempt that completed a step is its last one."""
    assert {job.status for job in jobs.values()} == {JobStatus.COMPLETED}
    last = {start.job_id: start.at for start in starts}
    completed = {
        job.id: format_instant(job.completion.started_at)
        for job in jobs.values()
        if job.completion is not None
    }
    assert last == completed
    assert len(starts) > len(jobs), "no step was repeated: the kills hit nothing"
