"""How an app is opened, and how its tasks are run."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, Self

from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.errors import AppUseError
from rota.ops.kinds import publish_kinds
from rota.runtime.configuration import read_configuration
from rota.runtime.observation import observed
from rota.runtime.wiring import check_address
from rota.session import Session, Sessions
from rota.stores.opened import OpenStore
from rota.task import Task
from rota.testing.virtual_app import VirtualApp, virtual_app
from rota.unique import sweep_unique
from rota.worker import StopReport, Worker, WorkerSettings, run_until_signalled
from rota.worker.context import Lifespan, Middleware


class AppExecution:
    """The part of an app that opens its store and runs its tasks."""

    user_lifespan: Lifespan | None = None
    middleware: Sequence[Middleware] = ()
    settings: WorkerSettings | None = None

    def __init__(self, store_url: str, clock: Clock | None) -> None:
        check_address(store_url)
        self.store_url = store_url
        self.clock = clock
        self.tasks: dict[str, Task[..., Any]] = {}
        self.sessions = Sessions(store_url, clock)

    async def __aenter__(self) -> Self:
        await self.sessions.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sessions.leave()

    def use_store(self, store_url: str) -> None:
        """Use another store than the declared one, as ``--store`` says. Before it is opened."""
        check_address(store_url)
        self.store_url = self.sessions.store_url = store_url

    async def session(self) -> Session:
        """The session of the running event loop. Raises AppUseError if the app is not open in it.

        ``async with app`` opens it.
        """
        session = self.sessions.current()
        if session is None:
            raise AppUseError("The app is not open in this event loop; write: async with app")
        return session

    @asynccontextmanager
    async def opened(
        self, store: OpenStore | None = None, clock: Clock | None = None
    ) -> AsyncIterator[Session]:
        """Open the app in the running event loop, on its own store or on one that is open."""
        async with self.sessions.opened(store, clock) as session:
            yield session

    @asynccontextmanager
    async def serving(self, store: OpenStore, clock: Clock) -> AsyncIterator[Session]:
        """The app is open on this store while the context lasts, in a process that runs it."""
        async with self.opened(store, clock) as session:
            await publish_kinds(store, {name: it.describe() for name, it in self.tasks.items()})
            if any(task.options.unique for task in self.tasks.values()):
                await sweep_unique(session)
            yield session

    def worker(
        self,
        settings: WorkerSettings | None = None,
        *,
        store: OpenStore | None = None,
        clock: Clock | None = None,
    ) -> Worker:
        """A worker for all tasks, on the open app or on the given store."""
        session = self.sessions.current()
        if store is None:
            if session is None:
                raise AppUseError("The app is not open in this event loop; write: async with app")
            store, clock = session.store, clock or session.clock
        adapted = self.adapt(settings or read_configuration(settings=self.settings).worker)
        worker = Worker(store, clock=clock or self.clock, settings=adapted)
        self.register(worker)
        return worker

    def worker_settings(self) -> WorkerSettings:
        """The settings of workers: what the environment sets, then the app's, then the defaults.

        They apply retention, which is on by default.
        """
        return read_configuration(settings=self.settings).keeping_worker

    def register(self, worker: Worker) -> None:
        """Give a worker the handlers of all tasks."""
        for name, task in self.tasks.items():
            worker.register(name, task.as_handler())

    def list_checks(self) -> Mapping[str, Callable[[Any], object]]:
        """For each task, a function that refuses a payload that does not fit its signature."""
        return {name: task.check_payload for name, task in self.tasks.items()}

    def adapt(self, settings: WorkerSettings) -> WorkerSettings:
        """The settings of a worker, with the middleware and the lifespan of the app."""
        return replace(
            settings,
            middleware=(*self.middleware, *settings.middleware),
            lifespan=self.user_lifespan or settings.lifespan,
        )

    def testing(self, at: datetime | str | None = None) -> AbstractAsyncContextManager[VirtualApp]:
        """The app on a store in memory and a virtual clock, for tests.

        ``async with app.testing() as rota`` opens it. Time starts at ``at``, or on a Monday.
        """
        return virtual_app(self, at)

    async def run(self) -> StopReport:
        """Run a worker and the schedules in this process, until SIGINT or SIGTERM."""
        async with (
            self.opened() as session,
            self.serving(session.store, session.clock),
            observed(self.worker(self.worker_settings()), session.store, session.clock) as worker,
        ):
            return await run_until_signalled(worker)

    @asynccontextmanager
    async def working(self, settings: WorkerSettings | None = None) -> AsyncIterator[Session]:
        """Run a worker and the schedules in this event loop while the context lasts.

        At its end the worker takes no more jobs, and the running ones finish.
        """
        async with self.opened() as session, self.serving(session.store, session.clock):
            worker = self.worker(settings or self.worker_settings())
            async with observed(worker, session.store, session.clock), running_worker(worker):
                yield session


@asynccontextmanager
async def running_worker(worker: Worker) -> AsyncIterator[None]:
    """Run the worker while the context lasts; at its end the running jobs finish first."""
    run = asyncio.create_task(worker.run(), name="rota worker")
    try:
        yield
    finally:
        worker.stop()
        await asyncio.wait({run})
    run.result()
