"""Jobs: create, get, update, delete and search, as specification 5 has them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.access import Scope
from rota.errors import InvalidRequestError, JobNotFoundError
from rota.jobs import BackoffStrategy, Job, JobRequest, admit_job
from rota.server.api.shapes import (
    IdempotencyKey,
    InstantText,
    Kind,
    Name,
    Payload,
    Priority,
    Queue,
    Uuid,
)
from rota.server.api.views import JobView, view_job
from rota.server.routing.route import Answer, Call, Nothing, Route

JOBS = "/api/v1/jobs"
ONE_JOB = "/api/v1/jobs/{job_id}"
KEY_HEADER = "Idempotency-Key"


class RetryPolicyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a job is attempted, and how long it waits in between; all of it may be left out.

    ``max_delay_seconds`` must not be less than ``base_delay_seconds``. ``LADDER`` takes its delays
    from ``ladder_seconds``, the last one again and again.
    """

    max_attempts: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 10})] = 3
    backoff_strategy: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    base_delay_seconds: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 300})] = 10
    max_delay_seconds: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 3600})] = 300
    ladder_seconds: Annotated[
        tuple[Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 604_800})], ...],
        Meta(extra_json_schema={"minItems": 1, "maxItems": 10}),
    ] = (60, 300, 900, 3600)


class RecurrenceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A series; exactly one of ``cron``, ``rrule`` and ``interval`` says when."""

    cron: str | None = None
    rrule: str | None = None
    interval: str | None = None
    zone: str = "UTC"
    start: InstantText | None = None
    until: InstantText | None = None
    count: int | None = None
    gap: str | None = None
    fold: str | None = None
    overlap: str = "skip"


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A job as it is asked for; ``kind`` left out is the name."""

    name: Name
    queue: Queue
    kind: Kind | None = None
    payload: Payload = {}
    priority: Priority = 5
    dependencies: list[Uuid] = []
    retry_policy: RetryPolicyBody | None = None
    run_at: InstantText | None = None
    recurrence: RecurrenceBody | None = None
    idempotency_key: IdempotencyKey | None = None
    auto_remove: bool = False


async def create_job(call: Call[NewJob, Nothing]) -> Answer:
    """Create a job.

    With an idempotency key, in the header or in the body, a job of the same kind that has it
    already is answered with 200; 409 if its payload is another.
    """
    around = call.around
    now = around.clock.now()
    request = read_request(call.body, call.headers.get(KEY_HEADER.lower()))
    job = _admit(call, request, now)
    (inserted,) = await around.store.insert([job], now)
    link = {"location": f"{call.root}{JOBS}/{inserted.job.id}"}
    return Answer(200 if inserted.is_existing else 201, view_job(inserted.job), link)


async def get_job(call: Call[Nothing, Nothing]) -> JobView:
    """Get a job."""
    job_id = call.path["job_id"]
    found = await call.around.store.get(call.caller.tenant, [job_id])
    if job_id not in found:
        raise JobNotFoundError(job_id)
    return view_job(found[job_id])


def read_request(asked: NewJob, key: str | None = None) -> JobRequest:
    """The request that the body is, with the key that a header may give."""
    if key is not None and asked.idempotency_key not in {None, key}:
        raise InvalidRequestError("idempotency_key", f"differs from the header {KEY_HEADER}")
    policy, recurrence = asked.retry_policy, asked.recurrence
    given: dict[str, Any] = {}
    if policy is not None:
        given["retry_policy"] = msgspec.structs.asdict(policy)
    if recurrence is not None:
        given["recurrence"] = msgspec.structs.asdict(recurrence)
    return JobRequest(
        name=asked.name,
        queue=asked.queue,
        kind=asked.kind,
        payload=asked.payload,
        priority=asked.priority,
        due_at=asked.run_at,  # type: ignore[arg-type] # admission reads ISO 8601 text
        dependencies=tuple(asked.dependencies),
        idempotency_key=asked.idempotency_key if key is None else key,
        auto_remove=asked.auto_remove,
        **given,
    )


def _admit(call: Call[NewJob, Nothing], request: JobRequest, now: Any) -> Job:
    return admit_job(request, job_id=call.around.make_id(now), now=now, tenant=call.caller.tenant)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=JOBS,
        handler=create_job,
        scope=Scope.WRITE,
        tag="jobs",
        body=NewJob,
        answers={201: JobView, 200: JobView},
        headers={KEY_HEADER: "Makes the job the only one of its kind with that key."},
        errors=(409,),
    ),
    Route(
        method="GET",
        path=ONE_JOB,
        handler=get_job,
        scope=Scope.READ,
        tag="jobs",
        answers={200: JobView},
        errors=(404,),
    ),
)
