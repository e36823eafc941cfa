"""Queues: depth, throughput, limits; pause and resume."""

from typing import Any

import msgspec

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
from rota.server.api.fields import Whole, Whose, Why
from rota.server.http.route import Call, Nothing, Route, route

QUEUES = "/api/v1/queues"
ONE_QUEUE = "/api/v1/queues/{queue}"


class QueueList(Whole[QueueReport], frozen=True):
    """Your tenant's queues by name: with jobs, recent throughput, a worker, a limit or a pause."""


class QueueOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose jobs of the queue. For all tenants the scope ``admin`` is needed."""

    whose: Whose = "own"
    why: Why | None = None


async def get_queues(call: Call[Nothing, Nothing]) -> QueueList:
    """List the queues of your tenant: depth, throughput, workers, limits and pauses."""
    return QueueList(await list_queues(call.store, call.clock, call.tenant))


async def get_queue(call: Call[Nothing, Nothing]) -> QueueReport:
    """Get one queue of your tenant."""
    return await _read(call)


async def get_load(call: Call[Nothing, Nothing]) -> QueueLoad:
    """Get the number of jobs of a queue that need a worker now, for an autoscaler such as KEDA.

    A queue without jobs has the load 0.
    """
    return await measure_load(call.store, call.clock, call.tenant, call.path["queue"])


async def pause_queue(call: Call[QueueOrder, Nothing]) -> QueueReport:
    """Start no more jobs of the queue until it is resumed. Running jobs finish.

    Workers notice within seconds. The limits of the queue stay as they are.
    """
    return await _set_paused(call, paused=True)


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


_UNKNOWN = (404,)

ROUTES: tuple[Route, ...] = (
    route("GET", QUEUES, get_queues, Scope.READ, "queues"),
    route("GET", ONE_QUEUE, get_queue, Scope.READ, "queues", errors=_UNKNOWN),
    route("GET", f"{ONE_QUEUE}/load", get_load, Scope.READ, "queues"),
    route("POST", f"{ONE_QUEUE}/pause", pause_queue, Scope.OPERATE, "queues", errors=_UNKNOWN),
    route("POST", f"{ONE_QUEUE}/resume", resume_queue, Scope.OPERATE, "queues", errors=_UNKNOWN),
)
