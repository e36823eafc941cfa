"""Tasks: functions that can be enqueued as jobs."""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from rota.clock.duration import Duration, read_duration
from rota.clock.protocol import later
from rota.errors import (
    AppUseError,
    InvalidArgumentsError,
    InvalidInputError,
)
from rota.handle import JobHandle
from rota.jobs import (
    Job,
    JobId,
    JobRequest,
    JobStatus,
    RetryPolicy,
    admit_job,
)
from rota.jobs.fields import (
    read_flag,
    read_id,
    read_instant,
    read_name,
    read_priority,
    read_queue,
    read_word,
)
from rota.jobs.record import DEFAULT_PRIORITY, DEFAULT_TENANT, OnParentFailure
from rota.jobs.validation import Retry, read_retry
from rota.ops.kinds import KindEntry
from rota.outputs import OUTPUT, may_hold_outputs, resolve_outputs
from rota.schedule import (
    ScheduleHandle,
    When,
    create_schedule,
    define,
    read_options,
    read_rule,
)
from rota.session import Session, Sessions
from rota.signature import Call, TaskSignature, refuse_declaration
from rota.stores.protocol import Inserted
from rota.transactions import find_connection, take_own
from rota.unique import digest_job, insert_unique
from rota.worker import Context, Discard, Snooze
from rota.worker.child_messages import find_target
from rota.worker.processes import ProcessCall
from rota.worker.registry import Encode, Handler, RunIn, Work

P = ParamSpec("P")
R = TypeVar("R")


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a declaration says about all jobs of a task."""

    queue: str = "default"
    priority: int = DEFAULT_PRIORITY
    retry: RetryPolicy = JobRequest(name="", queue="").retry_policy
    timeout: timedelta | None = None
    notifies: bool = False
    unique: bool | tuple[str, ...] = False
    keep_result: bool = True
    run_in: RunIn | None = None
    label: str | None = None


class EnqueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one enqueue says about its job. None leaves it to the task."""

    at: datetime | None = None
    delay: timedelta | None = None
    queue: str | None = None
    priority: int | None = None
    key: str | None = None
    tenant: str = DEFAULT_TENANT
    after: tuple[JobId, ...] = ()
    retry: RetryPolicy | None = None
    within: Any = None
    on_parent_failure: OnParentFailure = "block"
    notifies: bool | None = None
    label: str | None = None

    def due_at(self, now: datetime) -> datetime:
        if self.at is not None:
            return self.at
        return now if self.delay is None else later(now, self.delay)


_NO_OPTIONS = EnqueueOptions()


