"""The overview of a tenant: counts, queues, workers and throughput; tenants side by side."""

from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import add
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.ops.overview import Overview, take_overview
from rota.ops.polled import list_pollers_of
from rota.ops.queues import BusyWorker, survey_workers
from rota.ops.tenants import TenantReport, compare_tenants
from rota.server.api.fields import Moment, Whole
from rota.server.http.route import Call, Nothing, Resource
from rota.telemetry.stats import HOURS, MINUTES, MinuteStats, read_stats

OVERVIEW = Resource("/api/v1", "overview")

SHOWN_FOR = timedelta(hours=1)
"""The default range of the throughput."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that takes jobs of your tenant. ``queues`` null means all queues.

    An HTTP worker has the ``host`` ``http``; its ``kinds`` may be ``*``, which means any kind.
    ``labels`` are the version labels that it offers.
    ``batch``, ``poll_ms`` and ``lease_ms`` are its settings: how many jobs it leases at once, how
    often it looks for them, and how long its leases last. ``poll_ms`` is null for an HTTP worker
    whose requests do not wait. ``busy_count`` jobs of your tenant run on it now, and it has leased
    ``ahead_count`` more; of all workers together, 100 jobs are counted.
    """

    id: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...]
    labels: tuple[str, ...] = ()
    concurrency: int
    batch: int | None = None
    poll_ms: int | None = None
    lease_ms: int | None = None
    version: str
    started_at: Moment
    seen_at: Moment
    busy_count: int
    ahead_count: int


class WorkerList(Whole[WorkerView], frozen=True):
    """The workers that take jobs of your tenant, longest running first."""


class PolledDocumentView(msgspec.Struct, frozen=True, kw_only=True):
    """A document that a poller has locked; with an ``error``, it is due again at ``until``."""

    id: str
    since: Moment
    until: Moment
    error: str | None = None


class PollerView(msgspec.Struct, frozen=True, kw_only=True):
    """A poller, what it polls, and what it has done since it started.

    ``holds`` is the document that it processes now; ``failures`` are its last ones.
    """

    id: str
    host: str
    pid: int
    source: str
    started_at: Moment
    seen_at: Moment
    processed_count: int
    failed_count: int
    holds: PolledDocumentView | None
    failures: tuple[PolledDocumentView, ...]


class PollerList(Whole[PollerView], frozen=True):
    """The pollers that report to this store, longest running first; for the default tenant."""


class ThroughputChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The minutes, or hours, from ``since`` on, before ``until``."""

    since: Annotated[
        Moment | None,
        Meta(
            description="At most 48 hours before until, or 31 days by hour. "
            "Default: an hour before it, or a day."
        ),
    ] = None
    until: Annotated[Moment | None, Meta(description="Default: now.")] = None
    step: Annotated[Literal["minute", "hour"], Meta(description="The length of each period.")] = (
        "minute"
    )


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of durations; null when there are none.

    ``p50_ms``, ``p95_ms`` and ``p99_ms`` are the median and the 95th and 99th percentile, estimated
    from a histogram.
    """

    count: int
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    longest_ms: float


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The number of attempts by outcome.

    Each attempt is ``succeeded``, ``failed``, ``deferred`` or ``stalled``; the last attempt of a
    job that failed for good also counts as ``dead``. ``wait`` is how long jobs had been due when
    they were leased, ``handler`` how long their handlers took.
    """

    succeeded: int
    failed: int
    dead: int
    deferred: int
    stalled: int
    wait: Durations
    handler: Durations


class EndedMinute(Ended, frozen=True, kw_only=True):
    """The same for the minute, or hour, that began ``at``."""

    at: Moment


class EndedPart(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts of one kind in one queue. ``failed`` includes stalled ones."""

    kind: str
    queue: str
    succeeded: int
    failed: int
    dead: int


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """The ``total``, its parts, and every minute, or hour, in which an attempt ended, in order."""

    since: Moment
    until: Moment
    total: Ended
    parts: tuple[EndedPart, ...] = ()
    minutes: tuple[EndedMinute, ...] = ()
    hours: tuple[EndedMinute, ...] = ()


class FleetCounters(msgspec.Struct, frozen=True, kw_only=True):
    """What all workers did for all tenants since the store was created.

    The names are those of specification 3. Snoozed and released attempts do not count.
    """

    counters: dict[str, int]
    timings: dict[str, Durations]


