"""Lists of a tenant's jobs by specification 3's states."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import Job, JobFilter, JobStatus, check_limit, encode_cursor, rail_word
from rota.jobs.listing.search import HIGHEST_LIMIT, listing_key
from rota.jobs.states import RailWord
from rota.rail.surroundings import Surroundings
from rota.rail.view import RailJob, view_job

STATUSES: dict[RailWord, tuple[JobStatus, ...]] = {
    "queued": (JobStatus.PENDING, JobStatus.READY),
    "processing": (JobStatus.RUNNING,),
    "done": (JobStatus.COMPLETED,),
    "failed": (JobStatus.FAILED, JobStatus.BLOCKED),
    "dlq": (JobStatus.FAILED,),
}
"""Which statuses a job of that state may have; those of FAILED differ by how they ended."""


class RailPage(msgspec.Struct, frozen=True):
    """One page of a list, the newest first; without a ``next_cursor`` it is the last."""

    items: tuple[RailJob, ...]
    next_cursor: str | None


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are wanted: those in this state that pass, and then what ``sift`` leaves of them.

    ``sift`` may ask the store about many at once.
    """

    state: RailWord | None = None
    wanted: JobFilter = JobFilter()
    accepts: Callable[[Job], bool] = lambda _: True
    sift: Callable[[Sequence[Job]], Awaitable[Sequence[Job]]] | None = None

    def takes(self, job: Job) -> bool:
        is_in_state = self.state is None or rail_word(job.status, job.ending) == self.state
        return is_in_state and self.accepts(job)

    async def choose(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Those of them that are wanted, in their order."""
        taken = [job for job in jobs if self.takes(job)]
        return taken if self.sift is None or not taken else await self.sift(taken)


async def list_rail_jobs(
    around: Surroundings, search: Search, cursor: str | None, limit: int
) -> RailPage:
    found, next_cursor = await find_page(around, search, cursor, limit)
    return RailPage(tuple(view_job(job) for job in found), next_cursor)


async def find_page(
    around: Surroundings, search: Search, cursor: str | None, limit: int
) -> tuple[list[Job], str | None]:
    """Up to ``limit`` jobs from ``cursor`` on, and where to go on, if there is more.

    Looks at as many as it takes, page by page: where few of those in a status are wanted, the
    others are passed over here.
    """
    check_limit(limit)
    found: list[Job] = []
    while True:
        looked_at, has_more = await _look(around, search, cursor, limit)
        for job in await search.choose(looked_at):
            found.append(job)
            if len(found) == limit:
                has_more = has_more or job is not looked_at[-1]
                return found, encode_cursor(job.created_at, job.id) if has_more else None
        if not has_more:
            return found, None
        cursor = encode_cursor(looked_at[-1].created_at, looked_at[-1].id)


async def walk_search(around: Surroundings, search: Search) -> AsyncIterator[Job]:
    """All jobs of the tenant that are searched for, the newest first, page by page."""
    cursor: str | None = None
    while True:
        found, cursor = await find_page(around, search, cursor, HIGHEST_LIMIT)
        for job in found:
            yield job
        if cursor is None:
            return


async def walk_jobs(around: Surroundings, wanted: JobFilter) -> AsyncIterator[Job]:
    """All jobs of the tenant that are wanted, the newest first, page by page."""
    cursor: str | None = None
    while True:
        page = await around.store.find(around.tenant, wanted, cursor, HIGHEST_LIMIT)
        for job in page.items:
            yield job
        cursor = page.next_cursor
        if cursor is None:
            return


def read_state(state: object) -> RailWord | None:
    if state is None:
        return None
    for word in STATUSES:
        if word == state:
            return word
    raise InvalidInputError(f"state must be one of {', '.join(STATUSES)}", {"field": "state"})


async def _look(
    around: Surroundings, search: Search, cursor: str | None, limit: int
) -> tuple[list[Job], bool]:
    """The next ``limit`` jobs of all the statuses that come into question, in order."""
    statuses = (None,) if search.state is None else STATUSES[search.state]
    found: list[Job] = []
    has_more = False
    for status in statuses:
        wanted = msgspec.structs.replace(search.wanted, status=status or search.wanted.status)
        page = await around.store.find(around.tenant, wanted, cursor, limit)
        found += page.items
        has_more = has_more or page.has_more
    found.sort(key=lambda job: listing_key(job.created_at, job.id))
    return found[:limit], has_more or len(found) > limit
