"""Several processes on one SQLite file: each job goes to one of them, and ends once."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rota.jobs import JobFilter, JobStatus
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW

pytestmark = pytest.mark.process

PROCESS_COUNT = 3
JOB_COUNT = 400

PROGRAM = """
import asyncio, sys
from pathlib import Path
from rota.jobs import decide_complete
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore
from rota.testing.job_store_fixture import NOW, take

async def work(path, worker):
    async with await SqliteStore.open(SqliteSettings(Path(path))) as store:
        print("open", flush=True)
        sys.stdin.readline()
        while leased := await take(store, worker=worker, limit=5):
            answers = await store.apply([decide_complete(job, NOW) for job in leased], NOW)
            for job, answer in zip(leased, answers, strict=True):
                print(job.id, job.last_token, answer.is_stale, *answer.released, flush=True)

asyncio.run(work(*sys.argv[1:]))
"""


async def test_a_lease_goes_to_one_holder_among_processes(tmp_path: Path) -> None:
    """And dependents are released exactly once, whichever process ends their parents."""
    path = tmp_path / "rota.db"
    parents = [a_job(priority=number % 10 + 1) for number in range(JOB_COUNT)]
    children = [
        a_job(dependencies=[parents[number].id, parents[-number - 1].id])
        for number in range(JOB_COUNT // 4)
    ]
    async with await SqliteStore.open(SqliteSettings(path)) as store:
        await store.insert([*children, *parents], NOW)
        outputs = _work_together(path)
        ended = JobFilter(status=JobStatus.COMPLETED)
        left = JobFilter(status=JobStatus.READY)
        assert await store.count("default", ended) + await store.count("default", left) == (
            len(parents) + len(children)
        )
    words = [line.split() for output in outputs for line in output.splitlines()]
    assert {(token, is_stale) for _, token, is_stale, *_ in words} == {("1", "False")}
    assert set(Counter(job_id for job_id, *_ in words).values()) == {1}
    released = Counter(child for _, _, _, *those in words for child in those)
    assert released == Counter(child.id for child in children)


def _work_together(path: Path) -> list[str]:
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), f"worker-{number}"],
            text=True,
            stdin=pipe,
            stdout=pipe,
        )
        for number in range(PROCESS_COUNT)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
        # communicate() waits for the first: the others must have been told to begin before.
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return [process.communicate(timeout=60)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()
