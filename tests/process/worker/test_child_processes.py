"""Handlers in child processes: real processes, killed and crashed for real."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.process.programs import child_work, child_worker

from rota import open_store
from rota.clock.system import SystemClock, monotonic
from rota.errors import InvalidInputError, TaskDeclarationError
from rota.events import ChildEnded, ChildStarted, Event
from rota.fleet.identity import GONE, process_started
from rota.jobs import Job, JobStatus, RetryPolicy
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock, a_job
from rota.worker import StopManner, StopReport, Worker, WorkerSettings, read_progress
from rota.worker.attempts import Attempt
from rota.worker.executor import Executor
from rota.worker.registry import Work

pytestmark = pytest.mark.process

PATIENCE = 120.0


class Shop:
    """A worker in real time on a store in memory, with one handler in child processes."""

    def __init__(self, work: Work, settings: WorkerSettings, timeout: timedelta | None) -> None:
        self.store, self.clock = MemoryStore(), SystemClock()
        self.events: list[Event] = []
        self.worker = Worker(self.store, clock=self.clock, settings=settings)
        self.worker.handler("work", timeout=timeout, run_in="process")(work)
        self.worker.events.subscribe(self.events.append)
        self.report: StopReport | None = None

    async def add(self, payload: dict[str, Any] | None = None, **fields: Any) -> Job:
        once = RetryPolicy(max_attempts=1)
        now = self.clock.now()
        job = a_job(
            kind="work", payload=payload or {}, created_at=now, **{"retry_policy": once} | fields
        )
        await self.store.insert([job], now)
        return job

    async def look(self, job: Job) -> Job:
        return (await self.store.get(job.tenant, [job.id]))[job.id]

    async def until(self, condition: Any, what: str) -> None:
        gives_up_at = monotonic() + PATIENCE
        while not await condition():
            assert monotonic() < gives_up_at, f"{what} did not happen"
            await self.clock.sleep(timedelta(milliseconds=5))

    async def ended(self, *jobs: Job) -> list[Job]:
        async def are_over() -> bool:
            looked = [await self.look(job) for job in jobs]
            return all(it.status in (JobStatus.COMPLETED, JobStatus.FAILED) for it in looked)

        await self.until(are_over, "the end of the jobs")
        return [await self.look(job) for job in jobs]

    async def written(self, path: Path) -> str:
        async def is_there() -> bool:
            return read(path).endswith("\n")

        await self.until(is_there, f"{path.name}")
        return read(path)

    def pids(self) -> list[int]:
        return [event.pid for event in self.events if isinstance(event, ChildStarted)]

    def ends(self) -> list[str]:
        return [event.reason for event in self.events if isinstance(event, ChildEnded)]


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def list_zombies() -> set[int]:
    """The children of this process that have ended and have not been waited for."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # the process is gone
        if state == "Z" and int(parent) == os.getpid():
            found.add(int(path.parent.name))
    return found


@asynccontextmanager
async def working(
    work: Work, *, limit: timedelta | None = None, **settings: Any
) -> AsyncIterator[Shop]:
    shop, zombies = Shop(work, WorkerSettings(**settings), limit), list_zombies()
    run = asyncio.create_task(shop.worker.run())
    try:
        yield shop
    finally:
        shop.worker.stop()
        shop.report = await run
        assert [pid for pid in shop.pids() if process_started(pid) != GONE] == []
        assert list_zombies() <= zombies


async def test_a_job_runs_in_another_process_which_is_kept_for_the_next(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with working(child_work.note_pid, concurrency=1) as shop:
        await shop.ended(*[await shop.add({"file": str(file)}) for _ in range(3)])
    (pid,) = shop.pids()
    assert pid != os.getpid()
    assert file.read_text() == f"{pid} 1\n{pid} 2\n{pid} 3\n"
    assert shop.ends() == ["stopped"]
    assert shop.report is not None
    assert (shop.report.child_count, shop.report.killed_count) == (1, 0)


async def test_there_are_no_more_children_than_slots(tmp_path: Path) -> None:
    async with working(child_work.note_pid, concurrency=2) as shop:
        jobs = [await shop.add({"file": str(tmp_path / str(it))}) for it in range(12)]
        await shop.ended(*jobs)
    assert 1 <= len(shop.pids()) <= 2


async def test_a_child_is_recycled_after_some_jobs(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with working(child_work.note_pid, concurrency=1, jobs_per_process=2) as shop:
        await shop.ended(*[await shop.add({"file": str(file)}) for _ in range(5)])
    assert len(shop.pids()) == 3
    assert [line.split()[1] for line in file.read_text().splitlines()] == ["1", "2", "1", "2", "1"]
    assert shop.ends() == ["recycled", "recycled", "stopped"]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("segfault", "The child process was killed by SIGSEGV"),
        ("exit", "The child process ended with exit status 3 before the job did"),
        ("kill", "The child process was killed by SIGKILL"),
    ],
)
async def test_a_crash_fails_that_job_only(how: str, says: str) -> None:
    async with working(child_work.crash, concurrency=2) as shop:
        jobs = [await shop.add({"how": it}) for it in ("live", how, "live", "live")]
        ended = await shop.ended(*jobs)
    statuses = [it.status for it in ended]
    assert statuses == [JobStatus.COMPLETED, JobStatus.FAILED] + 2 * [JobStatus.COMPLETED]
    assert ended[1].last_error == f"ChildCrashedError: {says}"
    assert shop.ends().count("crashed") == 1


