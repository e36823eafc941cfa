"""The list of jobs: search, states with counts, filters, order and views."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace
from starlette.responses import Response

from rota.errors import InvalidInputError, InvalidRequestError
from rota.jobs import JobFilter, JobState
from rota.jobs.job_state import parse_states
from rota.ops.job_counts import StateCounts, count_states
from rota.ops.search import SearchPage, Suggestion, search_jobs, suggest
from rota.search.query import LONGEST_TEXT, SORTS, JobQuery, add_state, drop_tenant, parse_query
from rota.server.http.guards import HOME
from rota.server.pages.responses import render_page, render_part, stream_page
from rota.server.pages.visit import Chosen, Visit, link_pages, write_query

MOST_SHOWN = 25
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

HINTS = (
    ("welcome", "the beginning of a word of the name or kind, of an id or of a key"),
    (
        "kind:mail.send  kind:mail*",
        "a kind, or all kinds with this beginning; also queue: name: key: id:",
    ),
    ("error:Timeout", "a word or the code of the last error"),
    ("payload.order=7", "a value in the payload"),
    ("state:dead,discarded", "one state, or one of several"),
    ("priority:7  priority:7..  priority:2..5", "a priority, or a range of them"),
    ("created:2h..", "created 2 hours ago or later"),
    ("created:..7d", "created more than 7 days ago"),
    ("created:2026-05-01  created:2026-05-01..2026-05-03", "created on a day, or on several"),
    ("due:..now  due:now..+1h", "due by now, or in the next hour"),
    ("sort:duration  tenant:acme", "another order; another tenant"),
)
"""What can be typed, and what it finds. A time without an offset is in the zone of the pages."""

USUAL = frozenset(
    {
        JobState.SCHEDULED,
        JobState.RETRYING,
        JobState.DUE,
        JobState.RUNNING,
        JobState.COMPLETED,
        JobState.DEAD,
    }
)
"""The states that always have a tab."""


class ChosenJobs(Chosen, frozen=True, rename={"text": "q"}):
    """The filters in the address. With ``scan`` the search reads every job, without the index."""

    text: str = ""
    state: str = ""
    queue: str = ""
    since: str = ""
    sort: str = ""
    scan: str = ""

    def as_search(self, visit: Visit) -> JobQuery:
        length = AGES[self.since][1]
        wanted = JobFilter(
            queue=self.queue or None, created_after=None if length is None else visit.now - length
        )
        query = parse_query(self.text, visit.now.astimezone(visit.shown_zone)).within(wanted)
        if self.state:
            query = add_state(query, self.state)
        sort = next((each for each in SORTS if each == self.sort), query.sort)
        return replace(query, sort=sort, looks_at_all=bool(self.scan))


class StateTab(NamedTuple):
    """The matching jobs in one state: how many, if known, and the link to them."""

    word: str
    link: str
    is_chosen: bool
    number: int | None = None
    has_more: bool = False


async def show_jobs(visit: Visit) -> Response:
    chosen = read_choice(visit.request.query_params)
    query, problem = _read_query(chosen, visit)
    if problem:
        values = _describe(visit, chosen, problem, SearchPage(()))
        return await render_page(visit, "jobs.html", status=400, **values)
    return await stream_page(visit, "jobs.html", lambda: _read(visit, chosen, query))


async def _read(visit: Visit, chosen: ChosenJobs, query: JobQuery) -> dict[str, Any]:
    other_tenant = _name_other_tenant(query, visit)
    if other_tenant:
        return _describe(visit, chosen, "", SearchPage(()), other_tenant)
    page, problem = await _search(visit, query)
    return _describe(visit, chosen, problem, page)


def _describe(
    visit: Visit, chosen: ChosenJobs, problem: str, page: SearchPage, other_tenant: str = ""
) -> dict[str, Any]:
    """What the template shows."""
    here = chosen.as_query()
    return {
        "chosen": chosen,
        "cursor": visit.cursor,
        "problem": problem,
        "other_tenant": other_tenant,
        "other_search": f"{HOME}/jobs{write_query({'q': drop_tenant(chosen.text)})}",
        "hints": HINTS,
        "progress": page.progress,
        "most_shown": MOST_SHOWN,
        "tabs": _list_tabs(chosen, visit),
        "counts_link": visit.link("jobs", "counts", **here),
        "all_link": visit.link("jobs", **{**here, "state": ""}),
        "states": list(dict.fromkeys([*JobState, *filter(None, [chosen.state])])),
        "ages": [(value, label) for value, (label, _) in AGES.items()],
        "orders": ORDERS,
        "views": [(name, visit.link("jobs", **wanted)) for name, wanted in VIEWS.items()],
        "rows": page.items,
        **link_pages(visit, "jobs", page.next_cursor, **here),
        "scan_link": visit.link("jobs", **{**here, "scan": "yes"}),
        "base": visit.base,
    }


def _name_other_tenant(query: JobQuery, visit: Visit) -> str:
    """The tenant that the query asks for, if the person may look at it and is not doing so."""
    named = query.wanted.tenant
    if named in (None, visit.tenant) or not visit.runs_installation:
        return ""
    return str(named)


async def suggest_queues(visit: Visit) -> Response:
    """Options for the field of the queue."""
    depths = await visit.cached("depths", lambda: visit.store.survey(visit.now, visit.tenant))
    found = [Suggestion(it.queue, it.queue, "queue", it.due_count) for it in depths]
    return render_part(visit, "parts/suggestions.html", found=found)


async def suggest_searches(visit: Visit) -> Response:
    """Options for the search box, each of them the whole text."""
    try:
        found = await suggest(visit.store, visit.tenant, visit.ask("q")[:LONGEST_TEXT])
    except InvalidInputError:
        found = []
    return render_part(visit, "parts/suggestions.html", found=found)


def read_choice(given: Mapping[str, str]) -> ChosenJobs:
    """Read the filters. InvalidRequestError names a filter that is not valid."""
    chosen = ChosenJobs.read(given)
    if chosen.state:
        parse_states(chosen.state)
    if chosen.since not in AGES:
        raise InvalidRequestError("since", "must be 1h, 1d or 7d")
    if chosen.sort and chosen.sort not in SORTS:
        raise InvalidRequestError("sort", f"must be one of {', '.join(SORTS)}")
    return chosen


def _read_query(chosen: ChosenJobs, visit: Visit) -> tuple[JobQuery, str]:
    """The query, and what is wrong with the text that was typed."""
    try:
        query = chosen.as_search(visit)
        if not _name_other_tenant(query, visit):
            query.check_tenant(visit.tenant)
    except InvalidInputError as error:
        return replace(chosen, text="").as_search(visit), error.message
    return query, ""


async def _search(visit: Visit, query: JobQuery) -> tuple[SearchPage, str]:
    """The page. If too many jobs match to be sorted: the newest first, and why."""

    async def find(wanted: JobQuery) -> SearchPage:
        return await search_jobs(
            visit.store, visit.tenant, wanted, cursor=visit.cursor, limit=MOST_SHOWN
        )

    try:
        return await find(query), ""
    except InvalidInputError as error:
        if error.details.get("field") != "sort":
            raise
        return await find(replace(query, sort="newest")), error.message


async def show_counts(visit: Visit) -> Response:
    """The tabs with their counts, which the page requests once it is shown."""
    chosen = read_choice(visit.request.query_params)
    query, problem = _read_query(chosen, visit)
    is_other = query.wanted.tenant not in (None, visit.tenant)
    counts = None if problem or is_other else await _count(visit, chosen, query)
    return render_part(
        visit,
        "parts/state_tabs.html",
        tabs=_list_tabs(chosen, visit, counts),
        all_link=visit.link("jobs", **{**chosen.as_query(), "state": ""}),
        chosen=chosen,
    )


async def _count(visit: Visit, chosen: ChosenJobs, query: JobQuery) -> StateCounts:
    """The counts, for a while from memory if they take long."""
    same = replace(chosen, state="", sort="").query
    return await visit.cached(
        f"states {visit.shown_zone} {same}",
        lambda: count_states(visit.store, visit.tenant, query, visit.now),
    )


def _list_tabs(
    chosen: ChosenJobs, visit: Visit, counts: StateCounts | None = None
) -> list[StateTab]:
    """The usual states, those that jobs are in, and the chosen ones."""
    states = parse_states(chosen.state) if chosen.state else frozenset()
    numbers = {} if counts is None else counts.counts
    more = () if counts is None else counts.at_least
    return [
        StateTab(
            state,
            visit.link("jobs", **{**chosen.as_query(), "state": state}),
            state in states,
            numbers.get(state) if numbers.get(state) or state not in more else None,
            state in more,
        )
        for state in JobState
        if state in states or state in USUAL or numbers.get(state)
    ]
