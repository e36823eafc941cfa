"""The settings of a worker, and the resources that its parts share."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Protocol

import msgspec

from rota.clock.protocol import Clock
from rota.errors import invalid
from rota.events import EventEmitter
from rota.fleet.outage import Outage
from rota.jobs.retention import Keep
from rota.policy.gates import Gate
from rota.policy.watch import GateWatch, LimitWatch
from rota.stores.protocol import JobStore, TransactionalStore
from rota.worker.context import Lifespan, Middleware
from rota.worker.registry import Registry

_NO_TIME = timedelta(0)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker runs, the gate that jobs pass before their handlers, and the limits on leases.

    - ``batch``: the most jobs leased at once. ``concurrency``: the most jobs that run at once.
    - ``lease_for``: how long a job is held without a sign of life. When its worker dies, the job is
      rescued after that time and at most half of it more, never more than 15 s. Heartbeats let jobs
      run longer.
    - ``poll_for``: how often an idle worker looks for jobs without being notified.
    - ``queues``, ``tenants``: which jobs are leased; by default all. Of these only kinds that have
      a handler here, and of jobs with a version label those whose label is among ``labels``. With
      ``takes_any_kind`` kinds without a handler are leased too, and fail.
    - ``grace_for``: how long running jobs may go on when the worker stops.
    - ``retention``: what is removed, and when, where no stored rule says otherwise. A ``timedelta``
      is for all jobs that have ended. By default the worker removes nothing.

    And what the program adds to each run: ``middleware`` is called around every handler, the first
    one outermost. ``lifespan`` opens what handlers share, and closes it when the worker has
    stopped. With ``captures_logs``, the log lines of an attempt are kept with it. A child process
    is replaced after ``jobs_per_process`` jobs.
    """

    batch: int = 10
    concurrency: int = 10
    lease_for: timedelta = timedelta(seconds=60)
    poll_for: timedelta = timedelta(seconds=1)
    queues: Collection[str] | None = None
    tenants: Collection[str] | None = None
    grace_for: timedelta = timedelta(seconds=25)
    retention: Keep | timedelta | None = None
    gate: Gate | None = None
    limits: LimitWatch | None = None
    middleware: Sequence[Middleware] = ()
    lifespan: Lifespan | None = None
    captures_logs: bool = True
    jobs_per_process: int = 100
    labels: Collection[str] = ()
    takes_any_kind: bool = False

    def __post_init__(self) -> None:
        for field in ("batch", "concurrency", "jobs_per_process"):
            _check_count(field, getattr(self, field))
        for field in ("lease_for", "poll_for"):
            _check_duration(field, getattr(self, field))
        _check_duration("grace_for", self.grace_for, may_be_zero=True)
        if self.retention is not None and not isinstance(self.retention, Keep):
            _check_duration("retention", self.retention, may_be_zero=True)
        for field in ("queues", "tenants"):
            _check_names(field, getattr(self, field))
        _check_names("labels", self.labels or None)
        if self.gate is not None and not callable(getattr(self.gate, "judge", None)):
            raise invalid("gate", f"must have a method judge, got {self.gate!r:.40}")
        if self.limits is not None and not isinstance(self.limits, LimitWatch):
            raise invalid("limits", f"must be a LimitWatch, got {self.limits!r:.40}")
        _check_middleware(self.middleware)
        if self.lifespan is not None and not callable(self.lifespan):
            raise invalid("lifespan", f"must be callable, got {self.lifespan!r:.40}")

    @property
    def keep(self) -> Keep | None:
        """The retention as a rule; None if the worker removes nothing."""
        if isinstance(self.retention, timedelta):
            return Keep(ended=self.retention, dead=self.retention)
        return self.retention


class WorkerStore(JobStore, TransactionalStore, Protocol):
    """A store of jobs, and of the documents that record what handlers did once."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What the parts of one worker share.

    ``name`` is the owner of its leases. All jitter is drawn from ``random``. ``gate`` and
    ``limits`` are those in the store, in addition to the gate in the settings.
    """

    store: WorkerStore
    clock: Clock
    settings: WorkerSettings
    handlers: Registry
    events: EventEmitter
    random: Random
    name: str
    outage: Outage
    gate: GateWatch
    limits: LimitWatch


def _check_count(field: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise invalid(field, f"must be an integer of at least 1, got {value!r:.40}")


def _check_duration(field: str, value: object, *, may_be_zero: bool = False) -> None:
    if not isinstance(value, timedelta):
        raise invalid(field, f"must be a timedelta, got {value!r:.40}")
    if value < _NO_TIME or (value == _NO_TIME and not may_be_zero):
        least = "must not be negative" if may_be_zero else "must be positive"
        raise invalid(field, f"{least}, got {value}")


def _check_names(field: str, names: object) -> None:
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, Collection):
        raise invalid(field, f"must be a collection of names, got {names!r:.40}")
    if not names or not all(isinstance(name, str) and name for name in names):
        raise invalid(field, f"must contain at least one name, and only names, got {names!r:.40}")


def _check_middleware(middleware: object) -> None:
    """Refuse anything but a sequence of callables."""
    if isinstance(middleware, str) or not isinstance(middleware, Sequence):
        raise invalid("middleware", f"must be a sequence of callables, got {middleware!r:.40}")
    for each in middleware:
        if not callable(each):
            raise invalid("middleware", f"must contain only callables, got {each!r:.40}")
