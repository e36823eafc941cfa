"""The engines of a runtime on a store in memory, under made-up time."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.events import Event, JobSettled, JobStalled, WorkerStarted
from rota.rail import Rail
from rota.runtime.engines import Engine, LoopPart, TaskPart, WorkPart, WorkPlan, make_upkeep
from rota.runtime.user_modules import load_handlers
from rota.scheduler import Scheduler
from rota.stores.memory import MemoryStore
from rota.stores.protocol import LeaseRequest
from rota.testing import VirtualClock
from rota.worker import WorkerSettings

NOW = datetime(2027, 3, 26, 12, tzinfo=UTC)
MODULE = "handlers_that_change"


class Stage:
    """A store, a clock, and what was said and heard."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOW)
        self.store = MemoryStore()
        self.said: list[str] = []
        self.heard: list[Event] = []
        self.engine = Engine(
            self.store,
            self.clock,
            self.said.append,
            [lambda journal: journal.subscribe(self.heard.append)],
        )

    async def schedule(self, kind: str) -> None:
        await Rail(self.store, clock=self.clock).schedule_once(kind, {}, run_at=self.clock.now())

    def heard_of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.heard if isinstance(event, kind)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    file = tmp_path / f"{MODULE}.py"
    file.write_text("async def work(context): ...\nhandlers = {'first': work}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield file
    sys.modules.pop(MODULE, None)


def make_work(stage: Stage, *, reloads: bool = False) -> WorkPart:
    plan = WorkPlan(references=[f"{MODULE}:handlers"], reloads=reloads)
    return WorkPart(stage.engine, plan, load_handlers(plan.references))


def rewrite(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("module")
async def test_a_worker_that_is_stopped_before_it_has_begun_does_not_begin(stage: Stage) -> None:
    part = make_work(stage)
    part.stop()
    await part.run()
    assert stage.heard == []


@pytest.mark.usefixtures("module")
async def test_a_worker_runs_what_is_due_until_it_is_stopped(stage: Stage) -> None:
    part = make_work(stage)
    running = asyncio.create_task(part.run())
    await stage.schedule("first")
    await stage.clock.advance(timedelta(seconds=5))
    assert [event.outcome for event in stage.heard if isinstance(event, JobSettled)] == [
        "succeeded"
    ]
    part.stop()
    await stage.clock.advance(timedelta(seconds=1))
    await running


async def test_changed_handlers_take_over_and_bad_ones_do_not(stage: Stage, module: Path) -> None:
    part = make_work(stage, reloads=True)
    running = asyncio.create_task(part.run())
    await stage.clock.advance(timedelta(seconds=2))

    rewrite(module, "handlers = {'first': None}\n")
    await stage.clock.advance(timedelta(seconds=2))
    assert stage.said[-1].startswith(
        f"{MODULE}.py changed, and the handlers stay as they were: Invalid --handlers"
    )

    rewrite(module, "def work(context): ...\nhandlers = {'second': work}\n")
    await stage.clock.advance(timedelta(seconds=2))
    assert stage.said[-1] == f"{MODULE}.py changed: the worker restarts"
    started = [event.kinds for event in stage.heard if isinstance(event, WorkerStarted)]
    assert started == [["first"], ["second"]]

    part.stop()
    await stage.clock.advance(timedelta(seconds=2))
    await running


async def test_tasks_run_until_they_are_stopped(stage: Stage) -> None:
    ran: list[datetime] = []

    async def task() -> None:
        ran.append(stage.clock.now())

    scheduler = Scheduler(stage.store, clock=stage.clock, zone=UTC)
    part = TaskPart(scheduler, [("minutely", "* * * * *", task, timedelta(seconds=5))])
    running = asyncio.create_task(part.run())
    await stage.clock.advance(timedelta(minutes=3, seconds=30))
    part.stop()
    await stage.clock.advance(timedelta(seconds=5))
    await running
    assert len(ran) >= 3
    assert scheduler.state.value == "stopped"


async def test_readiness_is_reported_once_the_tasks_are_scheduled(stage: Stage) -> None:
    found: list[str] = []
    scheduler = Scheduler(stage.store, clock=stage.clock, zone=UTC)

    async def note() -> None:
        found.append(scheduler.state.value)

    part = TaskPart(scheduler, [], note)
    running = asyncio.create_task(part.run())
    await stage.clock.advance(timedelta(seconds=1))
    part.stop()
    await running
    assert found == ["running"]


async def test_a_second_stop_does_not_wait_for_a_hanging_task(stage: Stage) -> None:
    async def task() -> None:
        await stage.clock.sleep(timedelta(days=1))

    scheduler = Scheduler(stage.store, clock=stage.clock, zone=UTC)
    part = TaskPart(scheduler, [("slow", "* * * * *", task, timedelta(seconds=5))])
    running = asyncio.create_task(part.run())
    await stage.clock.advance(timedelta(minutes=2))
    part.stop()
    await stage.clock.advance(timedelta(seconds=5))
    assert not running.done()
    part.stop()
    await stage.clock.advance(timedelta(seconds=5))
    await running


async def test_without_a_worker_jobs_of_those_that_are_gone_are_freed(stage: Stage) -> None:
    await stage.schedule("anything")
    request = LeaseRequest(worker="gone", limit=1, lease_for=timedelta(seconds=30))
    assert len(await stage.store.lease(request, stage.clock.now())) == 1
    (part,) = make_upkeep(stage.engine, WorkerSettings())
    running = asyncio.create_task(part.run())
    await stage.clock.advance(timedelta(minutes=2))
    assert len(stage.heard_of(JobStalled)) == 1
    part.stop()
    await running


async def test_without_a_worker_retention_is_applied_if_the_settings_have_one(
    stage: Stage,
) -> None:
    keep = WorkerSettings(retention=timedelta(days=1))
    parts = make_upkeep(stage.engine, keep)
    assert [part.name for part in parts] == ["rescue", "pruner"]


async def test_a_loop_that_fails_says_so(stage: Stage) -> None:
    async def fail() -> None:
        await stage.clock.sleep(timedelta(0))
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await LoopPart("loop", fail).run()
