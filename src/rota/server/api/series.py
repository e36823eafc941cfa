"""Series: list, preview, pause, resume, run now and cancel."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.clock.idle import call_in_thread
from rota.jobs.search import DEFAULT_LIMIT
from rota.jobs.validation import read_recurrence
from rota.ops.series import SeriesDetail, SeriesSummary, find_series, list_series
from rota.rail.jobs import Preview, preview_series
from rota.server.api.fields import Cursor, Order, PageCursor, PageLimit
from rota.server.api.jobs import RecurrenceBody
from rota.server.http.route import Call, Nothing, Route, route

SERIES = "/api/v1/series"
ONE_SERIES = "/api/v1/series/{job_id}"

_MOST_SHOWN = 100


class SeriesSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of series."""

    cursor: PageCursor = None
    limit: PageLimit = DEFAULT_LIMIT


class SeriesList(msgspec.Struct, frozen=True):
    """A page of live series, by id."""

    items: tuple[SeriesSummary, ...]
    next_cursor: Cursor
    has_more: bool


class ResumeChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to the occurrence that was held back."""

    catch_up: Annotated[
        bool, Meta(description="Run the first missed occurrence now; otherwise wait for the next.")
    ] = False


class PreviewOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule to preview, and the number of occurrences to show."""

    recurrence: RecurrenceBody
    count: Annotated[int, Meta(ge=1, le=_MOST_SHOWN)] = 5


async def list_all_series(call: Call[Nothing, SeriesSearch]) -> SeriesList:
    """List live series: the rule in words, next occurrences in local time and UTC, last run."""
    context, query = call.context, call.query
    page = await list_series(
        context.store,
        call.caller.tenant,
        context.clock.now(),
        cursor=query.cursor,
        limit=query.limit,
    )
    return SeriesList(page.items, page.next_cursor, page.has_more)


async def get_series(call: Call[Nothing, Nothing]) -> SeriesDetail:
    """Get a series with its last runs, by its id or the id of any of its jobs."""
    return await _find(call)


async def pause_series(call: Call[Order, Nothing]) -> SeriesDetail:
    """Pause a series. A running job finishes; nothing starts until the series is resumed."""
    await _find(call)
    rail = call.context.rail(call.caller.tenant)
    await rail.pause(call.path["job_id"], who=call.caller.who, why=call.body.why)
    return await _find(call)


async def resume_series(call: Call[Order, ResumeChoice]) -> SeriesDetail:
    """Resume a paused series."""
    await _find(call)
    await call.context.rail(call.caller.tenant).resume(
        call.path["job_id"],
        catch_up=call.query.catch_up,
        who=call.caller.who,
        why=call.body.why,
    )
    return await _find(call)


async def run_series_now(call: Call[Order, Nothing]) -> SeriesDetail:
    """Run the next occurrence of a series now. The series then continues as scheduled."""
    await _find(call)
    rail = call.context.rail(call.caller.tenant)
    await rail.run_now(call.path["job_id"], who=call.caller.who, why=call.body.why)
    return await _find(call)


async def cancel_series(call: Call[Order, Nothing]) -> SeriesDetail:
    """End a series and cancel its running job. Returns the series as it was."""
    before = await _find(call)
    rail = call.context.rail(call.caller.tenant)
    await rail.cancel(call.path["job_id"], who=call.caller.who, why=call.body.why)
    return before


async def preview_rule(call: Call[PreviewOrder, Nothing]) -> Preview:
    """Show the next occurrences of a rule, with notes on DST changes."""
    fields = msgspec.structs.asdict(call.body.recurrence)
    recurrence, _ = read_recurrence(fields, call.context.clock.now())
    return await call_in_thread(
        lambda: preview_series(recurrence, recurrence.start, call.body.count)
    )


async def _find(call: Call[Any, Any]) -> SeriesDetail:
    context, named = call.context, call.path["job_id"]
    return await find_series(context.store, call.caller.tenant, named, context.clock.now())


_CHANGED = (404, 409)

ROUTES: tuple[Route, ...] = (
    route("GET", SERIES, list_all_series, Scope.READ, "series"),
    route("POST", f"{SERIES}/preview", preview_rule, Scope.READ, "series"),
    route("GET", ONE_SERIES, get_series, Scope.READ, "series", errors=(404,)),
    route("POST", f"{ONE_SERIES}/pause", pause_series, Scope.OPERATE, "series", errors=_CHANGED),
    route("POST", f"{ONE_SERIES}/resume", resume_series, Scope.OPERATE, "series", errors=_CHANGED),
    route(
        "POST", f"{ONE_SERIES}/run-now", run_series_now, Scope.OPERATE, "series", errors=_CHANGED
    ),
    route("POST", f"{ONE_SERIES}/cancel", cancel_series, Scope.OPERATE, "series", errors=_CHANGED),
)
