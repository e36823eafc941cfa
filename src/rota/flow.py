"""Flows: several jobs that are created all or not at all, with results passed between them."""

from collections.abc import Sequence
from datetime import datetime
from secrets import randbits
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from msgspec.structs import replace

from rota.errors import AppUseError, InvalidInputError, hide_password
from rota.handle import JobHandle
from rota.jobs import Job, JobId, make_job_id
from rota.jobs.fields import read_name
from rota.session import Session, Sessions, Work
from rota.task import EnqueueOptions, Enqueuer, insert_jobs
from rota.transactions import take_own

P = ParamSpec("P")
R = TypeVar("R")

_BITS = 61


class Flow:
    """Collects jobs inside a ``with`` or ``async with`` block, and creates them at its end.

    If the block raises, nothing is created. A handle can be used at once: its ``output`` in the
    arguments of other jobs, the rest when the block has ended. ``name`` is shown with each job.
    """

    def __init__(
        self, sessions: Sessions, *, name: str | None, tenant: str, within: Any = None
    ) -> None:
        self.name = None if name is None else read_name(name)
        self._sessions = sessions
        self._tenant = tenant
        self._options = EnqueueOptions(tenant=tenant)
        self._within = within
        self._jobs: list[Job] = []
        self._now: datetime | None = None
        self._random = randbits(_BITS)

    def __repr__(self) -> str:
        return f"<Flow {self.name or '-'}, {len(self._jobs)} jobs>"

    @property
    def job_ids(self) -> Sequence[JobId]:
        """The jobs so far, in the order in which they were added."""
        return [job.id for job in self._jobs]

    def add(self, task: Enqueuer[P, R], /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Add a job to the flow. Options come from ``task.using(...)``."""
        if self._now is None:
            raise AppUseError("flow.add is for the block of the flow: the flow is not open")
        self._check_task(task)
        plain, options = task.task, self._options
        if task is not plain:
            options = self._check_options(task.enqueue_options)
        job_id = make_job_id(self._now, self._random + len(self._jobs))
        job = plain.make_job(plain.signature.bind(args, kwargs), options, job_id, self._now)
        if self.name is not None:
            job = replace(job, name=f"{self.name}: {job.name}"[:255])
        self._jobs.append(job)
        return JobHandle(self._sessions, plain.signature, job_id, self._tenant)

    async def __aenter__(self) -> Self:
        self._check_fresh()
        self._now = await self._sessions.run(_read_time)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._now = None
        if error is None and self._jobs:
            await self._sessions.run(self._inserting())

    def __enter__(self) -> Self:
        self._check_fresh()
        self._now = self._sessions.run_sync(_read_time)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._now = None
        if error is None and self._jobs:
            self._sessions.run_sync(self._inserting())

    def _check_fresh(self) -> None:
        if self._now is not None or self._jobs:
            raise AppUseError("this flow has had its block; make another with app.flow()")

    def _check_task(self, task: object) -> None:
        if not isinstance(task, Enqueuer):
            reason = f"{task!r:.60} is not a task; write flow.add(task, ...) with its arguments"
            raise InvalidInputError(f"task: {reason}", {"field": "task", "reason": reason})
        store_url = task.task.sessions.store_url
        if store_url != self._sessions.store_url:
            where = hide_password(store_url)
            raise AppUseError(
                f"{task.task.name} belongs to an app on {where}, and the flow does not"
            )

    def _check_options(self, options: EnqueueOptions) -> EnqueueOptions:
        for name in ("key", "within"):
            if getattr(options, name) is not None:
                fix = "the flow has one for all jobs" if name == "within" else "leave it out"
                raise InvalidInputError(
                    f"{name}: a job of a flow cannot have its own; {fix}", {"field": name}
                )
        if options.tenant == self._tenant:
            return options
        return replace(options, tenant=self._tenant)

    def _inserting(self) -> Work[None]:
        """What creates the jobs, in any thread."""
        within = take_own(self._within)

        async def insert(session: Session) -> None:
            await insert_jobs(session, self._jobs, session.clock.now(), within)

        return insert


async def _read_time(session: Session) -> datetime:
    return session.clock.now()
