"""Declarative tasks. They belong to no tenant, so all routes need the admin scope."""

from datetime import timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidInputError, InvalidRequestError, InvalidZoneError
from rota.jobs.misfits import IN_WORDS
from rota.ops.tasks import (
    TaskDetail,
    TaskPlan,
    TaskSummary,
    explain_one_task,
    find_task,
    look_at_tasks,
    pause_task,
    plan_tasks,
    request_run,
    resume_task,
)
from rota.server.api.fields import PRINTABLE, Moment, WallTime, Why, choose_moment
from rota.server.http.route import Answer, Call, Nothing, Resource
from rota.triggers.zone import load_zone

TASKS = Resource("/api/v1/tasks", "tasks")

MOST_PLANNED = 10_000
LONGEST_DELAY_MS = 100 * 366 * 86_400_000

TaskName = Annotated[
    str,
    Meta(
        description="The name under which a task is registered.",
        min_length=1,
        max_length=255,
        pattern=PRINTABLE,
        extra_json_schema={"examples": ["clean-up"]},
        extra={IN_WORDS: "must be one line of text"},
    ),
]
Zone = Annotated[
    str,
    Meta(
        description="A time zone, such as Europe/London. It counts only if no scheduler has "
        "declared the zone of its tasks."
    ),
]


class TaskChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The zone of the schedules."""

    zone: Zone = "UTC"


class OneTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which task."""

    name: TaskName
    zone: Zone = "UTC"


class TaskQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task and, optionally, an instant or a wall time."""

    name: TaskName
    at: Annotated[Moment | None, Meta(description="Why it did or did not run then.")] = None
    wall: WallTime | None = None
    zone: Zone = "UTC"


class TaskOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The task to run, or to pause."""

    name: TaskName
    why: Why | None = None


class TaskResumption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The task to resume. With ``catch_up`` one run covers what passed during the pause."""

    name: TaskName
    why: Why | None = None
    catch_up: bool = False


class TaskRegistration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task as a program registers it."""

    name: TaskName
    cron: Annotated[
        str,
        Meta(
            description="A POSIX crontab expression of five fields.",
            extra_json_schema={"examples": ["0 9 * * 1-5"]},
        ),
    ]
    retry_delay_ms: Annotated[
        int, Meta(description="The delay before a retry.", ge=0, le=LONGEST_DELAY_MS)
    ] = 60_000


class TaskPlanOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All tasks that a program is about to register."""

    registrations: Annotated[list[TaskRegistration], Meta(max_length=MOST_PLANNED)]
    zone: str = "UTC"


class TaskList(msgspec.Struct, frozen=True):
    """The tasks in the store, by name.

    ``scheduler_count`` schedulers are alive. ``unreadable`` names records that cannot be read.
    ``zone`` and ``policy`` are those of the schedulers.
    """

    items: tuple[TaskSummary, ...]
    scheduler_count: int
    unreadable: tuple[str, ...]
    zone: str = "UTC"
    policy: str = "declarative"
    next_cursor: str | None = None
    has_more: bool = False


class TaskExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in a word, and the reasons in sentences, most important first."""

    name: str
    at: Moment | None
    answer: str
    reasons: tuple[str, ...]
    next_at: Moment | None


class TaskRun(msgspec.Struct, frozen=True, kw_only=True):
    """A requested run. When no scheduler is alive, it waits for one."""

    name: str
    scheduler_count: int


@TASKS.route("GET", "", Scope.ADMIN)
async def list_all_tasks(call: Call[Nothing, TaskChoice]) -> TaskList:
    """List the declarative tasks: schedule in words, last run, next runs."""
    zone = _read_zone(call.query.zone)
    found = await look_at_tasks(call.store, call.clock, zone)
    return TaskList(found.tasks, found.scheduler_count, found.unreadable, found.zone, found.policy)


@TASKS.route("GET", "/why", Scope.ADMIN, errors=(404,))
async def explain_why_task(call: Call[Nothing, TaskQuestion]) -> TaskExplanation:
    """Explain why a task ran, did not run or will run, now or at an instant."""
    asked = call.query
    zone, at = _read_zone(asked.zone), choose_moment(asked.at, asked.wall)
    found = await explain_one_task(call.store, call.clock, zone, asked.name, at)
    return msgspec.convert(found, TaskExplanation, from_attributes=True)


@TASKS.route("GET", "/history", Scope.ADMIN, errors=(404,))
async def get_task_history(call: Call[Nothing, OneTask]) -> TaskDetail:
    """Get a task with its last runs: when each was due, when it started and ended, and how."""
    asked = call.query
    zone = _read_zone(asked.zone)
    return await find_task(call.store, call.clock, asked.name, zone)


@TASKS.route("POST", "/plan", Scope.ADMIN)
async def plan_all_tasks(call: Call[TaskPlanOrder, Nothing]) -> TaskPlan:
    """Show what registering exactly these tasks would change. Writes nothing."""
    registrations = [
        (each.name, each.cron, timedelta(milliseconds=each.retry_delay_ms))
        for each in call.body.registrations
    ]
    zone = _read_zone(call.body.zone)
    try:
        return await plan_tasks(call.store, call.clock, zone, registrations)
    except InvalidInputError as error:
        raise InvalidRequestError("registrations", f"are refused: {error.message}") from error


@TASKS.route("POST", "/pause", Scope.ADMIN, errors=(404, 409))
async def pause_one_task(call: Call[TaskOrder, Nothing]) -> TaskDetail:
    """Pause a task. A run in progress finishes; none starts until the task is resumed."""
    name = call.body.name
    context = call.around
    await pause_task(context, name, who=call.who, why=call.body.why)
    return await find_task(call.store, call.clock, name)


@TASKS.route("POST", "/resume", Scope.ADMIN, errors=(404, 409))
async def resume_one_task(call: Call[TaskResumption, Nothing]) -> TaskDetail:
    """Resume a paused task with its next occurrence, or with one run for those that passed."""
    order = call.body
    context = call.around
    await resume_task(context, order.name, who=call.who, why=order.why, catch_up=order.catch_up)
    return await find_task(call.store, call.clock, order.name)


def _read_zone(name: str) -> ZoneInfo:
    try:
        return load_zone(name)
    except InvalidZoneError as error:
        raise InvalidRequestError("zone", f"is refused: {error.message}") from error


@TASKS.route("POST", "/run-now", Scope.ADMIN, answers={202: TaskRun}, errors=(404,))
async def run_task_now(call: Call[TaskOrder, Nothing]) -> Answer:
    """Request one immediate run of a task, in addition to its schedule."""
    name = call.body.name
    context = call.around
    count = await request_run(context, name, who=call.who, why=call.body.why)
    return Answer(202, TaskRun(name=name, scheduler_count=count))
