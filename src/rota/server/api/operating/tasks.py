"""Declarative tasks: they belong to no tenant, so only who looks after all may see them."""

from datetime import timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidInputError, InvalidRequestError, InvalidZoneError
from rota.jobs.misfits import IN_WORDS
from rota.ops.tasks import (
    TaskPlan,
    TaskSummary,
    explain_one_task,
    look_at_tasks,
    plan_tasks,
    request_run,
)
from rota.server.api.operating.word import Why, surroundings_of
from rota.server.api.shapes.wall_times import WallTime, choose_moment
from rota.server.api.shapes.words import PRINTABLE, Moment
from rota.server.routing.route import Answer, Call, Nothing, Route
from rota.triggers.zone import load_zone

TASKS = "/api/v1/tasks"
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


class TaskChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On the clock of which zone schedules are read: that of the schedulers."""

    zone: Annotated[str, Meta(description="A time zone, such as Europe/London.")] = "UTC"


class TaskQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which task is asked about, and whether about some instant, or a time on the wall."""

    name: TaskName
    at: Annotated[Moment | None, Meta(description="Why it ran, or not, at this instant.")] = None
    wall: WallTime | None = None
    zone: Annotated[str, Meta(description="A time zone, such as Europe/London.")] = "UTC"


class TaskOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which task is to run."""

    name: TaskName
    why: Why | None = None


class TaskRegistration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task as a program would register it."""

    name: TaskName
    cron: Annotated[
        str,
        Meta(
            description="A POSIX crontab expression of five fields.",
            extra_json_schema={"examples": ["0 9 * * 1-5"]},
        ),
    ]
    retry_delay_ms: Annotated[
        int,
        Meta(description="How long after a failure it is tried again.", ge=0, le=LONGEST_DELAY_MS),
    ] = 60_000


class TaskPlanOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program is about to register, all of it."""

    registrations: Annotated[list[TaskRegistration], Meta(max_length=MOST_PLANNED)]
    zone: str = "UTC"


class TaskList(msgspec.Struct, frozen=True):
    """Every task that the store holds, by name.

    ``scheduler_count`` schedulers are alive; records named in ``unreadable`` cannot be read.
    """

    items: tuple[TaskSummary, ...]
    scheduler_count: int
    unreadable: tuple[str, ...]
    next_cursor: str | None = None
    has_more: bool = False


class TaskExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in one word, and the reasons in sentences, the most telling first."""

    name: str
    at: Moment | None
    answer: str
    reasons: tuple[str, ...]
    next_at: Moment | None


class TaskRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was asked for; with no scheduler alive it waits until there is one."""

    name: str
    scheduler_count: int


async def list_all_tasks(call: Call[Nothing, TaskChoice]) -> TaskList:
    """List the declarative tasks with their schedules in words, last runs and next ones."""
    zone = _read_zone(call.query.zone)
    found = await look_at_tasks(call.around.store, call.around.clock, zone)
    return TaskList(found.tasks, found.scheduler_count, found.unreadable)


async def explain_why_task(call: Call[Nothing, TaskQuestion]) -> TaskExplanation:
    """Say why a task ran, did not run, or will run, now or at an instant."""
    asked = call.query
    zone, at = _read_zone(asked.zone), choose_moment(asked.at, asked.wall)
    told = await explain_one_task(call.around.store, call.around.clock, zone, asked.name, at)
    return TaskExplanation(
        name=told.name, at=told.at, answer=told.answer, reasons=told.reasons, next_at=told.next_at
    )


async def plan_all_tasks(call: Call[TaskPlanOrder, Nothing]) -> TaskPlan:
    """Say what registering these tasks, and no others, would change; nothing is written."""
    asked = call.body
    registrations = [
        (each.name, each.cron, timedelta(milliseconds=each.retry_delay_ms))
        for each in asked.registrations
    ]
    zone = _read_zone(asked.zone)
    try:
        return await plan_tasks(call.around.store, call.around.clock, zone, registrations)
    except InvalidInputError as error:
        raise InvalidRequestError("registrations", f"are refused: {error.message}") from error


async def run_task_now(call: Call[TaskOrder, Nothing]) -> Answer:
    """Ask whichever scheduler looks next to run a task once, now, beside its schedule."""
    name = call.body.name
    around, who = surroundings_of(call), call.caller.who
    count = await request_run(around, name, who=who, why=call.body.why)
    return Answer(202, TaskRun(name=name, scheduler_count=count))


def _read_zone(name: str) -> ZoneInfo:
    try:
        return load_zone(name)
    except InvalidZoneError as error:
        raise InvalidRequestError("zone", f"is refused: {error.message}") from error


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=TASKS,
        handler=list_all_tasks,
        scope=Scope.ADMIN,
        tag="tasks",
        query=TaskChoice,
        answers={200: TaskList},
    ),
    Route(
        method="GET",
        path=f"{TASKS}/why",
        handler=explain_why_task,
        scope=Scope.ADMIN,
        tag="tasks",
        query=TaskQuestion,
        answers={200: TaskExplanation},
        errors=(404,),
    ),
    Route(
        method="POST",
        path=f"{TASKS}/plan",
        handler=plan_all_tasks,
        scope=Scope.ADMIN,
        tag="tasks",
        body=TaskPlanOrder,
        answers={200: TaskPlan},
    ),
    Route(
        method="POST",
        path=f"{TASKS}/run-now",
        handler=run_task_now,
        scope=Scope.ADMIN,
        tag="tasks",
        body=TaskOrder,
        answers={202: TaskRun},
        errors=(404,),
    ),
)
