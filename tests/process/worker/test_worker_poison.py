"""A job that kills every worker which runs it, among others that have done nothing."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.process.fleet import PATIENCE, ROOT, wait_for

from rota import open_store
from rota.clock import SystemClock
from rota.jobs import BackoffStrategy, Ending, Job, JobFilter, JobStatus, RetryPolicy
from rota.testing import a_job

pytestmark = pytest.mark.process

INNOCENT_COUNT = 20
MOST_DEATHS = 10
POLICY = RetryPolicy(max_attempts=5, backoff_strategy=BackoffStrategy.FIXED, base_delay_seconds=1)


class Supervisor:
    """Starts the program anew each time it dies."""

    def __init__(self, url: str) -> None:
        self.death_count = 0
        self.process = self._start(url)
        self._url = url

    def see_to_it(self) -> None:
        if self.process.poll() is not None:
            assert self.process.returncode == -signal.SIGKILL
            self.death_count += 1
            assert self.death_count <= MOST_DEATHS
            self.process = self._start(self._url)

    @staticmethod
    def _start(url: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tests.process.programs.poisoned", url]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)


@contextmanager
def supervised(url: str) -> Iterator[Supervisor]:
    supervisor = Supervisor(url)
    try:
        yield supervisor
    finally:
        supervisor.process.terminate()
        supervisor.process.wait(PATIENCE)


def make_jobs() -> list[Job]:
    """The poison comes in the midst of the others, and all are due at once."""
    kinds = ["innocent"] * INNOCENT_COUNT
    kinds.insert(4, "poison")
    now = SystemClock().now()
    return [a_job(kind=kind, created_at=now, retry_policy=POLICY) for kind in kinds]


async def insert(url: str, jobs: list[Job]) -> None:
    async with await open_store(url) as store:
        await store.insert(jobs, SystemClock().now())


async def read(url: str) -> list[Job]:
    async with await open_store(url) as store:
        return [*(await store.find("default", JobFilter(), limit=100)).items]


def test_a_job_that_kills_its_workers_is_quarantined_and_harms_no_other(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    jobs = make_jobs()
    asyncio.run(insert(url, jobs))
    with supervised(url) as supervisor:

        def all_have_ended() -> bool:
            supervisor.see_to_it()
            kept = asyncio.run(read(url))
            return all(job.status in {JobStatus.COMPLETED, JobStatus.FAILED} for job in kept)

        wait_for(all_have_ended, "the end of all jobs")

    kept = asyncio.run(read(url))
    (poison,) = [job for job in kept if job.kind == "poison"]
    innocent = [job for job in kept if job.kind == "innocent"]
    assert [(job.status, job.last_error) for job in innocent if job.ending is not None] == []
    assert {job.status for job in innocent} == {JobStatus.COMPLETED}
    assert len(innocent) == INNOCENT_COUNT
    assert (poison.status, poison.ending) == (JobStatus.FAILED, Ending.LOST)
    assert "set aside after 3 losses in a row" in str(poison.last_error)
    assert supervisor.death_count == 3
    assert any(job.attempt_count for job in innocent)  # some were lost with it, and got over it
