"""The pages of a series and of a declarative task: past and next runs, and what can be done."""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Any

from starlette.responses import Response

from rota.errors import InvalidRequestError, InvalidZoneError, NotFoundError, RotaError
from rota.jobs import format_instant
from rota.ops.backfill import Backfill, plan_backfill, run_backfill
from rota.ops.explain import explain_job
from rota.ops.series import SeriesDetail, find_any_series, find_series, list_ended_series
from rota.ops.series_edit import SeriesEdit, edit_series, plan_edit
from rota.ops.tasks import (
    TaskDetail,
    explain_one_task,
    find_task,
    pause_task,
    read_context,
    request_run,
    resume_task,
)
from rota.server.pages.formats import read_wall
from rota.server.pages.job import carry_out_verb
from rota.server.pages.outlook import (
    preview_task,
    show_occurrence,
    show_series_runs,
    show_task_runs,
    show_upcoming,
)
from rota.server.pages.responses import go_to, render_page, stream_page
from rota.server.pages.rule_form import (
    CHOICES,
    preview_given,
    read_payload,
    read_rule,
    show_payload_text,
    show_recurrence,
)
from rota.server.pages.visit import Form, Visit
from rota.triggers.zone import load_zone

RUNS_AHEAD = 10
SHOWN_IN_PLAN = 20
MOST_ENDED = 100


async def show_series(visit: Visit) -> Response:
    store, series_id = visit.store, visit.part("series_id")
    detail = await visit.cached(
        f"any series {series_id}",
        lambda: find_any_series(store, visit.tenant, series_id, visit.now, RUNS_AHEAD),
    )
    return await stream_page(
        visit, "series.html", lambda: _read(visit, detail), series=detail.series, detail=detail
    )


async def _read(visit: Visit, detail: SeriesDetail) -> dict[str, Any]:
    series = detail.series
    explanation = await explain_job(visit.store, visit.clock, visit.tenant, series.job_id)
    there, zone_problem = choose_zone(visit)
    own = load_zone(series.zone) if not series.problem else UTC
    return {
        "runs": show_series_runs(detail.runs, visit.shown_zone),
        "upcoming": show_upcoming(series.occurrences, own, there),
        "there": there,
        "zone_problem": zone_problem,
        "explanation": explanation,
        "backfill": _suggest_range(detail, visit),
    }


async def act_on_series(visit: Visit, form: Form) -> Response:
    """Pause, resume, run now, edit or backfill a series."""
    verb, series_id = visit.part("verb"), visit.part("series_id")
    if verb == "edit":
        return await _edit(visit, form)
    if verb == "backfill":
        return await _backfill(visit, form)
    await _find(visit)
    return go_to(_link(visit, done=await carry_out_verb(visit, series_id, form)))


async def show_edit(visit: Visit) -> Response:
    """The form with the present rule."""
    detail = await _find(visit)
    job = (await visit.find_jobs([detail.series.job_id]))[0]
    shown = show_recurrence(detail.series.recurrence)
    shown |= {"queue": job.queue, "priority": str(job.priority)}
    shown["payload"] = show_payload_text(job.payload, visit.context.masked_words)
    return await _render_edit(visit, detail, Form.of(shown))


async def _edit(visit: Visit, given: Form) -> Response:
    detail = await _find(visit)
    try:
        fields = _read_edit(given)
        if "payload" in fields:
            visit.context.served.check(detail.series.kind, fields["payload"])
        if given.one("action") != "save":
            plan = await plan_edit(visit.around, detail.series.id, fields)
            return await _render_edit(visit, detail, given, plan=plan)
        await edit_series(visit.around, detail.series.id, fields, who=visit.who, why=given.why)
    except RotaError as error:
        problem = error.message.replace("recurrence.", "")
        return await _render_edit(visit, detail, given, problem=problem)
    return go_to(_link(visit, done="series-changed"))


def _read_edit(given: Form) -> dict[str, Any]:
    priority = given.number("priority")
    if priority is None:
        raise InvalidRequestError("priority", "must be a whole number from 1 to 10")
    fields = {"recurrence": read_rule(given), "queue": given.one("queue"), "priority": priority}
    if given.one("payload"):
        fields["payload"] = read_payload(given.one("payload"))
    return fields


