"""The list of jobs, with filters and text search."""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from starlette.responses import Response

from rota.errors import InvalidRequestError
from rota.jobs import JobFilter, JobStatus
from rota.ops.search import search_jobs
from rota.search.query import JobQuery
from rota.server.pages.responses import render_page
from rota.server.pages.statuses import make_rows
from rota.server.pages.visit import Visit, write_query

MOST_SHOWN = 50
AGES = {
    "": ("at any time", None),
    "1h": ("in the last hour", timedelta(hours=1)),
    "1d": ("in the last day", timedelta(days=1)),
    "7d": ("in the last week", timedelta(days=7)),
}


class ChosenJobs(NamedTuple):
    """The filters in the address."""

    text: str = ""
    status: str = ""
    queue: str = ""
    since: str = ""

    @property
    def is_narrow(self) -> bool:
        return any(self)

    @property
    def query(self) -> str:
        """The filters as a query string."""
        return write_query(self.as_query()).removeprefix("?")

    def as_query(self) -> dict[str, object]:
        return {"q": self.text, "status": self.status, "queue": self.queue, "since": self.since}

    def as_search(self, visit: Visit) -> JobQuery:
        length = AGES[self.since][1]
        wanted = JobFilter(
            queue=self.queue or None,
            status=JobStatus(self.status) if self.status else None,
            created_after=None if length is None else visit.now - length,
        )
        return JobQuery(text=self.text or None, wanted=wanted)


async def show_jobs(visit: Visit) -> Response:
    chosen = read_choice(visit.request.query_params)
    cursor = visit.ask("cursor") or None
    store = visit.context.store
    page = await search_jobs(
        store, visit.tenant, chosen.as_search(visit), cursor=cursor, limit=MOST_SHOWN
    )
    here = chosen.as_query()
    older = visit.link("jobs", **here, cursor=page.next_cursor) if page.next_cursor else None
    depths = [] if visit.is_refresh else await store.survey(visit.now, visit.tenant)
    return render_page(
        visit,
        "jobs.html",
        page="jobs",
        chosen=chosen,
        cursor=cursor,
        statuses=[str(each) for each in JobStatus],
        queues=[depth.queue for depth in depths],
        ages=[(value, label) for value, (label, _) in AGES.items()],
        rows=make_rows(page.items, visit.now),
        older=older,
        newest=visit.link("jobs", **here) if cursor else None,
        base=visit.base,
    )


def read_choice(given: Mapping[str, str]) -> ChosenJobs:
    """Read the filters. InvalidRequestError names a filter that is not valid."""
    status, since = given.get("status", ""), given.get("since", "")
    if status and status not in set(JobStatus):
        raise InvalidRequestError("status", f"must be one of {', '.join(JobStatus)}")
    if since not in AGES:
        raise InvalidRequestError("since", "must be 1h, 1d or 7d")
    return ChosenJobs(given.get("q", "").strip(), status, given.get("queue", "").strip(), since)
