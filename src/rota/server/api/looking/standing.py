"""All jobs from afar: the overview, the queues, and who works on them."""

import msgspec

from rota.auth.caller import Scope
from rota.ops.overview import Overview, QueueStanding, list_queues, take_overview
from rota.server.api.shapes.words import Moment
from rota.server.routing.route import Call, Nothing, Route
from rota.worker.presence import WorkerPresence, list_workers


class QueueList(msgspec.Struct, frozen=True):
    """Every queue of your tenant that has jobs which are not done with, by name."""

    items: tuple[QueueStanding, ...]
    next_cursor: str | None = None
    has_more: bool = False


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that takes jobs of your tenant; ``queues`` is null when it takes from all.

    Of one that speaks HTTP the ``host`` is ``http``, and ``kinds`` may be ``*``: whatever comes.
    """

    id: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...]
    concurrency: int
    version: str
    started_at: Moment
    seen_at: Moment


class WorkerList(msgspec.Struct, frozen=True):
    """The workers that take jobs of your tenant, those first that have run for the longest."""

    items: tuple[WorkerView, ...]
    next_cursor: str | None = None
    has_more: bool = False


async def get_overview(call: Call[Nothing, Nothing]) -> Overview:
    """Get how the jobs of your tenant stand: counts, queues, what is red, what comes next."""
    around = call.around
    return await take_overview(around.store, around.clock, call.caller.tenant)


async def get_queues(call: Call[Nothing, Nothing]) -> QueueList:
    """List the queues of your tenant: how many are due, since when, running and dead."""
    around = call.around
    return QueueList(await list_queues(around.store, around.clock, call.caller.tenant))


async def get_workers(call: Call[Nothing, Nothing]) -> WorkerList:
    """List the workers that take jobs of your tenant."""
    found = await list_workers(call.around.store, call.around.clock.now())
    tenant = call.caller.tenant
    return WorkerList(
        tuple(_view(it) for it in found if it.tenants is None or tenant in it.tenants)
    )


def _view(worker: WorkerPresence) -> WorkerView:
    """Without the other tenants that it works for."""
    return msgspec.convert(worker, WorkerView, from_attributes=True)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/v1/overview",
        handler=get_overview,
        scope=Scope.READ,
        tag="overview",
        answers={200: Overview},
    ),
    Route(
        method="GET",
        path="/api/v1/queues",
        handler=get_queues,
        scope=Scope.READ,
        tag="overview",
        answers={200: QueueList},
    ),
    Route(
        method="GET",
        path="/api/v1/workers",
        handler=get_workers,
        scope=Scope.READ,
        tag="overview",
        answers={200: WorkerList},
    ),
)
