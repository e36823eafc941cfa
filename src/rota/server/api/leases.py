"""Workers in any language: take jobs, say that they are still at it, and what became of them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.jobs import Discarded, Failed, Interrupted, Outcome, Snoozed, Succeeded
from rota.jobs.fields import read_id, read_name
from rota.ops.leases import HttpLeaseRequest, HttpLeases, Settlement
from rota.server.api.shapes.limited import NO_NUL
from rota.server.api.shapes.words import Kind, Moment, Name, Queue, Uuid
from rota.server.api.views import JobView, view_job, view_jobs
from rota.server.routing.route import Call, Nothing, Route
from rota.stores.protocol import HeldLease

LEASES = "/api/v1/leases"
MOST_SETTLED = 1_000
LONGEST_ERROR = 10_000
LONGEST_SNOOZE = 31_536_000

WorkerName = Annotated[
    Name,
    Meta(
        description="Who works: the same name in every request about the same lease.",
        examples=["mailer on host 7"],
    ),
]
LeaseSeconds = Annotated[
    int,
    Meta(
        description="How long a job is held without a sign of life, from now.",
        ge=1,
        le=3600,
    ),
]
Token = Annotated[
    int,
    Meta(
        description="The token of the lease, from the job's lease.",
        ge=1,
        le=2**53 - 1,
    ),
]


class LeaseOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who wants how many jobs, from which queues and for how long.

    With ``wait_seconds`` the answer comes as soon as there is a job, or after that time. Jobs whose
    kind is in ``notifies`` tell people something: quiet hours hold them back. ``kinds`` is what the
    worker can do, for operators to see; which jobs it is given is a matter of queues alone.
    """

    worker: WorkerName
    queues: Annotated[list[Queue], Meta(min_length=1, max_length=100)] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 1
    lease_seconds: LeaseSeconds = 60
    wait_seconds: Annotated[int, Meta(ge=0, le=30)] = 0
    notifies: Annotated[list[Kind], Meta(max_length=100)] = []
    kinds: Annotated[list[Kind], Meta(max_length=100)] = []


class LeasedJobs(msgspec.Struct, frozen=True):
    """The jobs, each with its ``lease``, whose ``token`` goes with every word about it."""

    items: list[JobView]


class HeldJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that is held, and under which lease."""

    job_id: Uuid
    token: Token


class ExtendOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which leases are to last longer."""

    worker: WorkerName
    leases: Annotated[list[HeldJob], Meta(min_length=1, max_length=MOST_SETTLED)]
    lease_seconds: LeaseSeconds = 60


class ExtendAnswer(msgspec.Struct, frozen=True):
    """Until when those last that are still held, and which are lost: work on them is to stop.

    A lease is lost when it ran out and another has the job, or when the job was cancelled, deleted
    or settled.
    """

    until: Moment
    lost: list[Uuid]


