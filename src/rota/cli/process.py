"""What ``rota up``, ``serve`` and ``work`` share: options, and how a process starts and ends."""

import asyncio
from dataclasses import dataclass
from datetime import tzinfo
from typing import Annotated, Literal

from cyclopts import Parameter
from msgspec.structs import replace

from rota.app import Rota
from rota.auth.binding import check_binding
from rota.cli.arguments import read_duration
from rota.cli.event_lines import reporting
from rota.cli.options import bounds, flag, number, value
from rota.cli.output import Terminal
from rota.jobs.retention import parse_keep
from rota.runtime.configuration import Webhook, read_configuration, read_webhook
from rota.runtime.plan import DEFAULT_HOST, DEFAULT_PORT, Binding, ListTasks, RuntimePlan, TaskPlan
from rota.runtime.process import RuntimeEnd
from rota.runtime.startup import run_runtime
from rota.runtime.user_modules import load_reference, refuse
from rota.scheduler.policy import POLICIES, SchedulerSettings
from rota.worker import WorkerSettings

APP = "app"


@Parameter(name="*")
@dataclass(frozen=True)
class ProcessOptions:
    """The options of every process."""

    store: Annotated[
        str | None,
        value(
            "URL",
            "The address of the store. Default: the app's store, ROTA_STORE, or sqlite:///rota.db.",
        ),
    ] = None
    alert_webhook: Annotated[
        str | None, value("URL", "Post alerts to this address. Default: ROTA_ALERT_WEBHOOK.")
    ] = None
    alert_secret: Annotated[
        str | None,
        value("NAME", "The name of the secret that signs alerts. Default: ROTA_ALERT_SECRET."),
    ] = None
    keep: Annotated[
        str | None,
        Parameter(
            metavar="RULES",
            env_var="ROTA_KEEP",
            help="How long things are kept after their end, such as ended=7d,dead=90d. Names: "
            "ended, dead, results, attempts, audit, effects; or forever. Stored rules come first. "
            "Default: ended=30d,dead=90d,audit=365d,effects=30d.",
        ),
    ] = None
    as_json: Annotated[
        bool, flag("Print what happens as lines of JSON, for log collectors.", name="--json")
    ] = False

    @property
    def webhook(self) -> Webhook | None:
        return read_webhook(self.alert_webhook, self.alert_secret)

    def choose_store(self, app: Rota | None) -> str:
        """The address that was given, or else the app's, or else that of the environment."""
        if self.store is not None:
            if app is not None:
                app.use_store(self.store)
            return self.store
        return read_configuration().store_url if app is None else app.store_url

    def read_settings(self, app: Rota | None) -> WorkerSettings:
        """The settings of a worker: the environment's, then the app's, then the defaults."""
        found = read_configuration(settings=None if app is None else app.settings)
        given = parse_keep(self.keep or "", "--keep")
        return replace(found.worker, retention=given.over(found.keep))

    def run(self, terminal: Terminal, plan: RuntimePlan) -> None:
        """Run until SIGINT or SIGTERM; a second signal ends it as an interrupted program."""
        with reporting(terminal, as_json=self.as_json) as reporter:
            end_on(asyncio.run(run_runtime(plan, reporter, terminal.clock)))


@Parameter(name="*")
@dataclass(frozen=True)
class ListenOptions:
    """Where a process with pages listens."""

    host: Annotated[
        str,
        Parameter(
            metavar="ADDRESS",
            env_var="ROTA_HOST",
            help="The address to listen on; 0.0.0.0 means every address of this host.",
        ),
    ] = DEFAULT_HOST
    port: Annotated[
        int,
        Parameter(
            metavar="NUMBER",
            env_var="ROTA_PORT",
            validator=bounds(least=0, most=65535),
            help="The port to listen on; 0 picks a free one.",
        ),
    ] = DEFAULT_PORT

    def make_binding(self) -> Binding:
        """Where to listen. Raises when that address is not allowed."""
        check_binding(self.host, has_auth=True)
        return Binding(host=self.host, port=self.port)


@Parameter(name="*", group="Tasks")
@dataclass(frozen=True)
class TaskRules:
    """The edition and the limits of the scheduler of declarative tasks."""

    policy: Annotated[
        Literal["declarative", "polling"],
        Parameter(
            help="declarative: specification 1. polling: specification 2; a repeated hour runs "
            "once and a changed task starts as a new one."
        ),
    ] = "declarative"
    max_runs: Annotated[int, number(1, 100_000, "How many tasks run at the same time.")] = 1_000
    run_timeout: Annotated[
        str, value("DURATION", "A task that runs longer is cancelled, and fails.")
    ] = "24h"
    poll_at_least_every: Annotated[
        str | None,
        value("DURATION", "Report polls this often even if no task is due, as a sign of life."),
    ] = None

    def make_plan(self, list_tasks: ListTasks, zone: tzinfo) -> TaskPlan:
        every = self.poll_at_least_every
        settings = SchedulerSettings(
            max_concurrent_runs=self.max_runs,
            run_timeout=read_duration(self.run_timeout, "--run-timeout"),
            poll_at_least_every=None
            if every is None
            else read_duration(every, "--poll-at-least-every"),
        )
        return TaskPlan(list_tasks, zone, POLICIES[self.policy], settings)


TASKS_HELP = (
    "Declarative tasks to run: a list of (name, cron, callback, retry delay), or a function that "
    "returns one."
)


def load_app(reference: str | None) -> Rota | None:
    """The app at ``module:app``; None if none is named."""
    if reference is None:
        return None
    found = load_reference(reference, APP)
    if not isinstance(found, Rota):
        raise refuse(reference, APP, f"it is not a Rota app but {type(found).__name__}")
    return found


def end_on(end: RuntimeEnd) -> None:
    """Raise KeyboardInterrupt when the process was stopped twice."""
    if end is RuntimeEnd.AT_ONCE:
        raise KeyboardInterrupt
