"""The list of jobs: search, states with counts, filters, order and views."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from msgspec.structs import replace
from starlette.responses import HTMLResponse, Response

from rota.errors import InvalidInputError, InvalidRequestError
from rota.jobs import JobFilter, JobStatus
from rota.jobs.job_state import STATE_WORDS, parse_states
from rota.ops.search import (
    MOST_COUNTED,
    SearchPage,
    StateCounts,
    Suggestion,
    count_states,
    search_jobs,
    suggest,
)
from rota.search.query import LONGEST_TEXT, SORTS, JobQuery, add_state, parse_query
from rota.server.pages.responses import render_page
from rota.server.pages.statuses import make_rows
from rota.server.pages.templates import load_templates
from rota.server.pages.visit import Visit, write_query

MOST_SHOWN = 50
AGES = {
    "": ("at any time", None),
    "1h": ("in the last hour", timedelta(hours=1)),
    "1d": ("in the last day", timedelta(days=1)),
    "7d": ("in the last week", timedelta(days=7)),
}
ORDERS = {
    "newest": "newest first",
    "oldest": "oldest first",
    "due": "due first",
    "duration": "longest first",
}
VIEWS = {
    "Late": {"state": "due", "sort": "due"},
    "Retrying": {"state": "retrying"},
    "Held back": {"state": "held"},
    "Stalled": {"state": "stalled"},
    "Slow today": {"state": "completed", "since": "1d", "sort": "duration"},
}
"""Filters that operators ask for again and again."""


class ChosenJobs(NamedTuple):
    """The filters in the address. With ``scan`` the search reads every job, without the index."""

    text: str = ""
    state: str = ""
    queue: str = ""
    since: str = ""
    sort: str = ""
    scan: str = ""

    @property
    def is_narrow(self) -> bool:
        return any(self)

    @property
    def query(self) -> str:
        """The filters as a query string."""
        return write_query(self.as_query()).removeprefix("?")

    def as_query(self) -> dict[str, object]:
        return {
            "q": self.text,
            "state": self.state,
            "queue": self.queue,
            "since": self.since,
            "sort": self.sort,
            "scan": self.scan,
        }

    def as_search(self, visit: Visit) -> JobQuery:
        length = AGES[self.since][1]
        wanted = JobFilter(
            queue=self.queue or None,
            created_after=None if length is None else visit.now - length,
        )
        query = parse_query(self.text, visit.now).within(wanted)
        if self.state:
            query = add_state(query, self.state)
        sort = next((each for each in SORTS if each == self.sort), query.sort)
        return replace(query, sort=sort, looks_at_all=bool(self.scan))


class StateTab(NamedTuple):
    """The matching jobs of one status: how many there are, and the link to them."""

    word: str
    number: int
    has_more: bool
    link: str
    is_chosen: bool


async def show_jobs(visit: Visit) -> Response:
    chosen = read_choice(visit.request.query_params)
    cursor = visit.ask("cursor") or None
    query, problem = _read_query(chosen, visit)
    page = SearchPage(())
    if not problem:
        page, problem = await _search(visit, query, cursor)
    here = chosen.as_query()
    counts = await _count(visit, chosen, query)
    response = render_page(
        visit,
        "jobs.html",
        page="jobs",
        chosen=chosen,
        cursor=cursor,
        problem=problem,
        progress=page.progress,
        tabs=_list_tabs(counts, chosen, visit),
        all_link=visit.link("jobs", **{**here, "state": ""}),
        states=STATE_WORDS,
        ages=[(value, label) for value, (label, _) in AGES.items()],
        orders=ORDERS,
        views=[(name, visit.link("jobs", **wanted)) for name, wanted in VIEWS.items()],
        rows=make_rows(page.items, visit.now),
        older=visit.link("jobs", **here, cursor=page.next_cursor) if page.next_cursor else None,
        newest=visit.link("jobs", **here) if cursor else None,
        scan_link=visit.link("jobs", **{**here, "scan": "yes"}),
        base=visit.base,
    )
    response.status_code = 400 if problem and not page.items else 200
    return response


async def suggest_queues(visit: Visit) -> Response:
    """Options for the field of the queue."""
    depths = await visit.cached(
        "depths", lambda: visit.context.store.survey(visit.now, visit.tenant)
    )
    return _send_options([Suggestion(it.queue, it.queue, "queue", it.due_count) for it in depths])


async def suggest_searches(visit: Visit) -> Response:
    """Options for the search box, each of them the whole text."""
    try:
        found = await suggest(visit.context.store, visit.tenant, visit.ask("q")[:LONGEST_TEXT])
    except InvalidInputError:
        found = []
    return _send_options(found)


def _send_options(found: Sequence[Suggestion]) -> Response:
    text = load_templates().get_template("parts/suggestions.html").render(found=found)
    return HTMLResponse(text, headers={"Cache-Control": "no-store"})


def read_choice(given: Mapping[str, str]) -> ChosenJobs:
    """Read the filters. InvalidRequestError names a filter that is not valid."""
    names = ("q", "state", "queue", "since", "sort", "scan")
    chosen = ChosenJobs(*(given.get(name, "").strip() for name in names))
    if chosen.state:
        parse_states([chosen.state])
    if chosen.since not in AGES:
        raise InvalidRequestError("since", "must be 1h, 1d or 7d")
    if chosen.sort and chosen.sort not in SORTS:
        raise InvalidRequestError("sort", f"must be one of {', '.join(SORTS)}")
    return chosen


def _read_query(chosen: ChosenJobs, visit: Visit) -> tuple[JobQuery, str]:
    """The query, and what is wrong with the text that was typed."""
    try:
        return chosen.as_search(visit), ""
    except InvalidInputError as error:
        return chosen._replace(text="").as_search(visit), error.message


async def _search(visit: Visit, query: JobQuery, cursor: str | None) -> tuple[SearchPage, str]:
    """The page. If too many jobs match to be sorted: the newest first, and why."""

    async def find(wanted: JobQuery) -> SearchPage:
        store = visit.context.store
        return await search_jobs(store, visit.tenant, wanted, cursor=cursor, limit=MOST_SHOWN)

    try:
        return await find(query), ""
    except InvalidInputError as error:
        if error.details.get("field") != "sort":
            raise
        return await find(replace(query, sort="newest")), error.message


async def _count(visit: Visit, chosen: ChosenJobs, query: JobQuery) -> StateCounts:
    """The counts, for a while from memory if they take long."""
    same = chosen._replace(state="", sort="").query
    return await visit.cached(
        f"states {same}", lambda: count_states(visit.context.store, visit.tenant, query)
    )


def _list_tabs(counts: StateCounts, chosen: ChosenJobs, visit: Visit) -> list[StateTab]:
    states = parse_states([chosen.state]) if chosen.state else frozenset()
    return [
        StateTab(
            status.lower(),
            counts.counts[status],
            counts.is_capped and counts.counts[status] >= MOST_COUNTED,
            visit.link("jobs", **{**chosen.as_query(), "state": status.lower()}),
            bool(states) and {state.status for state in states} == {status},
        )
        for status in JobStatus
    ]
