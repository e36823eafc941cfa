"""Of several processes, one prunes at a time; when it is killed, another goes on."""

import asyncio
import sys
from contextlib import ExitStack
from datetime import timedelta
from itertools import groupby
from pathlib import Path

import msgspec
import pytest
from tests.process.fleet import wait_for
from tests.process.programs.pruning import Said
from tests.process.programs.scaled_clock import ScaledClock
from tests.process.service.up_process import Running

from rota import open_store
from rota.clock.system import monotonic
from rota.jobs import JobStatus
from rota.stores.protocol import KeptJob
from rota.testing import a_job
from rota.worker.pruner import PRUNED_AT_ONCE

pytestmark = pytest.mark.process

BATCHES = 4
JOBS = BATCHES * PRUNED_AT_ONCE


async def fill(url: str, clock: ScaledClock) -> None:
    """Jobs that ended two days ago."""
    at = clock.now() - timedelta(days=2)
    ended = {"status": JobStatus.COMPLETED, "updated_at": at}
    jobs = [KeptJob(a_job(due_at=at, created_at=at, **ended)) for _ in range(JOBS)]
    async with await open_store(url) as store:
        await store.load(jobs, clock.now())


async def count(url: str) -> int:
    async with await open_store(url) as store:
        return await store.count("default")


def lines_of(process: Running) -> list[Said]:
    return [msgspec.json.decode(line, type=Said) for line in process.printed if line != "ready"]


def removals_of(process: Running) -> list[Said]:
    return [it for it in lines_of(process) if it.removed is not None]


def test_one_process_prunes_at_a_time_and_the_next_goes_on_after_a_kill(
    postgres_url: str, tmp_path: Path
) -> None:
    clock = ScaledClock(started=monotonic(), rate=20.0)
    asyncio.run(fill(postgres_url, clock))
    shown = msgspec.json.encode(clock).decode()
    program = ("-m", "tests.process.programs.pruning")
    with ExitStack() as stack:
        both = [
            stack.enter_context(
                Running(
                    tmp_path,
                    *(*program, name, postgres_url, shown),
                    program=sys.executable,
                )
            )
            for name in ("one", "two")
        ]
        for each in both:
            each.wait_for("ready")
        (tmp_path / "hold").touch()
        (tmp_path / "go").touch()
        wait_for(lambda: all(map(lines_of, both)), "a turn of each process")
        first, second = both if removals_of(both[0]) else reversed(both)
        first.process.kill()
        (tmp_path / "hold").unlink()
        wait_for(lambda: sum(len(removals_of(it)) for it in both) == BATCHES, "the last batch")
    batches = sorted((it for each in both for it in removals_of(each)), key=lambda it: it.at)
    assert [name for name, _ in groupby(batches, key=lambda it: it.by)] == [
        batches[0].by,
        batches[-1].by,
    ]
    assert sum(it.removed or 0 for it in batches) == JOBS
    assert asyncio.run(count(postgres_url)) == 0
    begun = removals_of(second)[0].at
    claimed_until = removals_of(first)[-1].claimed_until
    assert claimed_until is not None
    assert begun > claimed_until
    assert lines_of(second)[0].at < begun
    assert lines_of(second)[0].removed is None
