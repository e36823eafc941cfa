"""What every handler works with: the settings of the server, its store, clock and metrics."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

import msgspec

from rota.auth.caller import Caller
from rota.auth.masking import SECRET_WORDS
from rota.auth.sessions import SESSION_FOR
from rota.clock.protocol import Clock
from rota.jobs import Job, JobId
from rota.jobs.fields import make_job_id
from rota.ops.changes import ChangeFeed
from rota.ops.kinds import CheckPayload, ServedKinds
from rota.ops.leases import HttpLeases
from rota.policy.limits import Rate
from rota.rail import DeadLetters, Rail
from rota.rail.jobs import RailContext, RailSettings
from rota.rail.noted_series import note_alerts
from rota.rail.settings import EVERYBODY
from rota.server.http.limits import WaitingQuota
from rota.server.http.metrics import ServerMetrics
from rota.stores.opened import OpenStore
from rota.stores.protocol import Inserted
from rota.telemetry.health import Inspect
from rota.telemetry.stats_recorder import StatsRecorder
from rota.worker import WorkerSettings

MEBIBYTE = 1 << 20
_SECOND = timedelta(seconds=1)
_ID_BITS = 62


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
    ``checks`` refuse payloads that do not fit their kind. ``stats`` counts what the workers of this
    process do, and those over HTTP; by default the server has its own. ``worker`` says how often
    waiting workers over HTTP look for jobs, and how long their leases last.
    """

    longest_body: int = MEBIBYTE
    inspect: Inspect | None = None
    guarding: GuardSettings = GuardSettings()
    zone: tzinfo | None = None
    checks: Mapping[str, CheckPayload] = {}
    stats: StatsRecorder | None = None
    worker: WorkerSettings = WorkerSettings()


class ServerContext(NamedTuple):
    """The store, the clock and the shared services of one server."""

    store: OpenStore
    clock: Clock
    draw_bits: Callable[[int], int]
    metrics: ServerMetrics
    quota: WaitingQuota
    leases: HttpLeases
    served: ServedKinds
    changes: ChangeFeed
    masked_words: Collection[str] = SECRET_WORDS

    def make_id(self, now: datetime) -> JobId:
        return make_job_id(now, self.draw_bits(_ID_BITS))


class Admitted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request of a known caller, and what the server works with."""

    caller: Caller
    context: ServerContext

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @property
    def who(self) -> str:
        """The caller's name in the audit log."""
        return self.caller.who

    @property
    def store(self) -> OpenStore:
        return self.context.store

    @property
    def clock(self) -> Clock:
        return self.context.clock

    @property
    def around(self) -> RailContext:
        """What the functions of ``rota.ops`` need to act for the tenant."""
        return self.around_of(self.tenant)

    def around_of(self, tenant: str | None) -> RailContext:
        """The same for another tenant, or for all of them."""
        known, draw_bits = self.context, self.context.draw_bits
        whose = EVERYBODY if tenant is None else tenant
        return RailContext(known.store, whose, known.clock, RailSettings(), draw_bits)

    @property
    def rail(self) -> Rail:
        return Rail(self.store, self.tenant, clock=self.clock, draw_bits=self.context.draw_bits)

    @property
    def dead_letters(self) -> DeadLetters:
        draw_bits = self.context.draw_bits
        return DeadLetters(self.store, self.tenant, clock=self.clock, draw_bits=draw_bits)

    async def admit(self, job_count: int = 1) -> None:
        """Count jobs that are about to be stored; QuotaExceededError when they are too many."""
        await self.context.quota.admit(self.tenant, job_count)

    async def insert(self, jobs: Sequence[Job], now: datetime) -> Sequence[Inserted]:
        """Store new jobs of the tenant, all of them or none, as far as its quota allows."""
        await self.admit(len(jobs))
        await note_alerts(self.store, jobs)
        return await self.store.insert(jobs, now)
