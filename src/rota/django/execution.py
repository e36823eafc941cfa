"""Runs Django tasks in a worker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any

import msgspec
from django.db import close_old_connections
from django.utils.module_loading import autodiscover_modules

from rota.django.backend import RotaBackend
from rota.django.results import Payload, build_result
from rota.django.tasks_api import (
    Task,
    TaskContext,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from rota.worker import Context, Worker


def register_tasks(worker: Worker, backend: RotaBackend) -> None:
    """Give the worker a handler for each task of the backend.

    The modules called ``tasks`` of all installed applications are loaded first.
    """
    autodiscover_modules("tasks")
    for path, task in backend.known_tasks.items():
        if path not in worker.kinds:
            worker.handler(path, encode=encode_result)(make_handler(backend, task))


def encode_result(value: Any) -> bytes | None:
    """What a task returned, as JSON. None is not kept."""
    return None if value is None else msgspec.json.encode(value)


def make_handler(backend: RotaBackend, task: Task) -> Callable[[Context], Any]:
    """The handler of a task: a coroutine function for an async task."""
    if iscoroutinefunction(task.func):

        async def run_async(context: Context) -> Any:
            with _signalled(backend, context) as run:
                return normalize_json(await task.func(*run.arguments, **run.payload.kwargs))

        return run_async

    def run_in_thread(context: Context) -> Any:
        close_old_connections()
        try:
            with _signalled(backend, context) as run:
                return normalize_json(task.func(*run.arguments, **run.payload.kwargs))
        finally:
            close_old_connections()

    return run_in_thread


@contextmanager
def _signalled(backend: RotaBackend, context: Context) -> "Iterator[_Run]":
    """Send Django's signals when the run starts and when it ends."""
    run = _Run(backend, context)
    try:
        yield run
    except BaseException:
        run.finish(TaskResultStatus.FAILED)
        raise
    run.finish(TaskResultStatus.SUCCESSFUL)


class _Run:
    """One run of a task: its arguments and its signals."""

    def __init__(self, backend: RotaBackend, context: Context) -> None:
        self.payload = msgspec.convert(context.payload, Payload)
        self._backend = backend
        task = backend.task_of(context.job)
        self._result: TaskResult = build_result(task, context.job)
        earlier = [""] * (context.attempt - 1)
        object.__setattr__(self._result, "worker_ids", [*earlier, *self._result.worker_ids])
        self.arguments = list(self.payload.args)
        if task.takes_context:
            self.arguments.insert(0, TaskContext(task_result=self._result))
        task_started.send(type(backend), task_result=self._result)

    def finish(self, status: TaskResultStatus) -> None:
        object.__setattr__(self._result, "status", status)
        task_finished.send(type(self._backend), task_result=self._result)