class Enqueuer(Generic[P, R]):
    """Creates jobs of a task, with the options of one enqueue."""

    __slots__ = ("enqueue_options", "task")

    def __init__(self, task: "Task[P, R]", enqueue_options: EnqueueOptions) -> None:
        self.task = task
        self.enqueue_options = enqueue_options

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Validate the arguments, and create a job that calls the function with them."""
        (handle,) = await self._create([self.task.signature.bind(args, kwargs)])
        return handle

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """As ``enqueue``; blocks the thread."""
        call = self.task.signature.bind(args, kwargs)
        known = self._insert_here(call)
        if known is not None:
            return known
        (handle,) = self._create_sync([call])
        return handle

    async def enqueue_many(self, calls: Iterable[Call[P]]) -> list[JobHandle[R]]:
        """Create a job for each call made by ``task.call(...)``: all of them or none."""
        return await self._create(self._read_calls(calls))

    def enqueue_many_sync(self, calls: Iterable[Call[P]]) -> list[JobHandle[R]]:
        """As ``enqueue_many``; blocks the thread."""
        return self._create_sync(self._read_calls(calls))

    async def _create(self, calls: Sequence[Call[P]]) -> list[JobHandle[R]]:
        sessions, within = self.task.sessions, self.enqueue_options.within
        session = sessions.current()
        if session is not None:
            return await self._insert(session, calls, take_own(within))
        if within is not None:  # a transaction belongs to its event loop
            raise AppUseError(
                "within= needs the app to be open in this event loop; write: async with app"
            )
        return await sessions.run(lambda session: self._insert(session, calls, None))

    def _create_sync(self, calls: Sequence[Call[P]]) -> list[JobHandle[R]]:
        within = take_own(self.enqueue_options.within)
        return self.task.sessions.run_sync(lambda session: self._insert(session, calls, within))

    def _read_calls(self, calls: Iterable[Call[P]]) -> list[Call[P]]:
        bound, kind = list(calls), self.task.name
        for call in bound:
            if type(call) is not Call or call.kind != kind:
                raise InvalidInputError(
                    f"calls: {call!r:.60} is not a call of {kind}; write "
                    f"{self.task.__name__}.call(...)",
                    {"field": "calls"},
                )
        return bound

    def _insert_here(self, call: Call[P]) -> JobHandle[R] | None:
        """Create one job in the caller's own thread; None if that takes the event loop."""
        task, options = self.task, self.enqueue_options
        if task.options.unique or options.within is not None:
            return None
        found = task.sessions.find_blocking()
        if found is None:
            return None
        session, store = found
        now = session.clock.now()
        job = task.make_job(call, options, session.make_id(now), now)
        return task.handle(job.id, tenant=job.tenant) if store.insert_here(job, now) else None

    async def _insert(
        self, session: Session, calls: Sequence[Call[P]], within: Any
    ) -> list[JobHandle[R]]:
        task, options, now = self.task, self.enqueue_options, session.clock.now()
        ids = session.make_ids(now, len(calls))
        jobs = [
            task.make_job(call, options, job_id, now)
            for call, job_id in zip(calls, ids, strict=True)
        ]
        if task.options.unique:
            inserted = [await self._insert_unique(session, job, within) for job in jobs]
        else:
            inserted = await insert_jobs(session, jobs, now, within)
        sessions, signature, tenant = task.sessions, task.signature, options.tenant
        return [JobHandle(sessions, signature, each.job.id, tenant) for each in inserted]

    async def _insert_unique(self, session: Session, job: Job, within: Any) -> Inserted:
        unique = self.task.options.unique
        key = digest_job(job, unique if isinstance(unique, tuple) else None)
        return await insert_unique(session, job, key, await find_connection(within))


class TaskWithOptions(Enqueuer[P, R]):
    """A task, and the options of one enqueue."""

    __slots__ = ()


