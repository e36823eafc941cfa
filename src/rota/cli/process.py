"""``rota serve``, ``work`` and ``plan``, and what they share with ``up``."""

import asyncio
from dataclasses import dataclass
from datetime import tzinfo
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from msgspec.structs import replace

from rota.app import Rota
from rota.auth.binding import check_binding
from rota.cli.event_lines import reporting
from rota.cli.options import (
    AppArgument,
    ZoneOption,
    bounds,
    choose_zone,
    flag,
    number,
    read_duration,
    several,
    value,
)
from rota.cli.output import PLAIN, GivenTerminal, Output, Terminal
from rota.errors import InvalidInputError, invalid
from rota.jobs.fields import read_queue, read_word
from rota.jobs.retention import parse_keep
from rota.kinds import make_built_in
from rota.runtime.configuration import (
    LOOPBACK,
    MetricsAddress,
    Webhook,
    read_configuration,
    read_webhook,
)
from rota.runtime.engines import WorkPlan
from rota.runtime.plan import DEFAULT_HOST, DEFAULT_PORT, Binding, ListTasks, RuntimePlan, TaskPlan
from rota.runtime.process import RuntimeEnd
from rota.runtime.startup import run_runtime
from rota.runtime.user_modules import load_reference, read_registrations, refuse
from rota.scheduler.policy import POLICIES, SchedulerSettings
from rota.schedules import SchedulePlan
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


@Parameter(name="*")
@dataclass(frozen=True)
class WorkerOptions:
    """The options of a worker that may run beside other parts."""

    handlers: Annotated[
        list[str] | None,
        several(
            "--handlers",
            "MODULE:NAME",
            "Your handlers: a mapping from kinds to functions, or a function that receives the "
            "worker. Repeatable.",
        ),
    ] = None
    queues: Annotated[
        list[str] | None, several("--queue", "NAME", "Take jobs of this queue only. Repeatable.")
    ] = None
    concurrency: Annotated[
        int | None,
        number(1, 1000, "How many jobs run at the same time. Default: the app's setting, or 10."),
    ] = None
    reload: Annotated[
        bool, flag("For development: restart the worker when the files of the handlers change.")
    ] = False

    def make_plan(self, app: str | None, settings: WorkerSettings) -> WorkPlan:
        """A worker with these settings, except for what the command line says."""
        for queue in self.queues or ():
            read_queue(queue)
        settings = replace(
            settings,
            queues=self.queues or settings.queues,
            concurrency=self.concurrency or settings.concurrency,
        )
        return WorkPlan(
            settings=settings,
            references=(*([] if app is None else [app]), *(self.handlers or ())),
            built_in=make_built_in(),
            reloads=self.reload,
        )


@Parameter(name="*")
@dataclass(frozen=True)
class OnlyWorkerOptions(WorkerOptions):
    """The options of a worker that has a process to itself."""

    tenants: Annotated[
        list[str] | None, several("--tenant", "NAME", "Take jobs of this tenant only. Repeatable.")
    ] = None
    kinds: Annotated[
        str | None,
        value(
            "NAMES",
            "Run jobs of these kinds only, comma-separated. Default: all that have a handler.",
        ),
    ] = None
    no_builtin: Annotated[
        bool, flag("Leave out the built-in kinds, such as http.request.", name="--no-builtin")
    ] = False
    labels: Annotated[
        list[str] | None,
        several(
            "--label",
            "NAME",
            "A version label that this worker offers. Repeatable. Jobs with another label are left "
            "to other workers.",
        ),
    ] = None

    def make_plan(self, app: str | None, settings: WorkerSettings) -> WorkPlan:
        """The same, with these kinds only, and with or without the built-in ones."""
        listed = None if self.kinds is None else self.kinds.split(",")
        kinds = None if listed is None else tuple(filter(None, map(str.strip, listed)))
        if kinds is not None and not kinds:
            raise invalid("--kinds", "must name at least one kind, or be left out for all")
        for option, names in (("tenant", self.tenants), ("label", self.labels)):
            for name in names or ():
                read_word(name, option)
        settings = replace(
            settings,
            tenants=self.tenants or settings.tenants,
            labels=self.labels or settings.labels,
        )
        plan = super().make_plan(app, settings)
        return replace(plan, kinds=kinds, built_in={} if self.no_builtin else plan.built_in)


@Parameter(name="*")
@dataclass(frozen=True)
class MetricsOptions:
    """Where a worker shows its metrics."""

    metrics_port: Annotated[
        int | None,
        Parameter(
            metavar="NUMBER",
            env_var="ROTA_METRICS_PORT",
            validator=bounds(least=0, most=65535),
            help="Serve the metrics of this process to Prometheus on this port; 0 picks a free "
            "one. Default: off. A server shows the totals of all workers in any case.",
        ),
    ] = None
    metrics_host: Annotated[
        str,
        Parameter(
            metavar="ADDRESS",
            env_var="ROTA_METRICS_HOST",
            help="The address of the metrics; anyone who can reach it can read them.",
        ),
    ] = LOOPBACK

    @property
    def address(self) -> MetricsAddress | None:
        port = self.metrics_port
        return None if port is None else MetricsAddress(port, self.metrics_host)


def work(
    app: AppArgument = None,
    /,
    *,
    worker: OnlyWorkerOptions = OnlyWorkerOptions(),
    metrics: MetricsOptions = MetricsOptions(),
    process: ProcessOptions = ProcessOptions(),
    terminal: GivenTerminal,
) -> None:
    """Run a worker."""
    loaded = load_app(app)
    plan = RuntimePlan(
        store_url=process.choose_store(loaded),
        work=worker.make_plan(app, process.read_settings(loaded)),
        metrics=metrics.address,
        webhook=process.webhook,
    )
    process.run(terminal, plan)


def serve(
    app: AppArgument = None,
    /,
    *,
    listen: ListenOptions = ListenOptions(),
    tasks: Annotated[str | None, value("MODULE:NAME", TASKS_HELP)] = None,
    zone: ZoneOption = None,
    process: ProcessOptions = ProcessOptions(),
    rules: TaskRules = TaskRules(),
    terminal: GivenTerminal,
) -> None:
    """Run the API and the pages, and declarative tasks if they are named."""
    loaded = load_app(app)
    local = choose_zone(zone).zone
    registrations = None if tasks is None else read_registrations(tasks)
    plan = RuntimePlan(
        store_url=process.choose_store(loaded),
        binding=listen.make_binding(),
        tasks=None
        if registrations is None
        else rules.make_plan(lambda _store, _clock: registrations, local),
        apps=() if loaded is None else (loaded,),
        webhook=process.webhook,
        settings=process.read_settings(loaded),
    )
    process.run(terminal, plan)


def show_plan(app: AppArgument = None, /, *, output: Output = PLAIN) -> None:
    """Print the plan of the app's schedules, on the app's own store."""
    loaded = load_app(app)
    if loaded is None:
        raise InvalidInputError("APP is missing; write module:app", {"field": "APP"})
    plan = asyncio.run(_ask(loaded))
    if output.is_done(msgspec.to_builtins(plan)):
        return
    output.terminal.print_lines(str(plan))


async def _ask(app: Rota) -> SchedulePlan:
    async with app:
        return await app.plan()
