"""Whether the service lives, whether it can work, and its metrics."""

import asyncio
from typing import Literal

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from rota.auth.caller import Scope
from rota.errors import StoreUnavailableError
from rota.jobs.record import DEFAULT_TENANT
from rota.server.routing.route import Answer, Call, Nothing, Route

ANSWERS_WITHIN_SECONDS = 3

_NO_JOB = "00000000-0000-0000-0000-000000000000"


class Liveness(msgspec.Struct, frozen=True):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Readiness(msgspec.Struct, frozen=True):
    """The process answers, and so does its store."""

    status: Literal["ready"] = "ready"


async def check_liveness(_call: Call[Nothing, Nothing]) -> Liveness:
    """Whether the service lives.

    The store is not asked.
    """
    return Liveness()


async def check_readiness(call: Call[Nothing, Nothing]) -> Readiness:
    """Whether the service can work.

    503 while its store does not answer.
    """
    try:
        async with asyncio.timeout(ANSWERS_WITHIN_SECONDS):
            await call.around.store.get(DEFAULT_TENANT, [_NO_JOB])
    except TimeoutError as error:
        raise StoreUnavailableError("The store does not answer") from error
    return Readiness()


async def show_metrics(call: Call[Nothing, Nothing]) -> Answer:
    """Metrics of the whole installation, as Prometheus reads them."""
    return Answer(200, await call.around.metrics.show(call.around.clock.now()))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/health/live",
        handler=check_liveness,
        scope=None,
        tag="service",
        answers={200: Liveness},
    ),
    Route(
        method="GET",
        path="/health/ready",
        handler=check_readiness,
        scope=None,
        tag="service",
        answers={200: Readiness},
    ),
    Route(
        method="GET",
        path="/metrics",
        handler=show_metrics,
        scope=Scope.ADMIN,
        tag="service",
        answers={200: str},
        media=CONTENT_TYPE_LATEST,
    ),
)
