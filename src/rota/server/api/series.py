"""Series: list, preview, calendar, edit, backfill, pause, resume, run now and cancel."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.auth.caller import Scope
from rota.clock.loop import call_in_thread
from rota.jobs.validation import read_recurrence
from rota.ops.backfill import Backfill, plan_backfill, run_backfill
from rota.ops.calendar import DAYS, Calendar, make_calendar
from rota.ops.series import (
    SHOWN_IN_DETAIL,
    SeriesDetail,
    SeriesSummary,
    find_any_series,
    find_series,
    list_series,
)
from rota.ops.series_edit import JOB_FIELDS, SeriesEdit, edit_series, plan_edit
from rota.rail.jobs import Preview, preview_series
from rota.server.api.fields import (
    Moment,
    Order,
    PageChoice,
    PageOf,
    Payload,
    Priority,
    Queue,
    Why,
    list_given,
)
from rota.server.api.job_bodies import RecurrenceBody
from rota.server.http.route import Call, Nothing, Resource

SERIES = Resource("/api/v1/series", "series")


_MOST_SHOWN = 100


class SeriesList(PageOf[SeriesSummary], frozen=True):
    """A page of live series, by id."""


class ResumeChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to the occurrence that was held back."""

    catch_up: Annotated[
        bool, Meta(description="Run the first missed occurrence now; otherwise wait for the next.")
    ] = False


class PreviewOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule to preview, and the number of occurrences to show."""

    recurrence: RecurrenceBody
    count: Annotated[int, Meta(ge=1, le=_MOST_SHOWN)] = 5


class SeriesView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a series to show."""

    count: Annotated[
        int, Meta(description="The number of next occurrences.", ge=1, le=_MOST_SHOWN)
    ] = SHOWN_IN_DETAIL


class EditOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change. What is left out stays. A ``dry_run`` only shows what would change."""

    recurrence: RecurrenceBody | UnsetType = UNSET
    queue: Queue | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    payload: Payload | UnsetType = UNSET
    dry_run: bool = False
    why: Why | None = None


class BackfillOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The range, with both ends. A ``dry_run`` only shows what would be created."""

    since: Moment
    until: Moment
    dry_run: bool = False
    why: Why | None = None


class CalendarChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far to look ahead."""

    days: Annotated[int, Meta(ge=1, le=DAYS, description="The number of days from now on.")] = 1


@SERIES.route("GET", "", Scope.READ)
async def list_all_series(call: Call[Nothing, PageChoice]) -> SeriesList:
    """List live series: the rule in words, next occurrences in local time and UTC, last run."""
    now, query = call.clock.now(), call.query
    page = await list_series(call.store, call.tenant, now, cursor=query.cursor, limit=query.limit)
    return SeriesList(page.items, page.next_cursor, page.has_more)


@SERIES.route("POST", "/preview", Scope.READ)
async def preview_rule(call: Call[PreviewOrder, Nothing]) -> Preview:
    """Show the next occurrences of a rule, with notes on DST changes."""
    fields = msgspec.structs.asdict(call.body.recurrence)
    recurrence, _ = read_recurrence(fields, call.clock.now())
    return await call_in_thread(
        lambda: preview_series(recurrence, recurrence.start, call.body.count)
    )


async def _find(call: Call[Any, Any]) -> SeriesDetail:
    named = call.path["job_id"]
    return await find_series(call.store, call.tenant, named, call.clock.now())


@SERIES.route("GET", "/calendar", Scope.READ)
async def show_calendar(call: Call[Nothing, CalendarChoice]) -> Calendar:
    """Show what will run in the coming days, and what collides.

    Declarative tasks are included for callers with the admin scope.
    """
    context = call.around
    return await make_calendar(context, call.query.days, has_tasks=call.caller.may(Scope.ADMIN))


@SERIES.route("GET", "/{job_id}", Scope.READ, errors=(404,))
async def get_series(call: Call[Nothing, SeriesView]) -> SeriesDetail:
    """Get a series with its last runs, by its id or the id of any of its jobs.

    One that has ended is found as long as jobs of it are kept; ``ended_at`` says since when.
    """
    now = call.clock.now()
    named = call.path["job_id"]
    return await find_any_series(call.store, call.tenant, named, now, call.query.count)


@SERIES.route("PATCH", "/{job_id}", Scope.OPERATE, errors=(404, 409))
async def edit_one_series(call: Call[EditOrder, Nothing]) -> SeriesEdit:
    """Change a series: its rule, queue, priority or payload. An occurrence that runs finishes."""
    series = (await _find(call)).series
    order, context = call.body, call.around
    fields = list_given(order, (*JOB_FIELDS, "recurrence"))
    if "recurrence" in fields:
        fields["recurrence"] = msgspec.structs.asdict(fields["recurrence"])
    if "payload" in fields:
        call.context.served.check(series.kind, fields["payload"])
    series_id = call.path["job_id"]
    if order.dry_run:
        return await plan_edit(context, series_id, fields)
    return await edit_series(context, series_id, fields, who=call.who, why=order.why)


@SERIES.route("POST", "/{job_id}/backfill", Scope.OPERATE, errors=(404, 409))
async def backfill_series(call: Call[BackfillOrder, Nothing]) -> Backfill:
    """Create a job for each past occurrence in a range that has no successful run."""
    await _find(call)
    order = call.body
    asked = call.around, call.path["job_id"], order.since, order.until
    plan = await plan_backfill(*asked)
    if order.dry_run:
        return plan
    await call.admit(len(plan.occurrences))
    return await run_backfill(*asked, who=call.who, why=order.why)


@SERIES.route("POST", "/{job_id}/pause", Scope.OPERATE, errors=(404, 409))
async def pause_series(call: Call[Order, Nothing]) -> SeriesDetail:
    """Pause a series. A running job finishes; nothing starts until the series is resumed."""
    await _find(call)
    await call.rail.pause(call.path["job_id"], who=call.who, why=call.body.why)
    return await _find(call)


@SERIES.route("POST", "/{job_id}/resume", Scope.OPERATE, errors=(404, 409))
async def resume_series(call: Call[Order, ResumeChoice]) -> SeriesDetail:
    """Resume a paused series."""
    await _find(call)
    catch_up, why = call.query.catch_up, call.body.why
    await call.rail.resume(call.path["job_id"], catch_up=catch_up, who=call.who, why=why)
    return await _find(call)


@SERIES.route("POST", "/{job_id}/run-now", Scope.OPERATE, errors=(404, 409))
async def run_series_now(call: Call[Order, Nothing]) -> SeriesDetail:
    """Run the next occurrence of a series now. The series then continues as scheduled."""
    await _find(call)
    await call.rail.run_now(call.path["job_id"], who=call.who, why=call.body.why)
    return await _find(call)


@SERIES.route("POST", "/{job_id}/cancel", Scope.OPERATE, errors=(404, 409))
async def cancel_series(call: Call[Order, Nothing]) -> SeriesDetail:
    """End a series and cancel its running job. Returns the series as it was."""
    before = await _find(call)
    await call.rail.cancel(call.path["job_id"], who=call.who, why=call.body.why)
    return before
