"""The backend for ``django.tasks``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
from django.core import checks
from django.db import connections, transaction
from django.utils.module_loading import autodiscover_modules

from rota.app import Rota
from rota.django.results import Payload, build_result
from rota.django.tasks_api import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    normalize_json,
    task_enqueued,
)
from rota.errors import RotaError
from rota.jobs import Job, JobRequest, RetryPolicy, admit_job
from rota.jobs.record import DEFAULT_PRIORITY
from rota.jobs.validation import read_retry
from rota.rail.environment import with_usual_attempts
from rota.session import Session

PRIORITY_STEP = 20
"""Django has priorities from -100 to 100, Rota from 1 to 10."""

_OPTIONS = frozenset({"STORE", "TENANT", "RETRY", "DATABASE"})
_apps: dict[str | None, Rota] = {}


class RotaBackend(BaseTaskBackend):
    """Runs Django tasks on a Rota store.

    ``OPTIONS``: ``STORE`` is the address of the store (default ``$ROTA_STORE``, or else a SQLite
    file), ``TENANT`` the tenant of the jobs, and ``RETRY`` the number of attempts or a mapping with
    the fields of a retry policy. ``DATABASE`` is the alias of a PostgreSQL database that also holds
    the store: tasks that are enqueued inside ``transaction.atomic()`` commit and roll back with it.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    known_tasks: ClassVar[dict[str, Task]] = {}
    """Every task that was declared in this process, by its path."""

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.tenant: str = self.options.get("TENANT", "default")
        retry = self.options.get("RETRY")
        self.retry = with_usual_attempts(RetryPolicy()) if retry is None else read_retry(retry)
        self.database: str | None = self.options.get("DATABASE")

    @property
    def app(self) -> Rota:
        """The app of the store. Backends are made once per thread; they share it."""
        address = self.options.get("STORE")
        if address not in _apps:
            _apps[address] = Rota(address)
        return _apps[address]

    def validate_task(self, task: Task) -> None:
        super().validate_task(task)
        self.known_tasks.setdefault(task.module_path, task)

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        self.validate_task(task)
        request, within = self._make_request(task, args, kwargs), self._find_transaction()
        job = self.app.sessions.run_sync(lambda session: self._insert(session, request, within))
        return self._announce(task, job)

    async def aenqueue(
        self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult:
        self.validate_task(task)
        request = self._make_request(task, args, kwargs)
        # Django's transactions belong to threads, so a coroutine is never inside one.
        job = await self.app.sessions.run(lambda session: self._insert(session, request, None))
        return self._announce(task, job)

    def get_result(self, result_id: str) -> TaskResult:
        return self.app.sessions.run_sync(lambda session: self._read(session, result_id))

    async def aget_result(self, result_id: str) -> TaskResult:
        return await self.app.sessions.run(lambda session: self._read(session, result_id))

    def check(self, **_options: Any) -> list[checks.CheckMessage]:
        unknown = sorted(set(self.options) - _OPTIONS)
        if not unknown:
            return []
        known = ", ".join(sorted(_OPTIONS))
        text = f"TASKS[{self.alias!r}]: unknown option {unknown[0]!r}; known options are {known}."
        return [checks.Error(text, id="rota.E001")]

    def _make_request(
        self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> JobRequest:
        payload = Payload(
            normalize_json(args),
            normalize_json(kwargs),
            priority=task.priority,
            run_after=task.run_after,
        )
        return JobRequest(
            name=task.name,
            kind=task.module_path,
            queue=task.queue_name,
            payload=msgspec.to_builtins(payload),
            priority=max(1, DEFAULT_PRIORITY + round(task.priority / PRIORITY_STEP)),
            due_at=task.run_after,
            retry_policy=self.retry,
        )

    def _find_transaction(self) -> Any:
        """The connection of the open transaction that the task should be part of, if any."""
        if self.database is None:
            return None
        if not connections[self.database].in_atomic_block:
            return None
        connection = transaction.get_connection(self.database)
        connection.ensure_connection()
        return connection.connection

    async def _insert(self, session: Session, request: JobRequest, within: Any) -> Job:
        now = session.clock.now()
        job_id = session.make_id(now)
        job = admit_job(request, job_id=job_id, now=now, tenant=self.tenant)
        if within is None:
            inserted = await session.store.insert([job], now)
        else:
            inserted = await session.store.insert_within(within, [job], now)
        return inserted[0].job

    def _announce(self, task: Task, job: Job) -> TaskResult:
        result = build_result(task, job)
        task_enqueued.send(type(self), task_result=result)
        return result

    async def _read(self, session: Session, result_id: str) -> TaskResult:
        try:
            found = await session.store.get(self.tenant, [result_id])
        except RotaError as error:
            raise TaskResultDoesNotExist(result_id) from error
        if result_id not in found:
            raise TaskResultDoesNotExist(result_id)
        job = found[result_id]
        attempts = await session.store.attempts(self.tenant, result_id)
        results = await session.store.results(self.tenant, [result_id])
        return build_result(self.task_of(job), job, attempts, results.get(result_id))

    def task_of(self, job: Job) -> Task:
        """The task that the job runs, with the options it was enqueued with."""
        if job.kind not in self.known_tasks:
            autodiscover_modules("tasks")  # never a module that a job names
        task = self.known_tasks.get(job.kind)
        if task is None:
            raise TaskResultDoesNotExist(f"{job.id}: no task {job.kind} is declared here")
        payload = msgspec.convert(job.payload, Payload)
        return replace(
            task,
            queue_name=job.queue,
            priority=payload.priority,
            run_after=payload.run_after,
            backend=self.alias,
        )
