"""A copy that is killed: the source is as it was, the target refused, and the next one goes on."""

import asyncio
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota import open_store
from rota.clock import SystemClock
from rota.errors import CopyUnfinishedError
from rota.jobs import JobFilter, JobStatus, admit_job, make_job_ids
from rota.ops.store_comparison import UNFINISHED
from rota.runtime.store_copy import copy_store
from rota.runtime.wiring import inspect_store
from rota.stores.protocol import DocumentWrite
from rota.testing.job_store_fixture import NOW
from rota.testing.portable_store_contract import dump_all, expect_same, records_of_every_sort
from rota.worker import Context, Worker, WorkerSettings

pytestmark = pytest.mark.process

JOB_COUNT = 3_000
WAITING_COUNT = 500
DOCUMENT_COUNT = 500
LOOKED_EVERY = timedelta(milliseconds=5)


@pytest.fixture(params=["sqlite", "postgres", "mysql", "redis"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/target.db"
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


async def fill(url: str) -> None:
    """Jobs that are due, others that wait for them, and documents."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ids = [*make_job_ids(now, random_bits=1, count=JOB_COUNT)]
    first = ids[:-WAITING_COUNT]
    asked = [{"name": "note", "queue": "q", "payload": place} for place in range(len(first))]
    asked += [
        {"name": "note", "queue": "q", "payload": -1, "dependencies": [first[place], first[-1]]}
        for place in range(WAITING_COUNT)
    ]
    jobs = [admit_job(one, job_id=job_id, now=now) for one, job_id in zip(asked, ids, strict=True)]
    async with await open_store(url) as store:
        await store.insert(jobs, now)
        await store.write_all(
            DocumentWrite("tasks", f"{number}", None, b"{}") for number in range(DOCUMENT_COUNT)
        )


def start_copy(source: str, target: str) -> "subprocess.Popen[str]":
    program = str(Path(sys.executable).with_name("rota"))
    command = [program, "store", "copy", source, target, "--json"]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def wait_until_begun(url: str) -> None:
    """Until some jobs, and not yet all, have come."""
    while not await has_begun(url):
        await SystemClock().sleep(LOOKED_EVERY)


async def has_begun(url: str) -> bool:
    found = await inspect_store(url)
    counts = found.job_counts or {}
    return UNFINISHED in found.document_counts and sum(counts.values()) > 0


async def test_a_killed_copy_goes_on_and_a_worker_finishes_what_was_copied(
    tmp_path: Path, target: str
) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    await fill(source)
    async with await open_store(source) as store:
        before = await dump_all(store)
    copy = start_copy(source, target)
    async with asyncio.timeout(60):
        await wait_until_begun(target)
    copy.kill()
    copy.communicate()
    assert copy.returncode == -signal.SIGKILL, "it was over before it was killed"
    with pytest.raises(CopyUnfinishedError):
        await open_store(target)
    again = start_copy(source, target)
    out, err = await asyncio.to_thread(again.communicate)
    assert again.returncode == 0, err
    report = json.loads(out)
    assert (report["is_resumed"], report["is_equal"]) == (True, True)
    assert (report["jobs"], report["documents"]) == (JOB_COUNT, DOCUMENT_COUNT)
    async with await open_store(source) as store:
        expect_same(await dump_all(store), before)
    await work_off(target)


@pytest.mark.parametrize("moment", ["before", "at", "after"])
async def test_one_killed_at_its_very_end_is_finished_or_found_to_be(
    tmp_path: Path, target: str, moment: str
) -> None:
    source, records = f"sqlite:///{tmp_path}/source.db", records_of_every_sort()
    async with await open_store(source) as store:
        await store.load(records, NOW)
    command = [sys.executable, "-m", "tests.process.programs.copy_life", source, target, moment]
    copy = await asyncio.create_subprocess_exec(*command)
    assert await copy.wait() == -signal.SIGKILL
    is_marked = UNFINISHED in (await inspect_store(target)).document_counts
    if moment != "at":
        assert is_marked == (moment == "before")
    report = await copy_store(source, target, SystemClock(), lambda _phase, _count: None)
    assert (report.is_resumed, report.was_finished) == (is_marked, not is_marked)
    assert report.content.job_count == 8
    async with await open_store(target) as store:
        expect_same(await dump_all(store), records)


async def work_off(url: str) -> None:
    """Every job is run once, those that waited among them."""
    run: list[int] = []

    async def note(context: Context) -> None:
        run.append(context.payload)

    settings = WorkerSettings(concurrency=200)
    async with await open_store(url) as store:
        worker = Worker(store, {"note": note}, settings=settings)
        while await worker.run_once():
            pass
        done = await store.count("default", JobFilter(status=JobStatus.COMPLETED))
    assert done == JOB_COUNT
    assert sorted(run) == [-1] * WAITING_COUNT + [*range(JOB_COUNT - WAITING_COUNT)]
