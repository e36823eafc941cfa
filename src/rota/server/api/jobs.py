"""Jobs: create, get, update, delete and search."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import JobEndedError
from rota.jobs import Job, JobFilter, JobStatus
from rota.jobs.fields import read_plain_queue
from rota.jobs.search import DEFAULT_LIMIT, check_limit
from rota.ops.job_counts import StateCounts, count_states
from rota.ops.retention import read_retention
from rota.ops.search import Progress, Suggestion, suggest
from rota.ops.search import search_jobs as search_by_text
from rota.policy.audit import AuditedAction, record_action
from rota.search.query import JobQuery, Sort, parse_query
from rota.server.api.fields import (
    Moment,
    PageCursor,
    PageLimit,
    SearchText,
    TypedSearch,
    list_given,
    read_job,
)
from rota.server.api.job_bodies import (
    FIXED,
    KEY_HEADER,
    JobDetails,
    JobPage,
    JobUpdate,
    JobView,
    NewJob,
    admit_new_job,
    api_names,
    check_fixed,
    list_changes,
    view_job,
    view_jobs,
)
from rota.server.http.route import Answer, Call, Nothing, Resource

JOBS = Resource("/api/v1/jobs", "jobs")

TRACE_HEADER = "Traceparent"

_TRACE = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_BEYOND_PRIORITIES = (0, 11)

_CREATE_HEADERS = {
    KEY_HEADER: "Makes the job the only one of its kind with that key.",
    TRACE_HEADER: "The trace of the request, as in W3C Trace Context.",
}


class FoundJobs(JobPage, frozen=True, gc=False):
    """Jobs that match a search, and how far the search has looked.

    While there is a ``next_cursor`` there may be more matches, even when ``items`` is empty.
    """

    progress: Progress


class JobSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters. A job must match all of them."""

    queue: Annotated[str | None, Meta(description="Jobs in this queue.")] = None
    status: Annotated[JobStatus | None, Meta(description="Jobs in this status.")] = None
    priority_min: Annotated[int | None, Meta(description="This priority or a higher one.")] = None
    priority_max: Annotated[int | None, Meta(description="This priority or a lower one.")] = None
    created_after: Annotated[Moment | None, Meta(description="Created then or later.")] = None
    created_before: Annotated[Moment | None, Meta(description="Created before then.")] = None
    cursor: PageCursor = None
    limit: PageLimit = DEFAULT_LIMIT

    def as_filter(self) -> JobFilter:
        return msgspec.structs.replace(
            msgspec.convert(self, JobFilter, from_attributes=True),
            priority_min=_clamp_priority(self.priority_min),
            priority_max=_clamp_priority(self.priority_max),
        )


