"""``rota work`` with handlers that will not end: the process ends, to be started anew."""

import asyncio
from pathlib import Path

import pytest
from tests.process.service.up_process import run_rota

from rota import open_store
from rota.clock import SystemClock
from rota.jobs import Job, JobStatus
from rota.testing import a_job

pytestmark = pytest.mark.process

HANDLERS = """
import asyncio
from datetime import timedelta

async def defy(context):
    while True:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            continue

def register(worker):
    worker.handler("defy", timeout=timedelta(milliseconds=50))(defy)
"""
PLACES = 3


async def insert(url: str, jobs: list[Job]) -> None:
    async with await open_store(url) as store:
        await store.insert(jobs, SystemClock().now())


async def read(url: str, job: Job) -> Job:
    async with await open_store(url) as store:
        return (await store.get(job.tenant, [job.id]))[job.id]


def test_a_worker_that_is_worn_out_ends_with_a_status_of_its_own_and_leaves_nothing_leased(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    (tmp_path / "stubborn.py").write_text(HANDLERS, encoding="utf-8")
    jobs = [a_job(kind="defy", created_at=SystemClock().now()) for _ in range(PLACES)]
    asyncio.run(insert(url, jobs))
    command = ["work", "--store", url, "--handlers", "stubborn:register"]
    ended = run_rota(tmp_path, *command, "--concurrency", str(PLACES))
    assert ended.returncode == 75, ended.stderr
    assert "worn out: 3 handlers were cancelled and still run" in ended.stderr
    for job in jobs:
        kept = asyncio.run(read(url, job))
        assert (kept.status, kept.lease, kept.last_error) == (
            JobStatus.READY,
            None,
            "Timed out after 0.05 s",
        )
