"""The page of a declarative task: its past and next runs, and what an operator can do with it."""

from typing import Any

from starlette.responses import Response

from rota.errors import NotFoundError
from rota.ops.tasks import (
    TaskDetail,
    explain_one_task,
    find_task,
    pause_task,
    read_context,
    request_run,
    resume_task,
)
from rota.server.pages.outlook import preview_task, show_task_runs
from rota.server.pages.responses import go_to, stream_page
from rota.server.pages.series import RUNS_AHEAD, choose_zone
from rota.server.pages.visit import Visit, read_form


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
        "runs": show_task_runs(detail.runs, visit.shown_zone),
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


def _name(visit: Visit) -> str:
    return str(visit.request.path_params["name"])
