"""Waiting for the end of a job that another program runs."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from rota import open_store
from rota.clock import SystemClock
from rota.clock.system import timeout_after
from rota.errors import JobNotFoundError
from rota.jobs import JobStatus
from rota.ops.results import POLLED_EVERY, wait_for_end
from rota.testing import a_job
from rota.worker import Context, Worker


async def _succeed(_: Context) -> None: ...


async def test_an_end_in_another_program_is_noticed_without_a_poll(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path}/rota.db", SystemClock()
    async with await open_store(url) as here, await open_store(url) as there:
        job = a_job(kind="work", created_at=clock.now())
        await here.insert([job], clock.now())
        waiting = asyncio.create_task(wait_for_end(here, clock, job.tenant, job.id))
        async with timeout_after(clock, POLLED_EVERY - timedelta(seconds=1)):
            await Worker(there, {"work": _succeed}).run_once()
            assert (await waiting).status is JobStatus.COMPLETED


async def test_a_job_that_is_removed_meanwhile_is_not_found(tmp_path: Path) -> None:
    clock = SystemClock()
    async with await open_store(f"sqlite:///{tmp_path}/rota.db") as store:
        job = a_job(kind="work", created_at=clock.now())
        await store.insert([job], clock.now())
        waiting = asyncio.create_task(wait_for_end(store, clock, job.tenant, job.id))
        await asyncio.to_thread(lambda: None)
        await store.delete(job.tenant, job.id)
        with pytest.raises(JobNotFoundError):
            await waiting
