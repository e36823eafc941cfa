"""Workers over HTTP: lease jobs, extend leases, report outcomes."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.jobs import Discarded, Failed, Interrupted, Outcome, Snoozed, Succeeded
from rota.jobs.fields import read_id, read_name
from rota.ops.leases import HttpLeaseRequest, HttpLeases, Settlement
from rota.server.api.fields import NO_NUL, Kind, Moment, Name, Queue, Uuid
from rota.server.api.job_bodies import JobView, view_job, view_jobs
from rota.server.http.route import Call, Nothing, Resource
from rota.stores.protocol import HeldLease
from rota.worker.attempts import DISCARDED, LARGEST_RESULT

LEASES = Resource("/api/v1/leases", "workers")

MOST_SETTLED = 1_000
LONGEST_ERROR = 10_000
LONGEST_REPORT = 65_536
LONGEST_SNOOZE = 31_536_000
FAILED = "Failed"
"""The error code of an attempt whose worker reported none."""

WorkerName = Annotated[
    Name,
    Meta(
        description="The name of the worker: the same in every request about a lease.",
        examples=["mailer on host 7"],
    ),
]
LeaseSeconds = Annotated[
    int,
    Meta(
        description="How long the lease lasts from now, unless it is extended. "
        "Default: the server's WORKER_LEASE_MS, 60 seconds.",
        ge=1,
        le=3600,
    ),
]
Token = Annotated[int, Meta(description="The token in the job's lease.", ge=1, le=2**53 - 1)]


Report = Annotated[str, Meta(max_length=LONGEST_REPORT, extra_json_schema=NO_NUL)]


class LeaseOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which worker leases how many jobs, from which queues and for how long.

    With ``wait_seconds`` the answer comes as soon as there is a job, or after that time. Quiet
    hours hold back jobs whose kind is in ``notifies``, unless the job or an operator says
    otherwise. The worker gets only jobs of its ``kinds``, if it names any; and a job with a version
    label only if that is among its ``labels``. Start the jobs within half a second of the answer:
    a gate that closes takes that for granted. ``concurrency`` is shown with the other workers.
    """

    worker: WorkerName
    queues: Annotated[list[Queue], Meta(min_length=1, max_length=100)] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 1
    lease_seconds: LeaseSeconds | None = None
    wait_seconds: Annotated[int, Meta(ge=0, le=30)] = 0
    notifies: Annotated[list[Kind], Meta(max_length=100)] = []
    kinds: Annotated[list[Kind], Meta(max_length=100)] = []
    labels: Annotated[list[Kind], Meta(max_length=100)] = []
    concurrency: (
        Annotated[
            int,
            Meta(
                description="How many jobs the worker runs at once. Default: its limit.",
                ge=1,
                le=10_000,
            ),
        ]
        | None
    ) = None


class LeasedJobs(msgspec.Struct, frozen=True):
    """The jobs. Send the ``token`` of each ``lease`` back with every request about that job."""

    items: list[JobView]


class HeldJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A leased job and the token of its lease."""

    job_id: Uuid
    token: Token


class ExtendOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The leases to extend."""

    worker: WorkerName
    leases: Annotated[list[HeldJob], Meta(min_length=1, max_length=MOST_SETTLED)]
    lease_seconds: LeaseSeconds | None = None


class ExtendAnswer(msgspec.Struct, frozen=True):
    """The new end of the extended leases, and the lost ones. Stop work on lost jobs.

    A lease is lost when it expired and another worker has the job, or when the job was cancelled,
    deleted or settled.
    """

    until: Moment
    lost: list[Uuid]


