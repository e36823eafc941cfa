"""What a process runs: the store, the parts on it, where it listens, and who hears of it."""

import socket
from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple, TypeAlias

import msgspec

from rota.clock.protocol import Clock
from rota.errors import AddressUnusableError
from rota.events import Event
from rota.runtime.configuration import MetricsAddress, Webhook
from rota.runtime.engines import WorkPlan
from rota.runtime.process import Say
from rota.runtime.user_modules import Registration, ServedApp
from rota.runtime.watch import SendAlerts
from rota.scheduler.policy import DECLARATIVE, SchedulerPolicy, SchedulerSettings
from rota.stores.opened import OpenStore
from rota.telemetry.stats_recorder import StatsRecorder
from rota.worker import WorkerSettings

BACKLOG = 2048

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen. Port 0 takes any free port."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT


class Listening(msgspec.Struct, frozen=True):
    """A bound socket and its URL."""

    socket: socket.socket
    url: str


def listen_on(binding: Binding) -> Listening:
    """Bind the address. Raises AddressUnusableError when that is not possible."""
    family = socket.AF_INET6 if ":" in binding.host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((binding.host, binding.port))
        taken.listen(BACKLOG)  # now, so that the URL works as soon as it is printed
    except (OSError, OverflowError) as error:
        taken.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise AddressUnusableError(binding.host, binding.port, reason) from error
    host = f"[{binding.host}]" if family == socket.AF_INET6 else binding.host
    return Listening(taken, f"http://{host}:{taken.getsockname()[1]}")


ListTasks: TypeAlias = Callable[[OpenStore, Clock], Sequence[Any]]
"""Returns the registrations, once the store is open."""


class TaskPlan(msgspec.Struct, frozen=True):
    """Which declarative tasks run, in which zone, by which edition's policy and limits."""

    list_tasks: ListTasks
    zone: tzinfo | None = None
    policy: SchedulerPolicy = DECLARATIVE
    settings: SchedulerSettings = SchedulerSettings()


class RuntimePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The store, and the parts that run on it. A part that is None does not run.

    ``binding`` is the address of the API and the pages. ``greets`` gives a new store a first token
    and, once the tasks are scheduled, a first job. ``apps`` are open while the process runs, beside
    those among the worker's references. ``settings`` are those of rescue and of leases over HTTP
    where no worker runs. ``metrics`` is where a process without pages shows its metrics. Alerts are
    posted to ``webhook``.
    """

    store_url: str
    binding: Binding | None = None
    work: WorkPlan | None = None
    tasks: TaskPlan | None = None
    greets: bool = False
    apps: Sequence[ServedApp] = ()
    webhook: Webhook | None = None
    settings: WorkerSettings = WorkerSettings()
    metrics: MetricsAddress | None = None

    @property
    def worker_settings(self) -> WorkerSettings:
        return self.settings if self.work is None else self.work.settings


class Reporter(NamedTuple):
    """What is called with messages (``say``), with events (``listen``) and with the first token.

    ``show_token`` must not write the token to a log.
    """

    say: Say
    listen: Callable[[Event], object] | None = None
    show_token: Callable[[str], object] | None = None


class Resources(NamedTuple):
    """What the parts of a runtime share."""

    store: OpenStore
    clock: Clock
    registrations: Sequence[Registration]
    listening: Listening | None
    stats: StatsRecorder
    send_alerts: SendAlerts | None
