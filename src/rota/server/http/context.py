"""What every handler works with: the settings of the server, its store, clock and metrics."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest

from rota.auth.masking import SECRET_WORDS
from rota.auth.sessions import SESSION_FOR
from rota.clock.protocol import Clock
from rota.errors import StoreError
from rota.events import EventEmitter
from rota.jobs import JobId
from rota.jobs.identity import make_job_id
from rota.ops.leases import HttpLeases
from rota.ops.served_kinds import CheckPayload, ServedKinds
from rota.policy.limits import Rate
from rota.rail import DeadLetters, Rail
from rota.rail.jobs import RailContext, RailSettings, RailStore
from rota.server.http.limits import WaitingQuota
from rota.stores.inspection import StoreInspection
from rota.stores.opened import OpenStore
from rota.telemetry.health import Inspect, StoreStatus, complete_store_status, read_store_status
from rota.telemetry.metrics import Metrics

MEBIBYTE = 1 << 20
SURVEYED_EVERY = timedelta(seconds=10)
"""The store is surveyed at most this often, however often metrics are scraped."""

_SECOND = timedelta(seconds=1)
_ID_BITS = 62
_NOT_INSPECTED = StoreInspection(address="", kind="")


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for callers. None means no limit.

    ``token_rate`` counts the requests of one token, ``stranger_rate`` the requests of one address
    without a valid token; each server process counts separately. ``waiting_limit`` is the maximum
    number of waiting jobs per tenant. ``hosts`` are the accepted host names, without ports. A body
    must arrive within ``body_within``. The pages hide payload fields whose names contain one of
    ``masked_words``.
    """

    token_rate: Rate | None = Rate(count=1_000, per=_SECOND, burst=2_000)
    stranger_rate: Rate | None = Rate(count=20, per=_SECOND, burst=100)
    waiting_limit: int | None = 5_000_000
    hosts: tuple[str, ...] | None = None
    body_within: timedelta | None = timedelta(seconds=30)
    session_for: timedelta = SESSION_FOR
    masked_words: tuple[str, ...] = SECRET_WORDS


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a server.

    A body longer than ``longest_body`` bytes is refused and not read to its end. ``inspect`` is
    usually ``partial(inspect_store, url)``; with it the metrics include job counts by status.
    ``zone`` is the zone of the pages and of the declarative tasks; default: the host's.
    ``checks`` refuse payloads that do not fit their kind.
    """

    longest_body: int = MEBIBYTE
    inspect: Inspect | None = None
    guarding: GuardSettings = GuardSettings()
    zone: tzinfo | None = None
    checks: Mapping[str, CheckPayload] = {}


class ServerMetrics:
    """The metrics of one server in their own registry, and the events of the server itself.

    ``metrics.follow(worker.events)`` adds the workers of this process.
    """

    def __init__(self, store: RailStore, inspect: Inspect | None = None) -> None:
        self._registry = CollectorRegistry()
        self.metrics = Metrics(self._registry)
        self.events = EventEmitter("rota.server")
        self.metrics.follow(self.events)
        self._store = store
        self._inspect = inspect
        self._surveyed_at: datetime | None = None
        ProcessCollector(registry=self._registry)

    async def show(self, now: datetime) -> bytes:
        """All metrics in the Prometheus text format."""
        if self._surveyed_at is None or not now - SURVEYED_EVERY < self._surveyed_at <= now:
            self.metrics.show(await self._read_status(now))
            self._surveyed_at = now
        return generate_latest(self._registry)

    async def _read_status(self, now: datetime) -> StoreStatus | None:
        try:
            if self._inspect is not None:
                return await read_store_status(self._store, self._inspect, now)
            status = await complete_store_status(self._store, _NOT_INSPECTED, now)
        except StoreError:
            return None  # reported as a metric
        return msgspec.structs.replace(status, job_counts={})


class ServerContext(NamedTuple):
    """The store, the clock and the shared services of one server."""

    store: OpenStore
    clock: Clock
    draw_bits: Callable[[int], int]
    metrics: ServerMetrics
    quota: WaitingQuota
    leases: HttpLeases
    served: ServedKinds
    masked_words: Collection[str] = SECRET_WORDS

    def make_id(self, now: datetime) -> JobId:
        return make_job_id(now, self.draw_bits(_ID_BITS))

    def rail_context(self, tenant: str) -> RailContext:
        """What the functions of ``rota.ops`` need to act for a tenant."""
        return RailContext(self.store, tenant, self.clock, RailSettings(), self.draw_bits)

    def rail(self, tenant: str) -> Rail:
        return Rail(self.store, tenant, clock=self.clock, draw_bits=self.draw_bits)

    def dead_letters(self, tenant: str) -> DeadLetters:
        return DeadLetters(self.store, tenant, clock=self.clock, draw_bits=self.draw_bits)