async def test_a_job_that_leaves_the_program_fails_and_the_child_goes_on() -> None:
    async with working(child_work.leave, concurrency=1) as shop:
        ended = await shop.ended(await shop.add(), await shop.add())
    assert [it.last_error for it in ended] == ["SystemExit: 4"] * 2
    assert len(shop.pids()) == 1


async def test_an_exception_keeps_its_name_its_text_and_its_traceback() -> None:
    caught: list[BaseException] = []

    async def catch(_: object, call_next: Any) -> Any:
        try:
            return await call_next()
        except Exception as error:
            caught.append(error)
            raise

    async with working(child_work.look_up, middleware=[catch]) as shop:
        (ended,) = await shop.ended(await shop.add())
    assert ended.last_error == "KeyError: 'missing'"
    (error,) = caught
    assert type(error).__name__ == "KeyError"
    assert "in _look_deeper" in str(error.__cause__)
    assert "child_work.py" in str(error.__cause__)
    assert "rota/worker/child.py" not in str(error.__cause__)


async def test_a_job_that_takes_too_long_is_killed_a_second_later(tmp_path: Path) -> None:
    file, limit = tmp_path / "file", timedelta(seconds=3)
    async with working(child_work.sleep_and_note, limit=limit, concurrency=1) as shop:
        job = await shop.add({"file": str(file), "seconds": 600})
        pid = int((await shop.written(file)).split()[1])
        (ended,) = await shop.ended(job)
        assert ended.last_error == "Timed out after 3 s"

        async def is_gone() -> bool:
            return process_started(pid) == GONE

        await shop.until(is_gone, "the end of the child")
        other = tmp_path / "other"
        await shop.ended(await shop.add({"file": str(other), "seconds": 0}))
    assert file.read_text() == f"begun {pid}\n"
    assert other.read_text() == "ended\n"
    assert shop.ends() == ["killed", "stopped"]
    assert shop.report is not None
    assert shop.report.killed_count == 1


async def test_processes_started_by_a_killed_child_are_killed_too(tmp_path: Path) -> None:
    file = tmp_path / "file"
    async with working(child_work.start_another, limit=timedelta(seconds=3)) as shop:
        job = await shop.add({"file": str(file)})
        pid = int(await shop.written(file))
        await shop.ended(job)

        async def is_gone() -> bool:
            return process_started(pid) == GONE

        await shop.until(is_gone, "the end of the program it started")


async def test_a_child_that_looks_can_end_in_time_and_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    async with working(child_work.wait_for_cancellation, limit=timedelta(seconds=3)) as shop:
        job = await shop.add({"file": str(file)})
        (ended,) = await shop.ended(job)
        assert ended.last_error == "Timed out after 3 s"
        (pid,) = shop.pids()
        assert process_started(pid) != GONE
    assert file.read_text() == f"timed out {pid}"
    assert shop.ends() == ["stopped"]


async def test_a_lost_lease_kills_the_child(tmp_path: Path) -> None:
    file = tmp_path / "file"
    lease_for = timedelta(seconds=4)
    async with working(child_work.sleep_and_note, lease_for=lease_for) as shop:
        job = await shop.add({"file": str(file), "seconds": 600})
        pid = int((await shop.written(file)).split()[1])
        await shop.store.delete(job.tenant, job.id)

        async def is_gone() -> bool:
            return process_started(pid) == GONE

        await shop.until(is_gone, "the end of the child")
    assert shop.ends() == ["killed"]


async def test_a_worker_that_stops_lets_its_children_finish(tmp_path: Path) -> None:
    file = tmp_path / "file"
    async with working(child_work.sleep_and_note) as shop:
        job = await shop.add({"file": str(file), "seconds": 1})
        await shop.written(file)
    assert file.read_text() == "ended\n"
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    assert shop.report is not None
    assert (shop.report.manner, shop.report.killed_count) == (StopManner.FINISHED, 0)


async def test_when_the_grace_is_over_the_job_is_handed_back_and_the_child_killed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    async with working(child_work.sleep_and_note, grace_for=timedelta(seconds=1)) as shop:
        job = await shop.add({"file": str(file), "seconds": 600})
        await shop.written(file)
    kept = await shop.look(job)
    assert (kept.status, kept.attempt_count) == (JobStatus.READY, 0)
    assert shop.report is not None
    assert (shop.report.manner, shop.report.leaked_count) == (StopManner.GRACE_OVER, 0)
    assert shop.report.killed_count == 1


