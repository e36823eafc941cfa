"""Liveness, readiness and metrics of the service."""

import asyncio
from typing import Literal

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from rota.auth.caller import Scope
from rota.errors import StoreUnavailableError
from rota.jobs.record import DEFAULT_TENANT
from rota.server.http.route import Answer, Call, Nothing, Resource

SERVICE = Resource("", "service")

ANSWERS_WITHIN_SECONDS = 3

_UNUSED_ID = "00000000-0000-0000-0000-000000000000"


class Liveness(msgspec.Struct, frozen=True):
    """The process responds."""

    status: Literal["alive"] = "alive"


class Readiness(msgspec.Struct, frozen=True):
    """The process and its store respond."""

    status: Literal["ready"] = "ready"


@SERVICE.route("GET", "/health/live", None)
async def check_liveness(_call: Call[Nothing, Nothing]) -> Liveness:
    """Check that the service is alive.

    Does not query the store.
    """
    return Liveness()


@SERVICE.route("GET", "/health/ready", None)
async def check_readiness(call: Call[Nothing, Nothing]) -> Readiness:
    """Check that the service can work.

    503 while its store does not respond.
    """
    try:
        async with asyncio.timeout(ANSWERS_WITHIN_SECONDS):
            await call.store.get(DEFAULT_TENANT, [_UNUSED_ID])
    except TimeoutError as error:
        raise StoreUnavailableError("The store does not answer") from error
    return Readiness()


@SERVICE.route("GET", "/metrics", Scope.ADMIN, answers={200: str}, media=CONTENT_TYPE_LATEST)
async def show_metrics(call: Call[Nothing, Nothing]) -> Answer:
    """Get the metrics of the whole installation in the Prometheus text format."""
    return Answer(200, await call.context.metrics.show(call.clock.now()))
