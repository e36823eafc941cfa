"""Limits: how many jobs run at once, start in a time, or gain priority by waiting."""

from datetime import timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidInputError, InvalidRequestError
from rota.policy.limits import Limit, Rate
from rota.rail.settings import clear_limit, list_limits, set_limit
from rota.server.api.operating.word import Why
from rota.server.api.shapes.limited import QueueName
from rota.server.routing.route import Answer, Call, Nothing, Route

LIMITS = "/api/v1/limits"

Whose = Annotated[
    Literal["own", "all"],
    Meta(description="own: for your tenant only; all: for all tenants together."),
]
_SECOND = timedelta(seconds=1)
_LONGEST_SECONDS = 31_622_400
_OUTER_NAMES = {"rate.per": "rate.per_seconds", "ageing": "ageing_seconds"}


def _between(lowest: int, highest: int) -> Meta:
    return Meta(ge=lowest, le=highest)


class RateBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``count`` jobs start in every ``per_seconds``, up to ``burst`` of them at once."""

    count: Annotated[int, _between(1, 1_000_000_000)]
    per_seconds: Annotated[int, _between(1, _LONGEST_SECONDS)]
    burst: Annotated[int, _between(1, 1_000_000_000)] | None = None


class LimitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for a scope; at least one of the last three.

    - ``running``: so many run at once; with 0 they wait.
    - ``rate``: so many start in a time.
    - ``ageing_seconds``, for a queue of all tenants only: for each such time that a job has waited
      it counts as one priority higher.
    """

    whose: Whose = "own"
    queue: QueueName | None = None
    running: Annotated[int, _between(0, 1_000_000_000)] | None = None
    rate: RateBody | None = None
    ageing_seconds: Annotated[int, _between(1, _LONGEST_SECONDS)] | None = None
    why: Why | None = None


class LimitScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose limit, and in which queue; without one, in all."""

    whose: Whose = "own"
    queue: QueueName | None = None


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that holds for your tenant."""

    whose: Whose
    queue: str | None
    running: int | None
    rate: RateBody | None
    ageing_seconds: float | None


class LimitPage(msgspec.Struct, frozen=True):
    """All limits that hold for your tenant."""

    items: list[LimitView]
    next_cursor: str | None = None
    has_more: bool = False


async def get_limits(call: Call[Nothing, Nothing]) -> LimitPage:
    """List the limits that hold for your tenant: its own, and those of all."""
    kept = (await list_limits(call.around.store)).limits
    return LimitPage([_view(it) for it in kept if it.tenant in (None, call.caller.tenant)])


async def put_limit(call: Call[LimitBody, Nothing]) -> LimitView:
    """Set the limit of a scope, in the place of what held before; workers notice in seconds."""
    limit = _read(call.body, call.caller.tenant)
    around = call.around
    await set_limit(around.store, limit, who=call.caller.who, why=call.body.why, clock=around.clock)
    return _view(limit)


async def delete_limit(call: Call[Nothing, LimitScope]) -> Answer:
    """Clear the limit of a scope; it is no error if there is none."""
    asked, around = call.query, call.around
    await clear_limit(
        around.store,
        tenant=call.caller.tenant if asked.whose == "own" else None,
        queue=asked.queue,
        who=call.caller.who,
        clock=around.clock,
    )
    return Answer(204)


def _read(asked: LimitBody, tenant: str) -> Limit:
    try:
        return Limit(
            tenant=tenant if asked.whose == "own" else None,
            queue=asked.queue,
            running=asked.running,
            rate=None if asked.rate is None else _read_rate(asked.rate),
            ageing=None if asked.ageing_seconds is None else asked.ageing_seconds * _SECOND,
        )
    except InvalidInputError as error:
        field = str(error.details.get("field", "running"))
        reason = str(error.details.get("reason", error.message))
        raise InvalidRequestError(_OUTER_NAMES.get(field, field), reason) from error


def _read_rate(asked: RateBody) -> Rate:
    return Rate(count=asked.count, per=asked.per_seconds * _SECOND, burst=asked.burst)


def _view(limit: Limit) -> LimitView:
    rate = limit.rate
    return LimitView(
        whose="all" if limit.tenant is None else "own",
        queue=limit.queue,
        running=limit.running,
        rate=None
        if rate is None
        else RateBody(count=rate.count, per_seconds=rate.per // _SECOND, burst=rate.burst),
        ageing_seconds=None if limit.ageing is None else limit.ageing.total_seconds(),
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=LIMITS,
        handler=get_limits,
        scope=Scope.READ,
        tag="limits",
        answers={200: LimitPage},
    ),
    Route(
        method="PUT",
        path=LIMITS,
        handler=put_limit,
        scope=Scope.ADMIN,
        tag="limits",
        body=LimitBody,
        answers={200: LimitView},
    ),
    Route(
        method="DELETE",
        path=LIMITS,
        handler=delete_limit,
        scope=Scope.ADMIN,
        tag="limits",
        query=LimitScope,
        answers={204: None},
    ),
)
