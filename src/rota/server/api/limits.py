"""Limits on concurrency and rate, and priority ageing."""

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.policy.limits import Limit, Rate
from rota.rail.settings import clear_limit, list_limits, set_limit
from rota.server.api.fields import (
    Moment,
    QueueName,
    Whole,
    Whose,
    Why,
    naming_fields,
    tenant_of,
)
from rota.server.http.route import Answer, Call, Nothing, Route, route

LIMITS = "/api/v1/limits"

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


async def get_limits(call: Call[Nothing, Nothing]) -> LimitPage:
    """List the limits that apply to your tenant: its own, and those of all tenants."""
    kept = (await list_limits(call.store)).limits
    return LimitPage([_view(it) for it in kept if it.tenant in (None, call.tenant)])


async def put_limit(call: Call[LimitBody, Nothing]) -> LimitView:
    """Set the limit of a scope. It replaces the earlier one; workers notice within seconds."""
    limit = _read(call)
    await set_limit(call.store, limit, who=call.who, why=call.body.why, clock=call.clock)
    return _view(limit)


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


def _read(call: Call[LimitBody, Nothing]) -> Limit:
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


def _view(limit: Limit) -> LimitView:
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


ROUTES: tuple[Route, ...] = (
    route("GET", LIMITS, get_limits, Scope.READ, "limits"),
    route("PUT", LIMITS, put_limit, Scope.ADMIN, "limits"),
    route("DELETE", LIMITS, delete_limit, Scope.ADMIN, "limits", answers={204: None}),
)