async def _render_edit(
    visit: Visit,
    detail: SeriesDetail,
    given: Form,
    plan: SeriesEdit | None = None,
    problem: str = "",
) -> Response:
    zone = load_zone(given.one("zone") or "UTC") if plan is not None else UTC
    recurrence = detail.series.recurrence
    before = load_zone(detail.series.zone) if not detail.series.problem else UTC
    shown = {**show_recurrence(recurrence), "start": format_instant(recurrence.start)}
    kept = {f"kept_{name}": shown[name] for name in ("when", "zone", "start")}
    return await render_page(
        visit,
        "series_edit.html",
        detail=detail,
        series=detail.series,
        given=given,
        kept=kept,
        choices=CHOICES,
        plan=plan,
        before=() if plan is None else show_upcoming(plan.occurrences_before, before),
        after=() if plan is None else show_upcoming(plan.occurrences_after, zone),
        outlook=await preview_given(visit, Form({**given.values, **Form.of(kept).values})),
        problem=problem,
    )


async def _backfill(visit: Visit, form: Form) -> Response:
    """Show what a backfill would create; with ``action=create``, create it."""
    detail = await _find(visit)
    zone = visit.shown_zone
    try:
        since, until = (read_wall(form.one(name), name, zone) for name in ("since", "until"))
        asked = visit.around, detail.series.id, since, min(until, visit.now)
        plan = await plan_backfill(*asked)
    except RotaError as error:
        return await _render_backfill(visit, detail, form, problem=error.message)
    if form.one("action") != "create":
        return await _render_backfill(visit, detail, form, plan=plan)
    await visit.admit(len(plan.occurrences))
    made = await run_backfill(*asked, who=visit.who, why=form.why)
    return go_to(_link(visit, done="backfilled", count=len(made.job_ids)))


async def _render_backfill(
    visit: Visit, detail: SeriesDetail, form: Form, plan: Backfill | None = None, problem: str = ""
) -> Response:
    zone = load_zone(detail.series.zone)
    shown = () if plan is None else plan.occurrences[:SHOWN_IN_PLAN]
    return await render_page(
        visit,
        "backfill.html",
        series=detail.series,
        plan=plan,
        shown=[show_occurrence(at, zone, None) for at in shown],
        given=form,
        problem=problem,
    )


async def read_ended(visit: Visit) -> dict[str, Any]:
    store = visit.store
    found = await visit.cached("ended series", lambda: list_ended_series(store, visit.tenant))
    return {
        "rows": [it for it in found[:MOST_ENDED] if it.last_run is not None],
        "is_cut": len(found) > MOST_ENDED,
    }


def choose_zone(visit: Visit) -> tuple[tzinfo, str]:
    """The zone in the address, or that of the pages; and what is wrong with the former."""
    asked = visit.ask("zone").strip()
    if not asked:
        return visit.shown_zone, ""
    try:
        return load_zone(asked), ""
    except InvalidZoneError as error:
        return visit.shown_zone, error.message


def _suggest_range(detail: SeriesDetail, visit: Visit) -> Mapping[str, str]:
    """The fields of the backfill form: since the pause, or since the last run."""
    last = detail.series.last_run
    since = last.occurrence_at if last is not None else detail.series.recurrence.start
    if detail.pause is not None:
        since = detail.pause.since
    ends = (since, visit.now)
    return {
        name: f"{at.astimezone(visit.shown_zone):%Y-%m-%dT%H:%M}"
        for name, at in zip(("since", "until"), ends, strict=True)
    }


async def _find(visit: Visit) -> SeriesDetail:
    store, series_id = visit.store, visit.part("series_id")
    return await visit.cached(
        f"series {series_id}",
        lambda: find_series(store, visit.tenant, series_id, visit.now, RUNS_AHEAD),
    )


def _link(visit: Visit, **query: object) -> str:
    return visit.link("schedules", "series", visit.part("series_id"), **query)


async def show_task(visit: Visit) -> Response:
    store, clock, name = visit.store, visit.clock, visit.part("name")
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
    return await stream_page(visit, "task.html", lambda: _read_task(visit, detail), **known)


async def _read_task(visit: Visit, detail: TaskDetail) -> dict[str, Any]:
    store, clock = visit.store, visit.clock
    return {
        "runs": show_task_runs(detail.runs, visit.shown_zone),
        "explanation": await explain_one_task(store, clock, visit.zone, detail.task.name),
    }


async def act_on_task(visit: Visit, form: Form) -> Response:
    """Run a task now, pause it or resume it."""
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
