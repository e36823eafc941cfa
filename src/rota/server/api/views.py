"""A job as the service shows it."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.jobs import Deferral, Ending, Job, JobStatus, Lease, Page, Recurrence, RetryPolicy
from rota.server.api.shapes.words import Kind, Moment, Name, Payload, Priority, Queue, Uuid

Cursor = Annotated[
    str | None, Meta(description="Where the next page begins; null on the last one.")
]


class JobView(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename={"due_at": "run_at"}):
    """A job with everything there is to know of it.

    ``run_at`` is when it may start, or start again. ``attempt_count`` counts attempts that failed.
    ``ending`` says why a FAILED job failed; ``lease`` who runs a RUNNING one, and until when that
    is believed; ``deferral`` which gate held it back. In a series ``occurrence_at`` is the instant
    that the job stands for, and ``origin`` the id of the first job.
    """

    id: Uuid
    name: Name
    queue: Queue
    kind: str
    tenant: Kind
    payload: Payload
    priority: Priority
    status: JobStatus
    dependencies: tuple[Uuid, ...]
    retry_policy: RetryPolicy
    due_at: Moment
    attempt_count: int
    loss_count: int
    last_error: str | None
    ending: Ending | None
    lease: Lease | None
    deferral: Deferral | None
    idempotency_key: str | None
    recurrence: Recurrence | None
    occurrence_at: Moment | None
    origin: Uuid | None
    missed_count: int
    is_paused: bool
    auto_remove: bool
    replaces: Uuid | None
    trace: str | None
    created_at: Moment
    updated_at: Moment


class JobPage(msgspec.Struct, frozen=True, gc=False):
    """A page of jobs, the newest first."""

    items: list[JobView]
    next_cursor: Cursor
    has_more: bool


def view_job(job: Job) -> JobView:
    return msgspec.convert(job, JobView, from_attributes=True)


def view_jobs(jobs: Iterable[Job]) -> list[JobView]:
    return [view_job(job) for job in jobs]


def view_page(page: Page) -> JobPage:
    return JobPage(view_jobs(page.items), page.next_cursor, page.has_more)