class Task(Enqueuer[P, R]):
    """A function whose calls can be enqueued. Calling the task runs the function itself."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        options: TaskOptions,
        sessions: Sessions,
    ) -> None:
        super().__init__(self, _NO_OPTIONS)
        self.function = function
        self.name = name
        self.options = options
        self.signature = TaskSignature(function, name, keeps_result=options.keep_result)
        self.sessions = sessions
        self._template: tuple[EnqueueOptions | None, Any] = (None, None)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def queue(self) -> str:
        return self.options.queue

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[P]:
        """The arguments of one call, validated, for ``enqueue_many``."""
        return self.signature.bind(args, kwargs)

    def using(
        self,
        *,
        at: datetime | str | None = None,
        delay: Duration | None = None,
        queue: str | None = None,
        priority: int | None = None,
        key: str | None = None,
        tenant: str | None = None,
        after: Sequence[JobHandle[Any] | JobId] = (),
        retry: Retry | None = None,
        within: Any = None,
        on_parent_failure: OnParentFailure = "block",
        notifies: bool | None = None,
        label: str | None = None,
    ) -> "TaskWithOptions[P, R]":
        """The task with options for one enqueue.

        ``at`` or ``delay`` say when it is due. A job with the same ``key`` is created once.
        ``after`` are jobs that must complete first; ``on_parent_failure`` says what happens if one
        of them, or one whose output is an argument, does not complete. ``within`` is a connection
        or session of the caller with an open transaction: the job is created when it commits.
        ``notifies`` decides about quiet hours instead of the task; only workers that offer the
        version ``label`` run the job.
        """
        if at is not None and delay is not None:
            raise InvalidInputError(
                "at and delay are both given; give one of them", {"field": "delay"}
            )
        return TaskWithOptions(
            self,
            EnqueueOptions(
                at=None if at is None else read_instant(at, "at"),
                delay=None if delay is None else read_duration(delay, "delay"),
                queue=None if queue is None else read_queue(queue),
                priority=None if priority is None else read_priority(priority),
                key=None if key is None else read_name(key, "key"),
                tenant=DEFAULT_TENANT if tenant is None else read_word(tenant, "tenant"),
                after=_read_after(after),
                retry=None if retry is None else read_retry(retry),
                within=within,
                on_parent_failure=_read_policy(on_parent_failure),
                notifies=None if notifies is None else read_flag(notifies, "notifies"),
                label=None if label is None else read_word(label, "label"),
            ),
        )

    async def schedule(
        self,
        when: When,
        *,
        name: str | None = None,
        tenant: str = DEFAULT_TENANT,
        retry: Retry | None = None,
        args: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ScheduleHandle:
        """Run the task when it is due, until the schedule is cancelled.

        ``options`` are ``zone``, ``gap``, ``fold``, ``overlap``, ``catch_up``, ``jitter`` and
        ``alert_after``, as for ``app.schedule``. An identical schedule with this name is
        left unchanged.
        """
        options |= {"args": args, "retry": retry}
        create = self._plan_schedule(when, name or self.name, tenant, options)
        return await self.sessions.run(create)

    def schedule_sync(
        self,
        when: When,
        *,
        name: str | None = None,
        tenant: str = DEFAULT_TENANT,
        retry: Retry | None = None,
        args: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ScheduleHandle:
        """As ``schedule``; blocks the thread."""
        options |= {"args": args, "retry": retry}
        create = self._plan_schedule(when, name or self.name, tenant, options)
        return self.sessions.run_sync(create)

    def _plan_schedule(
        self, when: When, name: str, tenant: str, options: dict[str, Any]
    ) -> Callable[[Session], Coroutine[Any, Any, ScheduleHandle]]:
        plain = define(self, options.pop("args") or {}, options.pop("retry"))
        definition = read_rule(plain, when, read_options(options))
        handle = ScheduleHandle(self, name, tenant=read_word(tenant, "tenant"))
        return lambda session: create_schedule(session, handle, definition)

    def handle(self, job_id: JobId, *, tenant: str = DEFAULT_TENANT) -> JobHandle[R]:
        """A handle on a job of this task that was enqueued elsewhere, by its id."""
        if not isinstance(job_id, str):
            reason = f"{job_id!r:.60} is not the id of a job; write job.id"
            raise InvalidInputError(f"job_id: {reason}", {"field": "job_id", "reason": reason})
        return JobHandle(self.sessions, self.signature, job_id, tenant)

    def make_job(
        self, call: Call[Any], options: EnqueueOptions, job_id: JobId, now: datetime
    ) -> Job:
        """The job of one call. Its arguments and its options have been validated."""
        known = self._template
        template = known[1] if known[0] is options else self._make_template(options, job_id, now)
        job = replace(
            template,
            id=job_id,
            payload=call.payload,
            due_at=options.due_at(now),
            created_at=now,
            updated_at=now,
        )
        if not (call.outputs or options.after):
            return job
        if not call.outputs and may_hold_outputs(msgspec.json.encode(call.payload)):
            raise InvalidArgumentsError(
                self.name, None, f"the key {OUTPUT!r} stands for outputs; name it differently"
            )
        # Set here: the limit of 50 is one of requests, not of flows.
        dependencies = tuple(dict.fromkeys((*call.outputs, *options.after)))
        return replace(job, dependencies=dependencies, status=JobStatus.PENDING)

    def _make_template(self, options: EnqueueOptions, job_id: JobId, now: datetime) -> Job:
        """A job with these options. The latest is kept: many jobs have the same."""
        request = JobRequest(
            name=self.name,
            kind=self.name,
            queue=options.queue or self.options.queue,
            priority=options.priority or self.options.priority,
            retry_policy=options.retry or self.options.retry,
            idempotency_key=options.key,
            on_parent_failure=options.on_parent_failure,
            notifies=options.notifies,
            label=options.label or self.options.label,
        )
        template = admit_job(request, job_id=job_id, now=now, tenant=options.tenant)
        if options.within is None:
            self._template = options, template
        return template

    def describe(self) -> KindEntry:
        """What the catalogue of kinds says about this task."""
        self.signature.check()
        return KindEntry(
            schema=self.signature.json_schema(),
            result=self.signature.result_schema() if self.options.keep_result else {},
            queue=self.options.queue,
            priority=self.options.priority,
            notifies=self.options.notifies,
            doc=(inspect.getdoc(self.function) or "").partition("\n")[0],
        )

    def check_payload(self, payload: Any) -> None:
        """Refuse a payload that does not fit the signature, unless outputs are still missing."""
        if not may_hold_outputs(msgspec.json.encode(payload)):
            self.signature.decode(payload)

    def as_handler(self) -> Handler:
        """What a worker calls for jobs of this task."""
        self.signature.check()
        options, function = self.options, self.function
        is_async = inspect.iscoroutinefunction(function)
        work: Work = self.signature.make_call(self._run)
        encode: Encode | None = self.signature.encode_result if options.keep_result else None
        if options.run_in == "process":
            runner = run_in_child if options.keep_result else run_and_forget
            work, is_async = ProcessCall(function, f"{__name__}:{runner.__name__}"), True
            encode = _as_encoded if options.keep_result else None
        return Handler(work, is_async, options.notifies, options.timeout, encode, resolve_outputs)

    def _run(self, context: Context) -> Any:
        """What the function returns: a coroutine, if it is one of those."""
        return _call(self.signature, context)


def _call(signature: TaskSignature, context: Context) -> Any:
    args, kwargs = _read_arguments(signature, context)
    return signature.function(*args, **kwargs)


def _read_arguments(
    signature: TaskSignature, context: Context
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        args, kwargs = signature.decode(context.job.payload)
    except InvalidArgumentsError as error:
        if not context.job.dependencies or "got null" not in error.reason:
            raise
        reason = f"{error.reason}; the output of a job without a result is None"
        raise InvalidArgumentsError(signature.name, error.argument, reason) from error
    if signature.context_name is not None:
        kwargs[signature.context_name] = context
    return args, kwargs


def run_in_child(found: Any, context: Context) -> Any:
    """Run a task in a child process: ``found`` is the task, or its function.

    Returns its result as JSON, or a Snooze or a Discard as it is.
    """
    function = found.function if isinstance(found, Task) else found
    signature = TaskSignature(function, context.job.kind)
    returned = _call(signature, context)
    is_answer = isinstance(returned, Snooze | Discard)
    return returned if is_answer else signature.encode_result(returned)


def run_and_forget(found: Any, context: Context) -> Any:
    """As ``run_in_child``, for a task whose result is not kept."""
    function = found.function if isinstance(found, Task) else found
    returned = _call(TaskSignature(function, context.job.kind, keeps_result=False), context)
    return returned if isinstance(returned, Snooze | Discard) else None


def _as_encoded(returned: Any) -> bytes | None:
    """What a child process returned is JSON already."""
    return cast("bytes | None", returned)


async def insert_jobs(
    session: Session, jobs: Sequence[Job], now: datetime, within: Any = None
) -> list[Inserted]:
    """Create the jobs in one step, or within a transaction of the caller."""
    if not jobs:
        return []
    if within is None:
        return await session.store.insert(jobs, now)
    return await session.store.insert_within(await find_connection(within), jobs, now)


def _read_after(value: object) -> tuple[JobId, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        reason = f"{value!r:.60} is not a list of jobs; write [job]"
        raise InvalidInputError(f"after: {reason}", {"field": "after", "reason": reason})
    return tuple(
        it.id if isinstance(it, JobHandle) else read_id(it, f"after[{place}]")
        for place, it in enumerate(value)
    )


def _read_policy(value: object) -> OnParentFailure:
    for choice in get_args(OnParentFailure):
        if value == choice:
            return cast("OnParentFailure", choice)
    choices = ", ".join(get_args(OnParentFailure))
    reason = f"{value!r:.40} is not valid; use one of {choices}"
    raise InvalidInputError(f"on_parent_failure: {reason}", {"field": "on_parent_failure"})


class AsyncTask(Task[P, R]):
    """A task made from a coroutine function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function itself."""
        called: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return called


class SyncTask(Task[P, R]):
    """A task made from a plain function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        called: R = self.function(*args, **kwargs)
        return called


def check_function(function: Any, run_in: object) -> None:
    """Refuse what cannot be a task. TaskDeclarationError names the function and the line."""
    if isinstance(function, Task):
        reason = f"it is the task {function.name} already; write @app.schedule above @app.task"
        raise refuse_declaration(function.function, reason)
    if not callable(function):
        raise refuse_declaration(function, "it is not a function")
    if inspect.isclass(function):
        raise refuse_declaration(function, "it is a class, not a function")
    if not hasattr(function, "__name__"):
        raise refuse_declaration(function, "it is not a function; write one with def that calls it")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise refuse_declaration(function, "it is a generator function: nothing of it would run")
    if run_in == "process":
        find_target(function)
    if run_in == "thread" and inspect.iscoroutinefunction(function):
        reason = 'run_in="thread" is for plain functions, and this one is async'
        raise refuse_declaration(function, reason)
