"""Counts the jobs that match a search, by state."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

from rota.jobs import Job, JobFilter, JobState, JobStatus, find_state
from rota.jobs.job_state import STATES_OF
from rota.jobs.search import HIGHEST_LIMIT
from rota.rail.jobs import RailStore
from rota.search.lookup import Lookup, count_indexed, find_in, open_index
from rota.search.query import JobQuery

MOST_COUNTED = 1_000

SAMPLED = 300
"""How many jobs are read to estimate the states where the numbers cannot be exact."""

SURELY_MANY = 1_500
"""The candidates in the index from which on there are ``MOST_COUNTED`` matches.

Not every candidate is one: some jobs have been removed since, and few only seem to match.
"""


class StateCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many matching jobs are in each state. Of the states in ``at_least`` there may be more."""

    counts: Mapping[JobState, int]
    at_least: tuple[JobState, ...] = ()


async def count_states(
    store: RailStore, tenant: str, query: JobQuery, now: datetime
) -> StateCounts:
    """Count the matches in each state, whatever state the query asks for.

    Counts are exact up to 1,000. Of a status with more jobs, some of the newest are looked at.
    """
    query.check_tenant(tenant)
    wanted = replace(query.wanted, status=None)
    query = replace(query, wanted=wanted, states=frozenset(), sort="newest")
    count = _Count(store, tenant, query, now)
    if query.is_plain:
        await count.ask_store()
    else:
        await count.search()
    return count.report()


class _Count:
    """One count: the numbers so far, and the states of which there may be more jobs."""

    def __init__(self, store: RailStore, tenant: str, query: JobQuery, now: datetime) -> None:
        self._store = store
        self._tenant = tenant
        self._query = query
        self._now = now
        self._counts: Counter[JobState] = Counter()
        self._at_least: set[JobState] = set()

    def report(self) -> StateCounts:
        counts = {state: min(self._counts[state], MOST_COUNTED) for state in JobState}
        more = self._at_least | {it for it in JobState if self._counts[it] > MOST_COUNTED}
        return StateCounts(counts=counts, at_least=tuple(it for it in JobState if it in more))

    async def ask_store(self) -> None:
        """What the store knows by itself; jobs are read only to find their states."""
        for status in (JobStatus.PENDING, JobStatus.COMPLETED, JobStatus.BLOCKED):
            self._put(min(STATES_OF[status]), await self._count(status))
        own = self._query.wanted
        if own == JobFilter(tenant=own.tenant, queue=own.queue):
            await self._ask_survey(own.queue)
            return
        for status in (JobStatus.READY, JobStatus.RUNNING, JobStatus.FAILED):
            await self._read(status, MOST_COUNTED)

    async def _ask_survey(self, queue: str | None) -> None:
        """A survey knows the numbers of some states, however many jobs there are."""
        depths = await self._store.survey(self._now, self._tenant)
        due, later, running, stalled, dead = (
            sum(getattr(it, f"{name}_count") for it in depths if queue in (None, it.queue))
            for name in ("due", "later", "running", "stalled", "dead")
        )
        if later:
            await self._read(JobStatus.READY, MOST_COUNTED if later <= MOST_COUNTED else SAMPLED)
        failed = await self._count(JobStatus.FAILED)
        if dead < failed or failed > MOST_COUNTED:
            await self._read(JobStatus.FAILED, MOST_COUNTED if failed <= MOST_COUNTED else SAMPLED)
        self._put(JobState.DUE, due)
        self._put(JobState.RUNNING, running - stalled)
        self._put(JobState.STALLED, stalled)
        self._put(JobState.DEAD, dead)

    async def search(self) -> None:
        """Search once for few matches. Where most are COMPLETED, the index knows their number."""
        lookup = await open_index(self._store, self._tenant)
        indexed = await count_indexed(lookup, self._query)
        completed = frozenset({JobState.COMPLETED})
        if sum(indexed.values()) <= SURELY_MANY:
            await self._search(lookup, frozenset(JobState))
            return
        if indexed[JobStatus.COMPLETED] > SURELY_MANY:
            self._put(JobState.COMPLETED, MOST_COUNTED + 1)
        else:
            await self._search(lookup, completed)
        await self._search(lookup, frozenset(JobState) - completed)

    async def _search(self, lookup: Lookup, states: frozenset[JobState]) -> None:
        wanted = frozenset() if states == frozenset(JobState) else states
        query = replace(self._query, states=wanted, as_of=self._now)
        found = await find_in(lookup, query, None, MOST_COUNTED)
        self._add(found.items, states, is_whole=found.last is None)

    async def _count(self, status: JobStatus) -> int:
        wanted = replace(self._query.wanted, status=status)
        return await self._store.count(self._tenant, wanted, MOST_COUNTED + 1)

    async def _read(self, status: JobStatus, most: int) -> None:
        """Count the states of the newest jobs in a status."""
        wanted, cursor = replace(self._query.wanted, status=status), None
        for _ in range(-(-most // HIGHEST_LIMIT)):
            page = await self._store.find(self._tenant, wanted, cursor, HIGHEST_LIMIT)
            self._add(page.items, (), is_whole=True)
            cursor = page.next_cursor
            if cursor is None:
                return
        self._add((), STATES_OF[status], is_whole=False)

    def _add(self, jobs: Iterable[Job], states: Collection[JobState], *, is_whole: bool) -> None:
        self._counts.update(find_state(job, self._now) for job in jobs)
        self._at_least.update(() if is_whole else states)

    def _put(self, state: JobState, number: int) -> None:
        self._counts[state] = number
        self._at_least.discard(state)