@pytest.mark.parametrize("crashes", [False, True])
async def test_logs_and_progress_reach_the_worker_even_from_a_child_that_dies(
    crashes: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    logs: list[str] = []
    call: Any = Executor._call

    async def note(self: Executor, handler: Any, attempt: Attempt, context: Any) -> Any:
        try:
            return await call(self, handler, attempt, context)
        finally:
            logs.append((attempt.log and attempt.log.text()) or "")
            shown.update(await read_progress(shop.store, [await shop.look(context.job)]))

    shown: dict[str, Any] = {}
    monkeypatch.setattr(Executor, "_call", note)
    async with working(child_work.chatter) as shop:
        await shop.ended(await shop.add({"crashes": crashes}))
    (log,) = logs
    assert "INFO rota.job: by the context, attempt 1\n" in log
    assert "WARNING shop.pictures: by a logger\n" in log
    (progress,) = shown.values()
    assert (progress.done, progress.total, progress.message) == (3, 4, "nearly")
    printed = capfd.readouterr()
    assert "printed\nprinted from below\n" in printed.err


async def test_a_handler_in_a_child_may_snooze_and_discard() -> None:
    async with working(child_work.answer) as shop:
        snoozed, discarded, done = [
            await shop.add({"what": it}) for it in ("snooze", "discard", "text")
        ]
        ended, over = await shop.ended(discarded, done)

        async def is_handed_back() -> bool:
            return (await shop.look(snoozed)).status is JobStatus.READY

        await shop.until(is_handed_back, "the end of the attempt")
        kept = await shop.look(snoozed)
    assert (ended.status, ended.last_error) == (JobStatus.FAILED, "not worth it")
    assert over.status is JobStatus.COMPLETED
    assert kept.status is JobStatus.READY
    assert kept.due_at - kept.updated_at == timedelta(seconds=90)


async def test_a_child_cannot_use_what_only_the_worker_has() -> None:
    async with working(child_work.not_in_children) as shop:
        (ended,) = await shop.ended(await shop.add())
    assert ended.last_error == "InvalidInputError: this context was made without a ledger"


async def test_virtual_time_stands_still_while_a_child_works(tmp_path: Path) -> None:
    clock, store = VirtualClock(datetime(2026, 5, 1, tzinfo=UTC)), MemoryStore()
    worker = Worker(store, clock=clock)
    worker.handler("work", run_in="process", timeout=timedelta(seconds=1))(
        child_work.sleep_and_note
    )
    job = a_job(kind="work", payload={"file": str(tmp_path / "f"), "seconds": 0.2})
    await store.insert([job], clock.now())
    await clock.run(worker.run_once())
    assert (await store.get(job.tenant, [job.id]))[job.id].status is JobStatus.COMPLETED
    assert clock.now() == datetime(2026, 5, 1, tzinfo=UTC)


@asynccontextmanager
async def program(tmp_path: Path, seconds: float) -> AsyncIterator[tuple[Any, Job, int]]:
    """A worker in a process group of its own, in the middle of a job; and the pid of its child."""
    url, file = f"sqlite:///{tmp_path / 'rota.db'}", tmp_path / "file"
    async with await open_store(url) as store:
        payload = {"file": str(file), "seconds": seconds}
        job = a_job(kind="work", payload=payload, created_at=SystemClock().now())
        await store.insert([job], SystemClock().now())
    process = await asyncio.create_subprocess_exec(
        sys.executable, child_worker.__file__, url, stdout=PIPE, start_new_session=True
    )
    try:
        gives_up_at = monotonic() + PATIENCE
        while not (begun := read(file)).endswith("\n"):
            assert monotonic() < gives_up_at, "the job did not begin"
            await SystemClock().sleep(timedelta(milliseconds=10))
        yield process, job, int(begun.split()[1])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_child_ends_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    async with program(tmp_path, 600) as (process, _, pid):
        assert process_started(pid) != GONE
        process.kill()
        await process.wait()
        gives_up_at = monotonic() + PATIENCE
        while process_started(pid) != GONE:
            assert monotonic() < gives_up_at, "the child lives on"
            await SystemClock().sleep(timedelta(milliseconds=10))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_worker_and_child_lets_the_job_end(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with program(tmp_path, 2) as (process, job, pid):
        os.kill(pid, number)  # as a terminal does, or a supervisor that signals all processes
        process.send_signal(number)
        printed, _ = await process.communicate()
    assert printed == b"finished 1 0\n"
    assert process_started(pid) == GONE
    async with await open_store(f"sqlite:///{tmp_path / 'rota.db'}") as store:
        assert (await store.get(job.tenant, [job.id]))[job.id].status is JobStatus.COMPLETED


def test_functions_that_a_child_cannot_find_are_refused_with_their_line() -> None:
    worker = Worker(MemoryStore())

    def nested(_: object) -> None: ...

    async def waits(_: object) -> None: ...

    waits.__qualname__ = "waits"
    register = worker.handler("work", run_in="process")
    for function, says in (
        (lambda _: None, "it is a lambda"),
        (nested, "defined inside another function"),
        (waits, "is for plain functions, and this one is async"),
    ):
        with pytest.raises(TaskDeclarationError, match=says) as refused:
            register(function)
        assert "test_child_processes.py:" in refused.value.location
    with pytest.raises(InvalidInputError, match='run_in must be "thread" or "process"'):
        worker.handler("work", run_in="elsewhere")(nested)  # type: ignore[arg-type]
