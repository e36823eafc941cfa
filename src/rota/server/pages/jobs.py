"""The list of jobs, with filters and text search."""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from starlette.responses import Response

from rota.errors import InvalidRequestError
from rota.jobs import JobFilter, JobState, JobStatus, find_state
from rota.jobs.job_state import STATE_WORDS, parse_states
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
    state: str = ""
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
        return {"q": self.text, "state": self.state, "queue": self.queue, "since": self.since}

    def as_search(self, visit: Visit) -> JobQuery:
        length = AGES[self.since][1]
        wanted = JobFilter(
            queue=self.queue or None,
            status=self._find_status(),
            created_after=None if length is None else visit.now - length,
        )
        return JobQuery(text=self.text or None, wanted=wanted)

    def _find_status(self) -> JobStatus | None:
        """The one status of all chosen states."""
        found = {state.status for state in self.states}
        return found.pop() if len(found) == 1 else None

    @property
    def states(self) -> frozenset[JobState]:
        return parse_states([self.state] if self.state else [])


async def show_jobs(visit: Visit) -> Response:
    chosen = read_choice(visit.request.query_params)
    cursor = visit.ask("cursor") or None
    store, states = visit.context.store, chosen.states
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
        states=STATE_WORDS,
        queues=[depth.queue for depth in depths],
        ages=[(value, label) for value, (label, _) in AGES.items()],
        rows=make_rows(
            [it for it in page.items if not states or find_state(it, visit.now) in states],
            visit.now,
        ),
        older=older,
        newest=visit.link("jobs", **here) if cursor else None,
        base=visit.base,
    )


def read_choice(given: Mapping[str, str]) -> ChosenJobs:
    """Read the filters. InvalidRequestError names a filter that is not valid."""
    state, since = given.get("state", "").strip().lower(), given.get("since", "")
    parse_states([state] if state else [])
    if since not in AGES:
        raise InvalidRequestError("since", "must be 1h, 1d or 7d")
    return ChosenJobs(given.get("q", "").strip(), state, given.get("queue", "").strip(), since)
