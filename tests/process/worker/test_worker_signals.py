"""Workers that are told to end: what runs is finished or handed back, and never lost."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.process.fleet import PATIENCE, ROOT, wait_for

from rota import open_store
from rota.clock import SystemClock
from rota.jobs import Job, JobStatus
from rota.testing import a_job
from rota.worker import StopManner, StopReport

pytestmark = pytest.mark.process

AN_HOUR = 3_600.0


class Signalled:
    """The program, the jobs it is given and what it says."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'rota.db'}"
        self.release = folder / "release"
        self._said = folder / "said"
        self._folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, grace_seconds: float) -> None:
        command = [sys.executable, "-m", "tests.process.worker.signalled"]
        with self._said.open("wb") as said, (self._folder / "errors").open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, self.url, str(grace_seconds)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=errors,
            )

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def await_line(self, line: str) -> None:
        wait_for(lambda: line in self.lines(), f"{line!r}")

    def await_report(self) -> StopReport:
        assert self.process is not None
        assert self.process.wait(PATIENCE) == 0, (self._folder / "errors").read_text()
        return msgspec.json.decode(self.lines()[-1], type=StopReport)

    def lines(self) -> list[str]:
        return self._said.read_text().splitlines()

    def add(self, kind: str) -> Job:
        job = a_job(kind=kind, payload=str(self.release), created_at=SystemClock().now())
        asyncio.run(self._insert(job))
        return job

    def look(self, job: Job) -> Job:
        return asyncio.run(self._get(job))

    async def _insert(self, job: Job) -> None:
        async with await open_store(self.url) as store:
            await store.insert([job], SystemClock().now())

    async def _get(self, job: Job) -> Job:
        async with await open_store(self.url) as store:
            return (await store.get(job.tenant, [job.id]))[job.id]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Signalled]:
    made = Signalled(tmp_path)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait(PATIENCE)


def is_unspent(job: Job) -> bool:
    return (job.status, job.attempt_count, job.lease) == (JobStatus.READY, 0, None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_runs_finish_and_takes_nothing_more(
    program: Signalled, number: signal.Signals
) -> None:
    job = program.add("wait")
    program.start(AN_HOUR)
    program.await_line("began wait")
    program.send(number)
    program.await_line("stopping")
    late = program.add("wait")
    program.release.touch()
    report = program.await_report()
    assert (report.manner, report.handed_back_count) == (StopManner.FINISHED, 0)
    assert program.look(job).status is JobStatus.COMPLETED
    assert is_unspent(program.look(late))


def test_jobs_longer_than_the_grace_period_are_returned_unspent(program: Signalled) -> None:
    job = program.add("wait")
    program.start(0.1)
    program.await_line("began wait")
    program.send(signal.SIGTERM)
    report = program.await_report()
    assert (report.manner, report.handed_back_count) == (StopManner.GRACE_OVER, 1)
    assert is_unspent(program.look(job))


def test_the_second_signal_hands_back_now(program: Signalled) -> None:
    job = program.add("wait")
    program.start(AN_HOUR)
    program.await_line("began wait")
    program.send(signal.SIGTERM)
    program.await_line("stopping")
    assert program.look(job).status is JobStatus.RUNNING
    program.send(signal.SIGTERM)
    report = program.await_report()
    assert (report.manner, report.handed_back_count) == (StopManner.AT_ONCE, 1)
    assert is_unspent(program.look(job))


def test_a_thread_that_does_not_listen_does_not_keep_the_process(program: Signalled) -> None:
    job = program.add("block")
    program.start(0.1)
    program.await_line("began block")
    program.send(signal.SIGTERM)
    report = program.await_report()
    assert (report.handed_back_count, report.leaked_count) == (1, 1)
    assert is_unspent(program.look(job))