@OVERVIEW.route("GET", "/overview", Scope.READ)
async def get_overview(call: Call[Nothing, Nothing]) -> Overview:
    """Get the overview of your tenant: counts, queues, alarms, next runs and failures."""
    return await take_overview(call.store, call.clock, call.tenant)


@OVERVIEW.route("GET", "/workers", Scope.READ)
async def get_workers(call: Call[Nothing, Nothing]) -> WorkerList:
    """List the workers that take jobs of your tenant, and how busy they are."""
    found = await survey_workers(call.store, call.tenant, call.clock.now())
    return WorkerList(tuple(_view_worker(each) for each in found.workers))


def _view_worker(each: BusyWorker) -> WorkerView:
    counts = {"busy_count": each.busy_count, "ahead_count": each.ahead_count}
    return msgspec.convert(msgspec.structs.asdict(each.worker) | counts, WorkerView)


@OVERVIEW.route("GET", "/pollers", Scope.READ)
async def get_pollers(call: Call[Nothing, Nothing]) -> PollerList:
    """List the pollers that report to this store, what they hold and what failed."""
    found = await list_pollers_of(call.store, call.clock.now(), call.tenant)
    return PollerList(msgspec.convert(found, tuple[PollerView, ...], from_attributes=True))


@OVERVIEW.route("GET", "/throughput", Scope.READ)
async def get_throughput(call: Call[Nothing, ThroughputChoice]) -> Throughput:
    """Get how many attempts of your tenant ended in each minute or hour, by outcome."""
    asked = call.query
    since, until = _choose(asked, call.clock.now())
    resolution = _RESOLUTIONS[asked.step]
    found = await read_stats(call.store, call.tenant, since, until, resolution)
    total = reduce(add, found, MinuteStats(at=since))
    periods = msgspec.convert(found, tuple[EndedMinute, ...], from_attributes=True)
    return Throughput(
        since=since,
        until=until,
        total=msgspec.convert(total, Ended, from_attributes=True),
        parts=msgspec.convert(total.parts, tuple[EndedPart, ...], from_attributes=True),
        minutes=periods if resolution is MINUTES else (),
        hours=periods if resolution is HOURS else (),
    )


_RESOLUTIONS = {"minute": MINUTES, "hour": HOURS}
_DEFAULT_RANGES = {"minute": SHOWN_FOR, "hour": timedelta(days=1)}
_FIRST = datetime.min.replace(tzinfo=UTC) + HOURS.kept_for
_LAST = datetime.max.replace(tzinfo=UTC) - HOURS.covered


def _choose(asked: ThroughputChoice, now: datetime) -> tuple[datetime, datetime]:
    until = asked.until or now
    if not _FIRST < until < _LAST:
        raise InvalidRequestError("until", "is too close to the first or the last supported date")
    since = asked.since or until - _DEFAULT_RANGES[asked.step]
    if since >= until:
        raise InvalidRequestError("since", "must be before until")
    if until - since > _RESOLUTIONS[asked.step].kept_for:
        longest = "48 hours before until" if asked.step == "minute" else "31 days before until"
        raise InvalidRequestError("since", f"must not be more than {longest}")
    return since, until


@OVERVIEW.route("GET", "/counters", Scope.ADMIN)
async def get_counters(call: Call[Nothing, Nothing]) -> FleetCounters:
    """Get the counters and timings of the whole installation."""
    totals = await call.context.metrics.read_totals()
    outcomes = totals.outcomes()
    return FleetCounters(
        counters={str(name): count for name, count in totals.counts().items()},
        timings={
            "handler.duration_ms": msgspec.convert(
                outcomes.handler, Durations, from_attributes=True
            ),
            "lease.wait_ms": msgspec.convert(outcomes.wait, Durations, from_attributes=True),
        },
    )


TENANTS = Resource("/api/v1/tenants", "tenants")


class TenantChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time that is compared."""

    hours: Annotated[int, Meta(ge=1, le=168, description="The last hours.")] = 1


class TenantList(Whole[TenantReport], frozen=True):
    """The tenants with attempts that ended in this time, the busiest first."""


@TENANTS.route("GET", "", Scope.ADMIN)
async def get_tenants(call: Call[Nothing, TenantChoice]) -> TenantList:
    """Compare the tenants of the installation; for an admin of the default tenant."""
    call.caller.check_installation()
    lasting = timedelta(hours=call.query.hours)
    return TenantList(await compare_tenants(call.store, call.clock, lasting))
