"""Finds jobs that match a query: from the index where it covers them, otherwise by a walk."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from rota.jobs import Job, JobStatus, encode_cursor
from rota.jobs.search import HIGHEST_LIMIT
from rota.search.index import (
    Candidates,
    CoveredRange,
    IndexChangedError,
    IndexState,
    Parts,
    SearchedStore,
    count_candidates,
    find_candidates,
    list_gaps,
    read_state,
)
from rota.search.query import JobQuery
from rota.search.segments import Place, count_micros, place_of
from rota.search.terms import OPEN, QUEUE, STATUS, Clause, TermRange

MOST_LOOKED_AT = 2_000
"""The number of jobs that one call reads."""

READ_AT_ONCE = 500
FEW = 10
"""The number of jobs that are read at once where more are rarely needed."""

_MOST_CHANGES = 3
_LAST_ID = "\U0010ffff"


class Found(NamedTuple):
    """Matches, newest first, and the last place looked at; None: all places.

    ``share`` is the part of all jobs that is before it; None when it is not known.
    """

    items: list[Job]
    last: Place | None
    share: float | None = None


class Lookup(NamedTuple):
    """The index of a tenant as it was at the first search. Further ones read less of it."""

    store: SearchedStore
    tenant: str
    state: IndexState
    parts: Parts


async def open_index(store: SearchedStore, tenant: str) -> Lookup:
    state = (await read_state(store, tenant)).state
    return Lookup(store, tenant, state, Parts(store, tenant))


async def find_matches(
    store: SearchedStore, tenant: str, query: JobQuery, after: Place | None, limit: int
) -> Found:
    """The first matches behind a place, as far as one call looks."""
    return await find_in(await open_index(store, tenant), query, after, limit)


async def find_in(lookup: Lookup, query: JobQuery, after: Place | None, limit: int) -> Found:
    """As ``find_matches``, in an index that is open."""
    for _ in range(_MOST_CHANGES):
        try:
            return await _find(_Search(*lookup[:2], query, limit), lookup, after)
        except IndexChangedError:
            lookup = await open_index(lookup.store, lookup.tenant)
    return await _find(
        _Search(*lookup[:2], query, limit), lookup._replace(state=IndexState()), after
    )


async def count_indexed(lookup: Lookup, query: JobQuery) -> dict[JobStatus | None, int]:
    """About how many indexed jobs match, by the status in which they ended; None: not ended.

    Nothing if the index alone does not decide what matches.
    """
    clauses = _Search(*lookup[:2], query, 0).list_clauses()
    if not clauses or query.looks_at_all or not query.is_of_terms:
        return {}
    terms = {STATUS + it.lower(): it for it in JobStatus if it.is_terminal}
    try:
        found = await count_candidates(lookup.parts, lookup.state, clauses, [*terms, OPEN])
    except IndexChangedError:
        return {}
    return {terms.get(term): number for term, number in found.items()}


async def _find(search: "_Search", lookup: Lookup, after: Place | None) -> Found:
    after, state = search.skip_to(after), lookup.state
    if not state.ranges or search.query.looks_at_all or not search.query.all_clauses:
        await search.walk(after, None)
        return search.report(state)
    candidates = await find_candidates(lookup.parts, state, search.list_clauses(), after)
    if await search.is_walk_shorter(candidates.count):
        await search.walk(after, None)
        return search.report(state)
    for section in _list_sections(state, after):
        if section.is_covered:
            await search.verify(candidates, section.until)
        else:
            await search.walk(section.after, section.until)
        if search.is_over:
            break
    return search.report(state)


class _Section(NamedTuple):
    """Places that the index covers, or does not; None for the ends."""

    after: Place | None
    until: Place | None
    is_covered: bool = False


def _list_sections(state: IndexState, after: Place | None) -> Iterator[_Section]:
    """The sections behind a place, newest first."""
    gaps = list(list_gaps(state.ranges))
    for at, gap in enumerate(gaps):
        yield from _behind(after, _Section(gap.after, gap.until))
        if at < len(state.ranges):
            covered: CoveredRange = state.ranges[at]
            yield from _behind(after, _Section(covered.newest, covered.oldest, is_covered=True))


def _behind(after: Place | None, section: _Section) -> Iterator[_Section]:
    if after is None or section.until is None or section.until > after:
        starts = [place for place in (after, section.after) if place is not None]
        yield section._replace(after=max(starts) if starts else None)


class _Search:
    """One call: what it has found, how far it has come, and how many jobs it has read."""

    def __init__(self, store: SearchedStore, tenant: str, query: JobQuery, limit: int) -> None:
        self.store = store
        self.tenant = tenant
        self.query = query
        self.is_over = False
        self._wanted = replace(query.wanted, tenant=tenant)
        self._limit = limit
        self._found: list[Job] = []
        self._last: Place | None = None
        self._left = MOST_LOOKED_AT

    def list_clauses(self) -> list[Clause]:
        """All that the index can decide.

        A job that was open when it was indexed may have ended since, with an error or without.
        """
        clauses = [
            Clause((*each.ranges, TermRange(OPEN))) if each.is_of_errors else each
            for each in self.query.all_clauses
        ]
        statuses = self._list_statuses()
        if statuses:
            ended = (TermRange(STATUS + it.lower()) for it in statuses if it.is_terminal)
            clauses.append(Clause((*ended, TermRange(OPEN))))
        if self._wanted.queue is not None:
            clauses.append(Clause((TermRange(QUEUE + self._wanted.queue),)))
        return clauses

    def _list_statuses(self) -> list[JobStatus]:
        """The statuses that the query asks for; none if it asks for any."""
        if self._wanted.status is not None:
            return [self._wanted.status]
        asked = {state.status for state in self.query.states}
        return [status for status in JobStatus if status in asked]

    def skip_to(self, after: Place | None) -> Place | None:
        """The place from which on jobs can match."""
        before = self._wanted.created_before
        if before is None:
            return after
        first = Place(count_micros(before), _LAST_ID)
        return first if after is None else max(first, after)

    async def is_walk_shorter(self, candidate_count: int) -> bool:
        """Whether the store's own lists have fewer jobs to read than the index names."""
        status = self._wanted.status
        if candidate_count <= MOST_LOOKED_AT or status in (None, JobStatus.COMPLETED):
            return False
        count = await self.store.count(self.tenant, self._wanted, MOST_LOOKED_AT + 1)
        return count <= MOST_LOOKED_AT

    async def walk(self, after: Place | None, until: Place | None) -> None:
        """Look at the jobs between two places, as the store lists them."""
        cursor = None if after is None else encode_cursor(after.created_at, after.job_id)
        length = HIGHEST_LIMIT if until is None else FEW
        while not self.is_over:
            page = await self.store.find(self.tenant, self._wanted, cursor, length)
            length = HIGHEST_LIMIT
            for job in page.items:
                if until is not None and place_of(job) >= until:
                    return
                self._look_at(job)
            cursor = page.next_cursor
            if cursor is None:  # no older job matches the filter
                self._finish()

    async def verify(self, candidates: Candidates, until: Place | None) -> None:
        """Look at the candidates up to a place."""
        while not self.is_over:
            most = max(self._limit + 1 - len(self._found), FEW)
            places = await candidates.take(min(most, READ_AT_ONCE, self._left), until)
            if not places:
                break
            found = await self.store.get(self.tenant, [place.job_id for place in places])
            for place in places:
                job = found.get(place.job_id)
                if job is not None:
                    self._look_at(job, is_filtered=False)
                self._note(place)
        if until is None:
            self._finish()

    def _look_at(self, job: Job, *, is_filtered: bool = True) -> None:
        if self.is_over:
            return
        is_match = (is_filtered or self._wanted.accepts(job)) and self.query.accepts(job)
        if is_match and len(self._found) == self._limit:  # there is another page
            self.is_over = True
            return
        if is_match:
            self._found.append(job)
        if is_filtered:
            self._note(place_of(job))

    def _note(self, place: Place) -> None:
        if self.is_over:
            return
        self._last = place
        self._left -= 1
        if self._left <= 0:
            self.is_over = True
        elif self._is_too_old(place):
            self._finish()

    def _is_too_old(self, place: Place) -> bool:
        after = self._wanted.created_after
        return after is not None and place.age > count_micros(after)

    def _finish(self) -> None:
        if not self.is_over:
            self.is_over, self._last = True, None

    def report(self, state: IndexState) -> Found:
        if self._last is None:
            return Found(self._found, None, 1.0)
        share = state.share_before(self._last) if state.segments else None
        return Found(self._found, self._last, share)
