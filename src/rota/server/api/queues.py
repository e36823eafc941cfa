"""Queues: depth, throughput, pause and resume; limits on concurrency and rate, and ageing."""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import ForbiddenError
from rota.ops.queues import (
    QueueLoad,
    QueueReport,
    find_queue,
    list_queues,
    measure_load,
    set_queue_paused,
)
from rota.policy.limits import Limit, Rate
from rota.rail.settings import clear_limit, list_limits, set_limit
from rota.server.api.fields import Moment, QueueName, Whole, Whose, Why, naming_fields, tenant_of
from rota.server.http.route import Answer, Call, Nothing, Resource

QUEUES = Resource("/api/v1/queues", "queues")


class QueueList(Whole[QueueReport], frozen=True):
    """Your tenant's queues by name: with jobs, recent throughput, a worker, a limit or a pause."""


class QueueOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose jobs of the queue. For all tenants the scope ``admin`` is needed."""

    whose: Whose = "own"
    why: Why | None = None


@QUEUES.route("GET", "", Scope.READ)
async def get_queues(call: Call[Nothing, Nothing]) -> QueueList:
    """List the queues of your tenant: depth, throughput, workers, limits and pauses."""
    return QueueList(await list_queues(call.store, call.clock, call.tenant))


@QUEUES.route("GET", "/{queue}", Scope.READ, errors=(404,))
async def get_queue(call: Call[Nothing, Nothing]) -> QueueReport:
    """Get one queue of your tenant."""
    return await _read(call)


@QUEUES.route("GET", "/{queue}/load", Scope.READ)
async def get_load(call: Call[Nothing, Nothing]) -> QueueLoad:
    """Get the number of jobs of a queue that need a worker now, for an autoscaler such as KEDA.

    A queue without jobs has the load 0.
    """
    return await measure_load(call.store, call.clock, call.tenant, call.path["queue"])


@QUEUES.route("POST", "/{queue}/pause", Scope.OPERATE, errors=(404,))
async def pause_queue(call: Call[QueueOrder, Nothing]) -> QueueReport:
    """Start no more jobs of the queue until it is resumed. Running jobs finish.

    Workers notice within seconds. The limits of the queue stay as they are.
    """
    return await _set_paused(call, paused=True)


@QUEUES.route("POST", "/{queue}/resume", Scope.OPERATE, errors=(404,))
async def resume_queue(call: Call[QueueOrder, Nothing]) -> QueueReport:
    """Start jobs of the queue again. Nothing changes if it is not paused."""
    return await _set_paused(call, paused=False)


async def _set_paused(call: Call[QueueOrder, Nothing], *, paused: bool) -> QueueReport:
    whose, why = call.body.whose, call.body.why or ""
    if whose == "all" and not call.caller.may(Scope.ADMIN):
        raise ForbiddenError(Scope.ADMIN)
    queue = call.path["queue"]
    await set_queue_paused(call.around, queue, whose, paused=paused, who=call.who, why=why)
    return await _read(call)


async def _read(call: Call[Any, Nothing]) -> QueueReport:
    return await find_queue(call.store, call.clock, call.tenant, call.path["queue"])


LIMITS = Resource("/api/v1/limits", "limits")


_SECOND = timedelta(seconds=1)
_LONGEST_SECONDS = 31_622_400
_API_NAMES = {"rate.per": "rate.per_seconds", "ageing": "ageing_seconds"}


class RateBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most ``count`` jobs start per ``per_seconds``, up to ``burst`` of them at once."""

    count: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    per_seconds: Annotated[int, Meta(ge=1, le=_LONGEST_SECONDS)]
    burst: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None


class LimitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limit of a scope. At least one of the last three is required.

    - ``running``: the maximum number of running jobs; 0 holds all of them back.
    - ``rate``: the maximum number of starts in a time.
    - ``ageing_seconds``, for a queue of all tenants only: a job gains one priority each time it has
      waited this long.
    """

    whose: Whose = "own"
    queue: QueueName | None = None
    running: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    rate: RateBody | None = None
    ageing_seconds: Annotated[int, Meta(ge=1, le=_LONGEST_SECONDS)] | None = None
    why: Why | None = None


class LimitScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scope of a limit. Without ``queue``: all queues."""

    whose: Whose = "own"
    queue: QueueName | None = None


class PauseView(msgspec.Struct, frozen=True, kw_only=True):
    """Since when the queue is paused, by whom and why."""

    at: Moment
    who: str
    why: str


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that applies to your tenant. With a ``pause``, nothing of the queue starts."""

    whose: Whose
    queue: str | None
    running: int | None
    rate: RateBody | None
    ageing_seconds: float | None
    pause: PauseView | None = None


class LimitPage(Whole[LimitView], frozen=True):
    """All limits that apply to your tenant."""


@LIMITS.route("GET", "", Scope.READ)
async def get_limits(call: Call[Nothing, Nothing]) -> LimitPage:
    """List the limits that apply to your tenant: its own, and those of all tenants."""
    kept = (await list_limits(call.store)).limits
    return LimitPage([_view_limit(it) for it in kept if it.tenant in (None, call.tenant)])


@LIMITS.route("PUT", "", Scope.ADMIN)
async def put_limit(call: Call[LimitBody, Nothing]) -> LimitView:
    """Set the limit of a scope. It replaces the earlier one; workers notice within seconds."""
    limit = _read_limit(call)
    await set_limit(call.store, limit, who=call.who, why=call.body.why, clock=call.clock)
    return _view_limit(limit)


@LIMITS.route("DELETE", "", Scope.ADMIN, answers={204: None})
async def delete_limit(call: Call[Nothing, LimitScope]) -> Answer:
    """Clear the limit of a scope, if there is one."""
    asked = call.query
    await clear_limit(
        call.store,
        tenant=tenant_of(call, asked.whose),
        queue=asked.queue,
        who=call.who,
        clock=call.clock,
    )
    return Answer(204)


def _read_limit(call: Call[LimitBody, Nothing]) -> Limit:
    asked = call.body
    with naming_fields("running", _API_NAMES):
        return Limit(
            tenant=tenant_of(call, asked.whose),
            queue=asked.queue,
            running=asked.running,
            rate=None if asked.rate is None else _read_rate(asked.rate),
            ageing=None if asked.ageing_seconds is None else asked.ageing_seconds * _SECOND,
        )


def _read_rate(asked: RateBody) -> Rate:
    return Rate(count=asked.count, per=asked.per_seconds * _SECOND, burst=asked.burst)


def _view_limit(limit: Limit) -> LimitView:
    rate, pause = limit.rate, limit.paused
    return LimitView(
        whose="all" if limit.tenant is None else "own",
        queue=limit.queue,
        running=limit.running,
        rate=None if rate is None else _view_rate(rate),
        ageing_seconds=None if limit.ageing is None else limit.ageing.total_seconds(),
        pause=msgspec.convert(pause, PauseView | None, from_attributes=True),
    )


def _view_rate(rate: Rate) -> RateBody:
    return RateBody(count=rate.count, per_seconds=rate.per // _SECOND, burst=rate.burst)