class Ended(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of one job.

    - ``succeeded``: it is done.
    - ``failed``, with an ``error``: it is tried again as its retry policy says; with ``retryable``
      false it is given up.
    - ``snoozed``, with ``seconds``: it is to be handed out again after that time, and no attempt is
      spent.
    - ``discarded``, with an ``error``: it is given up, for no attempt would ever succeed.
    - ``handed_back``: it was not worked on; another may have it at once, and no attempt is spent.
    """

    job_id: Uuid
    token: Token
    outcome: Literal["succeeded", "failed", "snoozed", "discarded", "handed_back"]
    error: Annotated[str, Meta(max_length=LONGEST_ERROR, extra_json_schema=NO_NUL)] | None = None
    retryable: bool = True
    seconds: Annotated[int, Meta(ge=0, le=LONGEST_SNOOZE)] | None = None


class SettleOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of jobs that this worker held."""

    worker: WorkerName
    outcomes: Annotated[list[Ended], Meta(min_length=1, max_length=MOST_SETTLED)]


class SettledJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is kept now; of a stale one nothing was written, for the lease had passed on."""

    job_id: Uuid
    is_stale: bool
    job: JobView | None


class SettleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, in the order in which it was sent."""

    items: list[SettledJob]
    stale_count: int


async def lease_jobs(call: Call[LeaseOrder, Nothing]) -> LeasedJobs:
    """Take jobs that are due, each to be run by you alone; wait for some if there are none.

    Gates and limits hold jobs back as they do for every worker. Until a lease runs out it can be
    extended; afterwards the attempt counts as lost, and the job is tried again.
    """
    asked = call.body
    wish = HttpLeaseRequest(
        worker=asked.worker,
        limit=asked.limit,
        lease_for=timedelta(seconds=asked.lease_seconds),
        wait_for=timedelta(seconds=asked.wait_seconds),
        queues=None if asked.queues is None else tuple(asked.queues),
        notifies=frozenset(asked.notifies),
        kinds=tuple(asked.kinds),
    )
    return LeasedJobs(view_jobs(await _desk(call).lease(call.caller.tenant, wish, call.hung_up)))


async def extend_leases(call: Call[ExtendOrder, Nothing]) -> ExtendAnswer:
    """Let leases last longer, from now; the answer names those that are lost."""
    asked = call.body
    worker = read_name(asked.worker, "worker")
    held = [
        HeldLease(read_id(each.job_id, f"leases[{index}].job_id"), each.token)
        for index, each in enumerate(asked.leases)
    ]
    lease_for = timedelta(seconds=asked.lease_seconds)
    until = call.around.clock.now() + lease_for
    lasting = await _desk(call).extend(call.caller.tenant, worker, held, lease_for)
    lost = [each.job_id for each, is_held in zip(held, lasting, strict=True) if not is_held]
    return ExtendAnswer(until, lost)


async def settle_leases(call: Call[SettleOrder, Nothing]) -> SettleAnswer:
    """Say what became of jobs, as many at once as have ended.

    All that still hold are written in one step. What is stale writes nothing, and is told so:
    another has the job, or it was settled before.
    """
    asked = call.body
    worker = read_name(asked.worker, "worker")
    settlements = [_read_ended(each, f"outcomes[{n}]") for n, each in enumerate(asked.outcomes)]
    settled = await _desk(call).settle(call.caller.tenant, worker, settlements)
    items = [
        SettledJob(
            job_id=each.job_id,
            is_stale=each.is_stale,
            job=None if each.job is None else view_job(each.job),
        )
        for each in settled
    ]
    return SettleAnswer(items=items, stale_count=sum(each.is_stale for each in settled))


def _desk(call: Call[Any, Nothing]) -> HttpLeases:
    desk = call.around.desk
    return HttpLeases(call.around.store, call.around.clock) if desk is None else desk


def _read_ended(ended: Ended, field: str) -> Settlement:
    held = HeldLease(read_id(ended.job_id, f"{field}.job_id"), ended.token)
    return Settlement(held=held, outcome=_read_outcome(ended, field))


def _read_outcome(ended: Ended, field: str) -> Outcome:
    if ended.outcome == "snoozed":
        return _read_snooze(ended, field)
    if ended.outcome in _PLAIN:
        return _PLAIN[ended.outcome]
    error = ended.error or f"{ended.outcome}, and no error was recorded"
    if ended.outcome == "discarded" or not ended.retryable:
        return Discarded(error)
    return Failed(error)


def _read_snooze(ended: Ended, field: str) -> Outcome:
    if ended.seconds is None:
        raise InvalidRequestError(f"{field}.seconds", "is missing: for how long it is snoozed")
    return Snoozed(timedelta(seconds=ended.seconds))


_PLAIN: Mapping[str, Outcome] = {"succeeded": Succeeded(), "handed_back": Interrupted()}

ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=LEASES,
        handler=lease_jobs,
        scope=Scope.WRITE,
        tag="workers",
        body=LeaseOrder,
        answers={200: LeasedJobs},
    ),
    Route(
        method="POST",
        path=f"{LEASES}/extend",
        handler=extend_leases,
        scope=Scope.WRITE,
        tag="workers",
        body=ExtendOrder,
        answers={200: ExtendAnswer},
    ),
    Route(
        method="POST",
        path=f"{LEASES}/settle",
        handler=settle_leases,
        scope=Scope.WRITE,
        tag="workers",
        body=SettleOrder,
        answers={200: SettleAnswer},
    ),
)
