"""Series: what recurs, when it does next, and pause, resume, run now, cancel."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.jobs.search import DEFAULT_LIMIT
from rota.jobs.validation import read_recurrence
from rota.ops.series import SeriesDetail, SeriesSummary, find_series, list_series
from rota.rail.jobs import Preview, preview_series
from rota.server.api.operating.word import Order, rail_of
from rota.server.api.shapes.limited import PageCursor, PageLimit
from rota.server.api.shapes.new_job import RecurrenceBody
from rota.server.api.views import Cursor
from rota.server.routing.route import Call, Nothing, Route

SERIES = "/api/v1/series"
ONE_SERIES = "/api/v1/series/{job_id}"

_MOST_SHOWN = 100


class SeriesSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of series is wanted."""

    cursor: PageCursor = None
    limit: PageLimit = DEFAULT_LIMIT


class SeriesList(msgspec.Struct, frozen=True):
    """A page of live series, by id."""

    items: tuple[SeriesSummary, ...]
    next_cursor: Cursor
    has_more: bool


class ResumeChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of the occurrence that was held back."""

    catch_up: Annotated[
        bool, Meta(description="Run the first one that was missed now; else go on with the next.")
    ] = False


class PreviewOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule to try out, and how many of its occurrences to show."""

    recurrence: RecurrenceBody
    count: Annotated[int, Meta(ge=1, le=_MOST_SHOWN)] = 5


async def list_all_series(call: Call[Nothing, SeriesSearch]) -> SeriesList:
    """List the live series: rule in words, next occurrences in local time and UTC, last run."""
    page = await list_series(
        call.around.store, call.caller.tenant, cursor=call.query.cursor, limit=call.query.limit
    )
    return SeriesList(page.items, page.next_cursor, page.has_more)


async def get_series(call: Call[Nothing, Nothing]) -> SeriesDetail:
    """Get one series, by its id or that of any job of it, with its last runs."""
    return await find_series(call.around.store, call.caller.tenant, call.path["job_id"])


async def pause_series(call: Call[Order, Nothing]) -> SeriesDetail:
    """Pause a series: what has begun is finished, and nothing begins until it is resumed."""
    await _look_again(call)
    await rail_of(call).pause(call.path["job_id"], who=call.caller.who, why=call.body.why)
    return await _look_again(call)


async def resume_series(call: Call[Order, ResumeChoice]) -> SeriesDetail:
    """Let a paused series go on."""
    await _look_again(call)
    await rail_of(call).resume(
        call.path["job_id"],
        catch_up=call.query.catch_up,
        who=call.caller.who,
        why=call.body.why,
    )
    return await _look_again(call)


async def run_series_now(call: Call[Order, Nothing]) -> SeriesDetail:
    """Let the next occurrence of a series run now; it goes on afterwards as if it had waited."""
    await _look_again(call)
    await rail_of(call).run_now(call.path["job_id"], who=call.caller.who, why=call.body.why)
    return await _look_again(call)


async def cancel_series(call: Call[Order, Nothing]) -> SeriesDetail:
    """End a series for good; what runs is cut short. Answers with the series as it was."""
    before = await _look_again(call)
    await rail_of(call).cancel(call.path["job_id"], who=call.caller.who, why=call.body.why)
    return before


async def preview_rule(call: Call[PreviewOrder, Nothing]) -> Preview:
    """Show when a rule would occur, with what the changes of the clocks do to it."""
    count = call.body.count
    fields = msgspec.structs.asdict(call.body.recurrence)
    recurrence, _ = read_recurrence(fields, call.around.clock.now())
    return preview_series(recurrence, recurrence.start, count)


async def _look_again(
    call: Call[Order, Nothing] | Call[Order, ResumeChoice],
) -> SeriesDetail:
    """The series as it is now."""
    return await find_series(call.around.store, call.caller.tenant, call.path["job_id"])


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=SERIES,
        handler=list_all_series,
        scope=Scope.READ,
        tag="series",
        query=SeriesSearch,
        answers={200: SeriesList},
    ),
    Route(
        method="POST",
        path=f"{SERIES}/preview",
        handler=preview_rule,
        scope=Scope.READ,
        tag="series",
        body=PreviewOrder,
        answers={200: Preview},
    ),
    Route(
        method="GET",
        path=ONE_SERIES,
        handler=get_series,
        scope=Scope.READ,
        tag="series",
        answers={200: SeriesDetail},
        errors=(404,),
    ),
    Route(
        method="POST",
        path=f"{ONE_SERIES}/pause",
        handler=pause_series,
        scope=Scope.OPERATE,
        tag="series",
        body=Order,
        answers={200: SeriesDetail},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path=f"{ONE_SERIES}/resume",
        handler=resume_series,
        scope=Scope.OPERATE,
        tag="series",
        body=Order,
        query=ResumeChoice,
        answers={200: SeriesDetail},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path=f"{ONE_SERIES}/run-now",
        handler=run_series_now,
        scope=Scope.OPERATE,
        tag="series",
        body=Order,
        answers={200: SeriesDetail},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path=f"{ONE_SERIES}/cancel",
        handler=cancel_series,
        scope=Scope.OPERATE,
        tag="series",
        body=Order,
        answers={200: SeriesDetail},
        errors=(404, 409),
    ),
)
