"""The parts of a process that do work: worker, scheduler, rescue and other loops."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Any, NamedTuple

import msgspec

from rota.clock.protocol import Clock
from rota.errors import RotaError, WorkerWornOutError
from rota.events import EventEmitter
from rota.fleet.identity import make_process_name
from rota.fleet.outage import Outage
from rota.policy.watch import GateWatch, LimitWatch
from rota.runtime.process import StopRequest, cancel
from rota.runtime.user_modules import (
    FileWatch,
    Registration,
    ServedApp,
    list_apps,
    list_watched_files,
    register_handlers,
    reload_handlers,
)
from rota.scheduler import Scheduler
from rota.stores.opened import OpenStore
from rota.worker import StopManner, Worker, WorkerSettings
from rota.worker.attempts import Flow
from rota.worker.pruner import Pruner
from rota.worker.registry import Registry, Work
from rota.worker.rescuer import Rescuer
from rota.worker.settings import Resources

Say = Callable[[str], object]
Follow = Callable[[EventEmitter], object]
OnReady = Callable[[], Awaitable[object]]


class WorkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The worker: its settings, its handlers, and whether changed handlers are reloaded.

    With ``kinds``, it runs jobs of these kinds only.
    """

    settings: WorkerSettings = WorkerSettings()
    references: Sequence[str] = ()
    built_in: Mapping[str, Work] = {}
    reloads: bool = False
    kinds: Sequence[str] | None = None


class Engine(NamedTuple):
    """What every engine needs."""

    store: OpenStore
    clock: Clock
    say: Say
    followers: Collection[Follow] = ()

    def follow(self, emitter: EventEmitter) -> None:
        for follow in self.followers:
            follow(emitter)


class WorkPart:
    """A worker. With ``reloads`` a new one starts when the files of its handlers change."""

    name = "worker"

    def __init__(
        self, engine: Engine, plan: WorkPlan, registrations: Sequence[Registration]
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._registrations = registrations
        self._reloaded: Sequence[ServedApp] = ()
        self._worker = self._make_worker()
        self._is_stopping = False

    async def run(self) -> None:
        if not self._plan.reloads:
            await self._work()
            return
        references = self._plan.references
        watch = FileWatch(lambda: list_watched_files(references), self._engine.clock)
        watching = asyncio.create_task(self._reload_with(watch), name="rota reload")
        try:
            while not self._is_stopping:
                await self._work()
                if not self._is_stopping:
                    self._worker = self._make_worker()
        finally:
            await cancel([watching])

    def stop(self) -> None:
        self._is_stopping = True
        self._worker.stop()

    async def _work(self) -> None:
        if self._is_stopping:  # stopped before it began
            return
        async with AsyncExitStack() as stack:
            for app in self._reloaded:
                serving = app.serving(self._engine.store, self._engine.clock)
                await stack.enter_async_context(serving)
            report = await self._worker.run()
        if report.manner is StopManner.WORN_OUT:
            raise WorkerWornOutError(report.leaked_count)

    def _make_worker(self) -> Worker:
        engine, settings = self._engine, self._plan.settings
        for app in list_apps(self._registrations):
            settings = app.adapt(settings)
        worker = Worker(engine.store, clock=engine.clock, settings=settings)
        plan = self._plan
        register_handlers(worker, self._registrations, plan.built_in, plan.kinds)
        engine.follow(worker.events)
        return worker

    async def _reload_with(self, watch: FileWatch) -> None:
        while True:
            changed = await watch.wait_for_change()
            names = ", ".join(sorted(path.name for path in changed))
            try:
                self._registrations = reload_handlers(self._plan.references)
            except RotaError as error:
                self._engine.say(f"{names} changed, and the handlers stay as they were: {error}")
                continue
            self._reloaded = list_apps(self._registrations)
            self._engine.say(f"{names} changed: the worker restarts")
            self._worker.stop()


class TaskPart:
    """A scheduler of declarative tasks; ``on_ready`` is called once they are scheduled."""

    name = "scheduler"

    def __init__(
        self,
        scheduler: Scheduler,
        registrations: Sequence[Any],
        on_ready: OnReady | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._registrations = registrations
        self._on_ready = on_ready
        self._stop_request = StopRequest()

    async def run(self) -> None:
        await self._scheduler.initialize(self._registrations)
        if self._on_ready is not None:
            await self._on_ready()
        await self._stop_request.asked.wait()
        await _until(self._scheduler.stop(), self._stop_request.hurried)

    def stop(self) -> None:
        self._stop_request.stop()


class LoopPart:
    """An endless loop, stopped by cancelling it."""

    def __init__(self, name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.name = name
        self._loop = loop
        self._stop_request = StopRequest()

    async def run(self) -> None:
        await _until(self._loop(), self._stop_request.asked)

    def stop(self) -> None:
        self._stop_request.stop()


def make_upkeep(engine: Engine, settings: WorkerSettings) -> list[LoopPart]:
    """What a worker does beside its jobs, in a process without one.

    It rescues jobs whose lease has expired, and applies retention.
    """
    resources = _make_resources(engine, settings)
    parts = [LoopPart("rescue", Rescuer(resources, Flow()).run)]
    if settings.keep is not None:
        parts.append(LoopPart("pruner", Pruner(resources, settings.keep).run))
    return parts


def _make_resources(engine: Engine, settings: WorkerSettings) -> Resources:
    events = EventEmitter("rota.worker")
    engine.follow(events)
    return Resources(
        engine.store,
        engine.clock,
        settings,
        Registry(None, ()),
        events,
        Random(),  # noqa: S311 - jitter is not a secret
        make_process_name(),
        Outage(events),
        GateWatch(engine.store),
        LimitWatch(engine.store),
    )


async def _until(work: Awaitable[None], event: asyncio.Event) -> None:
    """Wait until the work is done or the event is set, and then end the work."""
    working = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel([waiting, working])
    if not working.cancelled():
        working.result()
