"""The page of a declarative task: its past and next runs, and what an operator can do with it."""

from typing import Any

from starlette.responses import Response

from rota.errors import NotFoundError
from rota.jobs import JobState
from rota.ops.tasks import (
    TaskDetail,
    TaskSummary,
    explain_one_task,
    find_task,
    pause_task,
    read_context,
    request_run,
    resume_task,
)
from rota.server.pages.outlook import draw_task_strip, list_task_runs, preview_task
from rota.server.pages.responses import go_to, stream_page
from rota.server.pages.series import RUNS_AHEAD, choose_zone
from rota.server.pages.statuses import SIGNS, Sign
from rota.server.pages.visit import Visit, read_form

_INTERRUPTED = Sign("interrupted", "alert", "red")


async def show_task(visit: Visit) -> Response:
    store, clock, name = visit.store, visit.clock, _name(visit)
    detail = await find_task(store, clock, name, visit.zone)
    rules = await read_context(store, clock, visit.zone)
    there, zone_problem = choose_zone(visit)
    known = {
        "detail": detail,
        "task": detail.task,
        "outlook": preview_task(
            detail.task.cron,
            rules.zone,
            visit.now,
            policy=rules.policy,
            count=RUNS_AHEAD,
            there=there,
        ),
        "there": there,
        "zone_problem": zone_problem,
    }
    return await stream_page(visit, "task.html", lambda: _read(visit, detail), **known)


async def _read(visit: Visit, detail: TaskDetail) -> dict[str, Any]:
    store, clock = visit.store, visit.clock
    return {
        "sign": sign_of_task(detail.task),
        "strip": draw_task_strip(detail.runs, visit.shown_zone),
        "runs": list_task_runs(detail.runs),
        "explanation": await explain_one_task(store, clock, visit.zone, detail.task.name),
    }


async def act_on_task(visit: Visit) -> Response:
    """Run a task now, pause it or resume it."""
    form = await read_form(visit.request)
    name, verb = form.one("name"), form.one("verb")
    context = visit.around
    who, why = visit.who, form.why
    if verb == "run-now":
        await request_run(context, name, who=who, why=why)
    elif verb == "pause":
        await pause_task(context, name, who=who, why=why)
    elif verb == "resume":
        catch_up = form.one("catch_up") == "yes"
        await resume_task(context, name, who=who, why=why, catch_up=catch_up)
    else:
        raise NotFoundError("This page does not exist.")
    steps = ["schedules"] if form.one("back") == "schedules" else ["schedules", "tasks", name]
    return go_to(visit.link(*steps, done=f"task-{verb}", match=form.one("match")))


def sign_of_task(task: TaskSummary) -> Sign:
    if task.is_interrupted:
        return _INTERRUPTED
    if task.phase == "Running":
        return SIGNS[JobState.RUNNING]
    if task.is_paused:
        return SIGNS[JobState.PAUSED]
    return SIGNS[JobState.RETRYING] if task.retry_at is not None else SIGNS[JobState.SCHEDULED]


def _name(visit: Visit) -> str:
    return str(visit.request.path_params["name"])