class TextSearch(JobSearch, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters. A job must match all of them."""

    q: TypedSearch = None
    text: Annotated[
        SearchText | None, Meta(description="A job id, or words; case does not matter.")
    ] = None
    kind: Annotated[SearchText | None, Meta(description="Jobs of this kind.")] = None
    sort: Annotated[
        Sort | None, Meta(description="newest, or for up to 1,000 matches oldest, due or duration.")
    ] = None
    index: Annotated[
        bool, Meta(description="false: read every job instead of the search index.")
    ] = True

    def as_query(self, now: datetime) -> JobQuery:
        query = parse_query(self.q or "", now).within(self.as_filter())
        return msgspec.structs.replace(
            query,
            text=self.text,
            kind=self.kind,
            sort=self.sort or query.sort,
            looks_at_all=not self.index,
        )


class SuggestionSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The beginning of a search."""

    q: Annotated[str, Meta(max_length=255, description="What has been typed.")] = ""


class Suggestions(msgspec.Struct, frozen=True):
    """Suggestions for the rest of the text, the best first."""

    items: list[Suggestion]


def _clamp_priority(priority: int | None) -> int | None:
    """The same filter in numbers that every store can hold."""
    lowest, highest = _BEYOND_PRIORITIES
    return None if priority is None else min(max(priority, lowest), highest)


@JOBS.route(
    "POST",
    "",
    Scope.WRITE,
    answers={201: JobView, 200: JobView},
    headers=_CREATE_HEADERS,
    errors=(409,),
    by_queue=True,
)
async def create_job(call: Call[NewJob, Nothing]) -> Answer:
    """Create a job.

    With an idempotency key, in the header or in the body, a second request returns the existing job
    of that kind with 200. 409 if its payload differs. A payload that does not fit its kind is
    refused if this server has the app of the kind; the error names the path of the field. A header
    ``Warning`` says that no running worker serves the kind.
    """
    now = call.clock.now()
    job = admit_new_job(
        call.body, call.context, call.tenant, now, call.headers.get(KEY_HEADER.lower())
    )
    read_plain_queue(job.queue)
    await _check_queues(call, job)
    (inserted,) = await call.insert([_with_trace(job, call)], now)
    call.caller.check_queues([inserted.job.queue])  # an existing job may be in another one
    headers = {"location": f"{call.root}{JOBS.path}/{inserted.job.id}"}
    warning = await call.context.served.warn(inserted.job)
    if warning is not None:
        headers["warning"] = f'299 rota "{warning}"'
    return Answer(200 if inserted.is_existing else 201, view_job(inserted.job), headers)


async def _check_queues(call: Call[Any, Any], job: Job) -> None:
    """Refuse a caller for single queues a job, or a dependency, of another queue."""
    if call.caller.queues is None:
        return
    call.caller.check_queues([job.queue])
    if job.dependencies:
        found = await call.store.get(job.tenant, job.dependencies)
        call.caller.check_queues(each.queue for each in found.values())


def _with_trace(job: Job, call: Call[NewJob, Nothing]) -> Job:
    """The job with the caller's trace. W3C Trace Context ignores an invalid header."""
    trace = call.headers.get(TRACE_HEADER.lower())
    if trace is None or not _TRACE.fullmatch(trace):
        return job
    return msgspec.structs.replace(job, trace=trace)


@JOBS.route("GET", "", Scope.READ)
async def search_jobs(call: Call[Nothing, JobSearch]) -> JobPage:
    """Search for jobs.

    Returns the jobs that match every filter, newest first, then by id.
    """
    asked, store = call.query, call.store
    page = await store.find(call.tenant, asked.as_filter(), asked.cursor, asked.limit)
    return JobPage(view_jobs(page.items), page.next_cursor, page.has_more)


@JOBS.route("GET", "/search", Scope.READ)
async def look_for_jobs(call: Call[Nothing, TextSearch]) -> FoundJobs:
    """Search for jobs by name, kind, id, key, error or payload, newest first.

    One request reads at most 2,000 jobs. A page may therefore have fewer jobs than the limit, even
    none, and still have a next page. ``progress`` says how far the search has looked.
    """
    asked = call.query
    page = await search_by_text(
        call.store,
        call.tenant,
        asked.as_query(call.clock.now()),
        cursor=asked.cursor,
        limit=asked.limit,
    )
    return FoundJobs(view_jobs(page.items), page.next_cursor, page.has_more, page.progress)


@JOBS.route("GET", "/counts", Scope.READ)
async def count_jobs(call: Call[Nothing, TextSearch]) -> StateCounts:
    """Count the jobs that match a search in each state, up to 1,000.

    Of the states in ``at_least`` there may be more jobs. A state, a status, a cursor and a limit in
    the request change nothing; they must be valid.
    """
    check_limit(call.query.limit)
    now = call.clock.now()
    return await count_states(call.store, call.tenant, call.query.as_query(now), now)


@JOBS.route("GET", "/suggest", Scope.READ)
async def suggest_searches(call: Call[Nothing, SuggestionSearch]) -> Suggestions:
    """Suggest the rest of a search: fields, kinds, queues, words, keys, errors, payload paths."""
    return Suggestions(await suggest(call.store, call.tenant, call.query.q))


@JOBS.route("GET", "/{job_id}", Scope.READ, errors=(404,), by_queue=True)
async def get_job(call: Call[Nothing, Nothing]) -> JobDetails:
    """Get a job; of one that has ended also when retention removes it."""
    job = await read_job(call)
    details = msgspec.convert(job, JobDetails, from_attributes=True)
    if not job.status.is_terminal:
        return details
    current = await read_retention(call.around)
    return msgspec.structs.replace(details, removed_at=current.removal_of(job))


@JOBS.route("PUT", "/{job_id}", Scope.WRITE, errors=(404, 409))
async def update_job(call: Call[JobUpdate, Nothing]) -> JobView:
    """Change a job that has not ended.

    Only the fields that are sent change. A field that never changes may be sent with its current
    value.
    """
    fixed = list_given(call.body, FIXED)
    if fixed:
        job = await read_job(call)
        if job.status.is_terminal:
            raise JobEndedError(job.id, job.status, job.ending)
        check_fixed(fixed, msgspec.to_builtins(view_job(job)))
    changes, now = list_changes(call.body), call.clock.now()
    await _check_payload(call, changes)
    with api_names():
        amended = await call.store.amend(call.tenant, call.path["job_id"], changes, now)
    return view_job(amended)


async def _check_payload(call: Call[JobUpdate, Nothing], changes: Mapping[str, Any]) -> None:
    """Refuse a new payload, or a new kind, that does not fit."""
    if "payload" not in changes and "kind" not in changes:
        return
    job = await read_job(call)
    call.context.served.check(changes.get("kind", job.kind), changes.get("payload", job.payload))


@JOBS.route("DELETE", "/{job_id}", Scope.WRITE, answers={204: None}, errors=(404, 409))
async def delete_job(call: Call[Nothing, Nothing]) -> Answer:
    """Delete a job in any state.

    409 when another job depends on it. When it is running, its worker learns of the deletion at the
    next heartbeat, and the result is discarded. The audit log records the deletion.
    """
    job = await read_job(call)
    if not await call.store.find_dependents(call.tenant, [job.id], 1):
        details = {"name": job.name, "status": job.status}
        entry = AuditedAction(action="delete", who=call.who, job_ids=[job.id], details=details)
        await record_action(call.around, entry)
    await call.store.delete(call.tenant, job.id)
    return Answer(204)
