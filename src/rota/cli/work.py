"""``rota work``: a worker, and nothing else."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter
from msgspec.structs import replace

from rota.cli.options import AppArgument, bounds, flag, number, several, value
from rota.cli.output import GivenTerminal
from rota.cli.process import ProcessOptions, load_app
from rota.errors import invalid
from rota.kinds import make_built_in
from rota.runtime.configuration import LOOPBACK, MetricsAddress
from rota.runtime.engines import WorkPlan
from rota.runtime.plan import RuntimePlan
from rota.worker import WorkerSettings


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
