"""How many jobs ended how, minute by minute, and how long they had waited and taken."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import add
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.server.api.shapes.words import Moment
from rota.server.routing.route import Call, Nothing, Route
from rota.telemetry.stats import RETENTION, MinuteStats, read_stats

SHOWN_FOR = timedelta(hours=1)
"""As far back as is shown when nobody says since when."""


class ThroughputChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which minutes: those that began at ``since`` or later, and before ``until``."""

    since: Annotated[
        Moment | None,
        Meta(description="At most 48 hours before until. Default: an hour before it."),
    ] = None
    until: Annotated[Moment | None, Meta(description="Default: now.")] = None


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """Many durations in a few numbers; mean and estimates are null when there were none.

    Half of them were not longer than ``p50_ms``, and 95 of 100 not longer than ``p95_ms``: both
    are estimates from a histogram.
    """

    count: int
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    longest_ms: float


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts ended how.

    Each is one of ``succeeded``, ``failed``, ``deferred`` and ``stalled``; those that were a job's
    last are ``dead`` besides. ``wait`` is how long jobs had been due when they were leased,
    ``handler`` how long their handlers took.
    """

    succeeded: int
    failed: int
    dead: int
    deferred: int
    stalled: int
    wait: Durations
    handler: Durations


class EndedMinute(Ended, frozen=True, kw_only=True):
    """The same of the minute that began ``at``."""

    at: Moment


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """All of it in ``total``, and every minute in which something ended, in order."""

    since: Moment
    until: Moment
    total: Ended
    minutes: tuple[EndedMinute, ...]


async def get_throughput(call: Call[Nothing, ThroughputChoice]) -> Throughput:
    """Get how many jobs of your tenant ended how in each minute, of the last 48 hours at most."""
    around = call.around
    since, until = _choose(call.query, around.clock.now())
    tallies = await read_stats(around.store, call.caller.tenant, since, until)
    return Throughput(
        since=since,
        until=until,
        total=msgspec.convert(_add_up(tallies, since), Ended, from_attributes=True),
        minutes=msgspec.convert(tallies, tuple[EndedMinute, ...], from_attributes=True),
    )


def _choose(asked: ThroughputChoice, now: datetime) -> tuple[datetime, datetime]:
    until = asked.until or now
    try:
        since = asked.since or until - SHOWN_FOR
    except OverflowError:
        raise InvalidRequestError("until", "is at the beginning of all time") from None
    if since >= until:
        raise InvalidRequestError("since", "must be before until")
    if until - since > RETENTION:
        raise InvalidRequestError("since", "must not be more than 48 hours before until")
    return since, until


def _add_up(tallies: Sequence[MinuteStats], since: datetime) -> MinuteStats:
    return reduce(add, tallies, MinuteStats(at=since))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/v1/throughput",
        handler=get_throughput,
        scope=Scope.READ,
        tag="overview",
        query=ThroughputChoice,
        answers={200: Throughput},
    ),
)