class Ended(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of one job.

    - ``succeeded``: the job is done. Its ``result``, if there is one, is kept with it: any JSON but
      null, at most 64 KiB.
    - ``failed``, with an ``error``: the retry policy decides; with ``retryable`` false the job
      fails for good. ``error_code``, such as the name of the exception, is the ``errCode`` of the
      server's log.
    - ``snoozed``, with ``seconds``: the job is due again after that time. No attempt is spent.
    - ``discarded``, with an ``error``: the job fails for good, because no attempt would succeed.
    - ``handed_back``: the worker did not work on it. It is due at once, and no attempt is spent.

    ``traceback`` and ``log`` are kept with an attempt that failed or was discarded, ``log`` also
    with one that succeeded; of more than 16 KiB the middle is cut out.
    """

    job_id: Uuid
    token: Token
    outcome: Literal["succeeded", "failed", "snoozed", "discarded", "handed_back"]
    error: Annotated[str, Meta(max_length=LONGEST_ERROR, extra_json_schema=NO_NUL)] | None = None
    error_code: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    retryable: bool = True
    seconds: Annotated[int, Meta(ge=0, le=LONGEST_SNOOZE)] | None = None
    result: Any = None
    traceback: Report | None = None
    log: Report | None = None


class SettleOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcomes of jobs that this worker leased."""

    worker: WorkerName
    outcomes: Annotated[list[Ended], Meta(min_length=1, max_length=MOST_SETTLED)]


class SettledJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job after its settlement. ``is_stale``: nothing was written, the worker lost the lease."""

    job_id: Uuid
    is_stale: bool
    job: JobView | None


class SettleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The settled jobs, in the order of the request."""

    items: list[SettledJob]
    stale_count: int


@LEASES.route("POST", "", Scope.WORKER, by_queue=True)
async def lease_jobs(call: Call[LeaseOrder, Nothing]) -> LeasedJobs:
    """Lease due jobs; optionally wait for some.

    Gates and limits apply as for every worker. Extend a lease before it expires; afterwards the
    attempt counts as lost, and the job is retried. A token for single queues leases from these.
    """
    asked = call.body
    call.caller.check_queues(asked.queues or ())
    queues = asked.queues or call.caller.queues
    request = HttpLeaseRequest(
        worker=asked.worker,
        limit=asked.limit,
        lease_for=_choose_lease(asked.lease_seconds, call.context.leases),
        wait_for=timedelta(seconds=asked.wait_seconds),
        queues=None if queues is None else tuple(queues),
        notifies=frozenset(asked.notifies),
        labels=tuple(asked.labels),
        kinds=tuple(asked.kinds),
        concurrency=asked.concurrency,
    )
    jobs = await call.context.leases.lease(call.tenant, request, call.disconnected)
    return LeasedJobs(view_jobs(jobs))


@LEASES.route("POST", "/extend", Scope.WORKER, by_queue=True)
async def extend_leases(call: Call[ExtendOrder, Nothing]) -> ExtendAnswer:
    """Extend leases from now. The answer names the lost ones."""
    asked = call.body
    worker = read_name(asked.worker, "worker")
    held = [
        HeldLease(read_id(each.job_id, f"leases[{index}].job_id"), each.token)
        for index, each in enumerate(asked.leases)
    ]
    lease_for = _choose_lease(asked.lease_seconds, call.context.leases)
    until = call.clock.now() + lease_for
    lasting = await call.context.leases.extend(
        call.tenant, worker, held, lease_for, call.caller.queues
    )
    lost = [each.job_id for each, is_held in zip(held, lasting, strict=True) if not is_held]
    return ExtendAnswer(until, lost)


@LEASES.route("POST", "/settle", Scope.WORKER, by_queue=True)
async def settle_leases(call: Call[SettleOrder, Nothing]) -> SettleAnswer:
    """Report the outcomes of jobs, up to 1,000 at once.

    All outcomes are written in one step. A stale outcome writes nothing and is reported as such:
    another worker has the job, or it was settled before.
    """
    asked = call.body
    worker = read_name(asked.worker, "worker")
    settlements = [_read_ended(each, f"outcomes[{n}]") for n, each in enumerate(asked.outcomes)]
    settled = await call.context.leases.settle(call.tenant, worker, settlements, call.caller.queues)
    items = [
        SettledJob(
            job_id=each.job_id,
            is_stale=each.is_stale,
            job=None if each.job is None else view_job(each.job),
        )
        for each in settled
    ]
    return SettleAnswer(items=items, stale_count=sum(each.is_stale for each in settled))


def _choose_lease(seconds: int | None, leases: HttpLeases) -> timedelta:
    return leases.lease_for if seconds is None else timedelta(seconds=seconds)


def _read_ended(ended: Ended, field: str) -> Settlement:
    held = HeldLease(read_id(ended.job_id, f"{field}.job_id"), ended.token)
    outcome = _read_outcome(ended, field)
    usual = DISCARDED if isinstance(outcome, Discarded) else FAILED
    return Settlement(held=held, outcome=outcome, error_code=ended.error_code or usual)


def _read_outcome(ended: Ended, field: str) -> Outcome:
    if ended.result is not None and ended.outcome != "succeeded":
        raise InvalidRequestError(f"{field}.result", "is kept only if the outcome is succeeded")
    match ended.outcome:
        case "succeeded":
            return Succeeded(_read_result(ended.result, field), log=ended.log)
        case "snoozed":
            if ended.seconds is None:
                raise InvalidRequestError(f"{field}.seconds", "is missing: the time to snooze")
            return Snoozed(timedelta(seconds=ended.seconds))
        case "handed_back":
            return Interrupted()
    error = ended.error or f"{ended.outcome}, and no error was recorded"
    if ended.outcome == "discarded" or not ended.retryable:
        return Discarded(error, traceback=ended.traceback, log=ended.log)
    return Failed(error, traceback=ended.traceback, log=ended.log)


def _read_result(result: object, field: str) -> bytes | None:
    if result is None:
        return None
    encoded = msgspec.json.encode(result)
    if len(encoded) > LARGEST_RESULT:
        reason = f"has {len(encoded)} bytes of JSON, {LARGEST_RESULT} are the most"
        raise InvalidRequestError(f"{field}.result", reason)
    return encoded
