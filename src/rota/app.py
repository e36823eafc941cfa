"""The front door: ``Rota`` declares tasks and schedules, and opens what they need when it is used.

It is thin: it declares, validates and delegates. Stores, workers, schedulers and pages are those of
the packages below.
"""

import inspect
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta, tzinfo
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, get_args, overload

from rota.clock.duration import Duration, read_duration
from rota.clock.protocol import Clock
from rota.errors import InvalidInputError, hide_password
from rota.execution import AppExecution
from rota.flow import Flow
from rota.jobs import CatchUp, Overlap, RetryPolicy
from rota.jobs.fields import read_flag, read_priority, read_queue, read_word
from rota.jobs.record import DEFAULT_PRIORITY, DEFAULT_TENANT
from rota.jobs.validation import Retry, read_retry
from rota.rail.environment import with_usual_attempts
from rota.runtime.configuration import read_configuration
from rota.schedule import When, read_zone_name
from rota.schedules import (
    DeclaredSchedules,
    SchedulePlan,
    declare,
    keep_schedules,
    plan_schedules,
)
from rota.session import Session
from rota.signature import locate, refuse_declaration
from rota.stores.opened import OpenStore
from rota.task import (
    AsyncTask,
    SyncTask,
    Task,
    TaskOptions,
    check_function,
)
from rota.triggers.zone import Fold, Gap, load_zone
from rota.worker import Context, WorkerSettings
from rota.worker.context import Lifespan, Middleware
from rota.worker.registry import RunIn

P = ParamSpec("P")
R = TypeVar("R")


class TaskDecorator(Protocol):
    """What ``@app.task(...)`` returns."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # the first that fits is meant
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # the first that fits is meant
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...


class Rota(AppExecution):
    """An application: its tasks, its schedules, and the store they live in.

    ``store`` is an address; without one it is ``$ROTA_STORE``, or else ``sqlite:///rota.db``.
    Nothing is opened until it is used. ``async with app`` opens it in the running event loop;
    all other calls, and all ``_sync`` calls, share one connection in a background thread.
    ``settings`` are those of its workers.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        zone: tzinfo | str | None = None,
        clock: Clock | None = None,
        lifespan: Lifespan | None = None,
        middleware: Sequence[Middleware] = (),
        settings: WorkerSettings | None = None,
    ) -> None:
        super().__init__(store or read_configuration().store_url, clock)
        _check_settings(lifespan, middleware, settings)
        self.zone: tzinfo | None = None if zone is None else load_zone(read_zone_name(zone))
        self.user_lifespan = lifespan
        self.middleware = tuple(middleware)
        self.settings = settings
        self.schedules = DeclaredSchedules(_find_creator())

    def __repr__(self) -> str:
        return f"<Rota {hide_password(self.store_url)}, {len(self.tasks)} tasks>"

    @overload
    def task(  # type: ignore[overload-overlap]  # the first that fits is meant
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]  # the first that fits is meant
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = DEFAULT_PRIORITY,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        notifies: bool = False,
        unique: bool | Sequence[str] = False,
        keep_result: bool = True,
        run_in: RunIn | None = None,
        label: str | None = None,
    ) -> TaskDecorator: ...
    def task(self, *functions: Any, **options: Any) -> Any:
        """Declare a task. Calling it still runs the function.

        ``name`` is the kind of its jobs, ``module.function`` by default. The other options are the
        defaults of its jobs: ``queue``, ``priority`` (10 is the highest), ``retry``, ``timeout``,
        ``notifies`` (quiet hours hold it back), ``unique``, ``keep_result``, ``run_in`` and
        ``label``: only workers that offer this version label run them.
        """
        if functions:
            return self._declare(functions[0], options)
        return lambda decorated: self._declare(decorated, options)

    def schedule(
        self,
        when: When,
        *,
        name: str | None = None,
        zone: tzinfo | str | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
        overlap: Overlap = "skip",
        catch_up: CatchUp = "once",
        jitter: Duration | None = None,
        alert_after: Duration | None = None,
        notifies: bool | None = None,
        retry: Retry | None = None,
        tenant: str | None = None,
        args: Mapping[str, Any] | None = None,
    ) -> TaskDecorator:
        """Run the decorated function, or task, when it is due.

        ``when`` is cron text in the extended dialect, RRULE text, a ``timedelta``, or a trigger.
        ``name`` defaults to that of the task; ``zone`` to that of the app, or UTC. The schedules
        are reconciled when a process runs the app: new, changed, removed, all of them or none.
        ``notifies`` decides about quiet hours instead of the task. With ``alert_after`` there is an
        alert when no run has succeeded that long after one was due.
        """
        return declare(
            self,
            when,
            name=name,
            zone=zone,
            gap=gap,
            fold=fold,
            overlap=overlap,
            catch_up=catch_up,
            jitter=jitter,
            alert_after=alert_after,
            notifies=notifies,
            retry=retry,
            tenant=tenant,
            args=args,
        )

    async def plan(self) -> SchedulePlan:
        """What a start would add, change and remove of the schedules. Writes nothing."""
        return await self.sessions.run(lambda session: plan_schedules(self, session))

    def flow(
        self, name: str | None = None, *, tenant: str = DEFAULT_TENANT, within: Any = None
    ) -> Flow:
        """Collect jobs, and create all of them or none at the end of a ``with`` block."""
        return Flow(self.sessions, name=name, tenant=read_word(tenant, "tenant"), within=within)

    @asynccontextmanager
    async def serving(self, store: OpenStore, clock: Clock) -> AsyncIterator[Session]:
        """The app is open on this store while the context lasts, and its schedules are in force."""
        async with super().serving(store, clock) as session, keep_schedules(self, session):
            yield session

    @asynccontextmanager
    async def lifespan(self, service: object = None) -> AsyncIterator[None]:  # noqa: ARG002 - given by the service
        """Open the app and run a worker with a service: ``FastAPI(lifespan=app.lifespan)``."""
        hosting = import_module("rota.hosting")  # needs the extra "server"
        async with hosting.running(self):
            yield

    def attach(
        self, asgi_app: Any, path: str = "/rota", *, auth: Any = "tokens", work: bool = True
    ) -> None:
        """Mount the pages and the API into a FastAPI or Starlette service, and run with it.

        ``auth="tokens"`` asks for a token of the store, ``auth="host"`` leaves the check to the
        service. Without ``work`` other processes run the jobs.
        """
        hosting = import_module("rota.hosting")
        hosting.attach(self, asgi_app, path, auth, work=work)

    def _declare(self, function: Any, options: Mapping[str, Any]) -> Any:
        if isinstance(function, staticmethod):
            function = function.__func__
        check_function(function, options.get("run_in"))
        settings = _read_options(function, options)
        kind = _read_kind(function, options.get("name"))
        known = self.tasks.get(kind)
        if known is not None and not _is_typed_in(function):
            reason = f"the name {kind!r} is taken by the task at {locate(known.function)}"
            raise refuse_declaration(function, f"{reason}; give one of them a name of its own")
        make: Any = AsyncTask if inspect.iscoroutinefunction(function) else SyncTask
        task: Task[..., Any] = make(function, kind, settings, self.sessions)
        task.signature.check(may_wait=True)
        if known is not None:
            self.schedules[:] = [it for it in self.schedules if it.task is not known]
        self.tasks[kind] = task
        return task


