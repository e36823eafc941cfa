"""Searches jobs by text, beyond the store's indexes. One call visits a bounded number of jobs."""

from collections.abc import AsyncIterator

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import Job, JobFilter, check_limit, encode_cursor
from rota.jobs.identity import normalize_job_id
from rota.jobs.search import HIGHEST_LIMIT
from rota.rail.jobs import RailStore

MOST_LOOKED_AT = 5_000
"""The number of jobs one call visits. A cursor continues the search."""

LONGEST_TEXT = 255


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search. A job must match every given field.

    ``text`` is a job id, or part of a name or kind in any case. ``kind`` is a kind.
    """

    text: str | None = None
    kind: str | None = None
    wanted: JobFilter = JobFilter()

    def __post_init__(self) -> None:
        if self.kind is not None and len(self.kind) > LONGEST_TEXT:
            raise _refusal("kind", f"must have at most {LONGEST_TEXT} characters")
        if self.text is not None and not 1 <= len(self.text) <= LONGEST_TEXT:
            raise _refusal("text", f"must have 1 to {LONGEST_TEXT} characters")

    @property
    def is_plain(self) -> bool:
        """Whether the store can answer the query by itself."""
        return self.text is None and self.kind is None

    def accepts(self, job: Job) -> bool:
        """Whether the job matches text and kind. The store applies the filter."""
        if self.kind is not None and job.kind != self.kind:
            return False
        if self.text is None or normalize_job_id(self.text) == job.id:
            return True
        text = self.text.casefold()
        return text in job.name.casefold() or text in job.kind.casefold()


class SearchPage(msgspec.Struct, frozen=True):
    """Matches, newest first. With a ``next_cursor`` there may be more.

    A page may have fewer matches than the limit, even none, and still not be the last.
    """

    items: tuple[Job, ...]
    next_cursor: str | None = None

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


async def search_jobs(
    store: RailStore,
    tenant: str,
    query: JobQuery,
    *,
    cursor: str | None = None,
    limit: int = 20,
) -> SearchPage:
    """Return the page of matches after ``cursor``, or the first page."""
    check_limit(limit)
    if query.is_plain:
        page = await store.find(tenant, query.wanted, cursor, limit)
        return SearchPage(tuple(page.items), page.next_cursor)
    named = None if query.text is None else normalize_job_id(query.text)
    if named is not None:
        return SearchPage(await _find_by_id(store, tenant, named, query))
    found: list[Job] = []
    last: Job | None = None
    async for job in _walk(store, tenant, query.wanted, cursor):
        if last is not None and len(found) == limit:
            return SearchPage(tuple(found), encode_cursor(last.created_at, last.id))
        last = job
        if query.accepts(job):
            found.append(job)
    if last is None or not await _has_more(store, tenant, query.wanted, last):
        return SearchPage(tuple(found))
    return SearchPage(tuple(found), encode_cursor(last.created_at, last.id))


async def _find_by_id(
    store: RailStore, tenant: str, job_id: str, query: JobQuery
) -> tuple[Job, ...]:
    found = await store.get(tenant, [job_id])
    wanted = msgspec.structs.replace(query.wanted, tenant=tenant)
    return tuple(job for job in found.values() if query.accepts(job) and wanted.accepts(job))


async def _walk(
    store: RailStore, tenant: str, wanted: JobFilter, cursor: str | None
) -> AsyncIterator[Job]:
    """The next jobs from the cursor on, at most as many as one call visits."""
    for _ in range(MOST_LOOKED_AT // HIGHEST_LIMIT):
        page = await store.find(tenant, wanted, cursor, HIGHEST_LIMIT)
        for job in page.items:
            yield job
        cursor = page.next_cursor
        if cursor is None:
            return


async def _has_more(store: RailStore, tenant: str, wanted: JobFilter, last: Job) -> bool:
    after = encode_cursor(last.created_at, last.id)
    return bool((await store.find(tenant, wanted, after, 1)).items)


def _refusal(field: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})
