"""Looking for jobs by text and kind, besides the filters of specification 5."""

from typing import Annotated

from msgspec import Meta

from rota.auth.caller import Scope
from rota.ops.search import JobQuery, search_jobs
from rota.server.api.jobs import JOBS, JobSearch, read_filter
from rota.server.api.shapes.limited import SearchText
from rota.server.api.views import JobPage, view_jobs
from rota.server.routing.route import Call, Nothing, Route


class TextSearch(JobSearch, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are wanted: those that fit everything that is said."""

    text: Annotated[
        SearchText | None,
        Meta(description="The id of a job, or part of its name or kind in whatever case."),
    ] = None
    kind: Annotated[SearchText | None, Meta(description="The jobs of this kind.")] = None


async def look_for_jobs(call: Call[Nothing, TextSearch]) -> JobPage:
    """Look for jobs by text or kind, the newest first.

    One request looks at 5,000 jobs at most. A page may therefore hold fewer than were asked for,
    even none, and still name a next one.
    """
    asked = call.query
    query = JobQuery(text=asked.text, kind=asked.kind, wanted=read_filter(asked))
    page = await search_jobs(
        call.around.store, call.caller.tenant, query, cursor=asked.cursor, limit=asked.limit
    )
    return JobPage(view_jobs(page.items), page.next_cursor, page.has_more)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=f"{JOBS}/search",
        handler=look_for_jobs,
        scope=Scope.READ,
        tag="jobs",
        query=TextSearch,
        answers={200: JobPage},
    ),
)