def _check_settings(lifespan: object, middleware: object, settings: object) -> None:
    if lifespan is not None and not callable(lifespan):
        reason = "is not a function that returns an async context manager"
        raise _refuse("lifespan", f"{lifespan!r:.60} {reason}")
    if not isinstance(middleware, Sequence) or not all(map(callable, middleware)):
        reason = "is not a list of functions (context, call_next)"
        raise _refuse("middleware", f"{middleware!r:.60} {reason}")
    if settings is not None and not isinstance(settings, WorkerSettings):
        raise _refuse("settings", f"{settings!r:.60} are not WorkerSettings")


def _read_options(function: Any, options: Mapping[str, Any]) -> TaskOptions:
    """The options of a declaration; an error names the function and the line."""
    given = {"retry": None} | {name: value for name, value in options.items() if name != "name"}
    known = TaskOptions.__struct_fields__
    for name in given:
        if name not in known:
            reason = f"{name} is not an option of a task; there are name, {', '.join(known)}"
            raise refuse_declaration(function, reason)
    try:
        made = TaskOptions(**{name: _READERS[name](value) for name, value in given.items()})
    except InvalidInputError as error:
        raise refuse_declaration(function, str(error)) from error
    _check_unique(function, made)
    return made


def _read_retry(value: Any) -> RetryPolicy:
    return with_usual_attempts(RetryPolicy()) if value is None else read_retry(value)


def _read_timeout(value: Any) -> timedelta | None:
    read = None if value is None else read_duration(value, "timeout")
    if read == timedelta(0):
        raise _refuse("timeout", f"{value!r} is not longer than zero")
    return read


def _read_unique(value: Any) -> bool | tuple[str, ...]:
    """Whether, or by which parameters, jobs are unique."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise _refuse("unique", f"{value!r:.40} is not valid; write True, or names of parameters")
    return tuple(value)


def _check_unique(function: Any, options: TaskOptions) -> None:
    known = inspect.signature(function).parameters
    for name in options.unique if isinstance(options.unique, tuple) else ():
        if name not in known:
            raise refuse_declaration(function, f"unique: {name!r:.40} is not a parameter")


def _read_run_in(value: Any) -> RunIn | None:
    if value not in (None, *get_args(RunIn)):
        reason = f"{value!r:.40} is not valid; use {' or '.join(get_args(RunIn))}"
        raise _refuse("run_in", reason)
    return cast("RunIn | None", value)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "queue": read_queue,
    "priority": read_priority,
    "retry": _read_retry,
    "timeout": _read_timeout,
    "notifies": partial(read_flag, field="notifies"),
    "unique": _read_unique,
    "keep_result": partial(read_flag, field="keep_result"),
    "run_in": _read_run_in,
    "label": lambda value: None if value is None else read_word(value, "label"),
}
"""What reads each option of a task."""


def _refuse(field: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field}: {reason}", {"field": field, "reason": reason})


def _read_kind(function: Any, name: str | None) -> str:
    try:
        if name is not None:
            return read_word(name, "name")
        default = _default_name(function)
        return read_word(default, "name")
    except InvalidInputError as error:
        reason = str(error)
        if name is None:
            reason += f", so {default!r} is none; give it one: @app.task(name=...)"
        raise refuse_declaration(function, reason) from error


def _find_creator() -> str:
    """The module that creates the app."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return _name_module("tasks" if frame is None else frame.f_globals.get("__name__", "tasks"))


def _name_module(module: str) -> str:
    """The module's name; a program's main module is named as others would import it."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return spec.name if spec is not None else Path(file or "main").stem


def _is_typed_in(function: Any) -> bool:
    """Whether it comes from a prompt or a notebook, where people define a function again."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or function.__module__ != "__main__":
        return False
    return not Path(code.co_filename).is_file()


def _default_name(function: Any) -> str:
    """``module.function``."""
    module = _name_module(getattr(function, "__module__", None) or "tasks")
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{module}.{name}".replace("<locals>.", "")
