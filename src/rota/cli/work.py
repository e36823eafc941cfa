"""``rota work``: a worker, and nothing else."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from rota.cli.options import (
    AlertSecretOption,
    AlertWebhookOption,
    AppArgument,
    AppStoreOption,
    ConcurrencyOption,
    HandlersOption,
    KeepOption,
    KindsOption,
    LinesOption,
    MetricsHostOption,
    MetricsPortOption,
    NoBuiltInOption,
    OfferedLabelOption,
    OnlyTenantOption,
    QueueOption,
    ReloadOption,
)
from rota.cli.output import GivenTerminal
from rota.cli.serve import choose_store, load_app, read_settings, run_plan
from rota.errors import invalid
from rota.kinds import make_built_in
from rota.runtime.configuration import LOOPBACK, MetricsAddress, read_webhook
from rota.runtime.engines import WorkPlan
from rota.runtime.plan import RuntimePlan
from rota.worker import WorkerSettings


def work(
    app: AppArgument = None,
    /,
    *,
    handlers: HandlersOption = None,
    store: AppStoreOption = None,
    queues: QueueOption = None,
    tenants: OnlyTenantOption = None,
    kinds: KindsOption = None,
    no_builtin: NoBuiltInOption = False,
    labels: OfferedLabelOption = None,
    concurrency: ConcurrencyOption = None,
    reload: ReloadOption = False,
    alert_webhook: AlertWebhookOption = None,
    alert_secret: AlertSecretOption = None,
    keep: KeepOption = None,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = LOOPBACK,
    as_json: LinesOption = False,
    terminal: GivenTerminal,
) -> None:
    """Run a worker."""
    loaded = load_app(app)
    plan = plan_work(
        name_handlers(app, handlers),
        read_settings(loaded, keep),
        queues=queues,
        tenants=tenants,
        labels=labels,
        concurrency=concurrency,
        reloads=reload,
    )
    plan = limit_kinds(plan, kinds, has_built_in=not no_builtin)
    runtime = RuntimePlan(
        store_url=choose_store(store, loaded),
        work=plan,
        metrics=None if metrics_port is None else MetricsAddress(metrics_port, metrics_host),
        webhook=read_webhook(alert_webhook, alert_secret),
    )
    run_plan(terminal, runtime, as_json=as_json)


def limit_kinds(plan: WorkPlan, kinds: str | None, *, has_built_in: bool) -> WorkPlan:
    """The worker with these kinds only, and with or without the built-in ones."""
    named = None if kinds is None else tuple(filter(None, map(str.strip, kinds.split(","))))
    if named is not None and not named:
        raise invalid("--kinds", "must name at least one kind, or be left out for all")
    return replace(plan, kinds=named, built_in=plan.built_in if has_built_in else {})


def name_handlers(app: str | None, handlers: Sequence[str] | None) -> list[str]:
    """The references of a worker: the app, and handlers beside it."""
    return [*([] if app is None else [app]), *(handlers or ())]


def plan_work(
    handlers: Sequence[str] | None,
    settings: WorkerSettings,
    *,
    queues: Collection[str] | None = None,
    tenants: Collection[str] | None = None,
    labels: Collection[str] | None = None,
    concurrency: int | None = None,
    reloads: bool = False,
) -> WorkPlan:
    """A worker with these settings, except for what the command line says."""
    settings = replace(
        settings,
        queues=queues or settings.queues,
        tenants=tenants or settings.tenants,
        labels=labels or settings.labels,
        concurrency=concurrency or settings.concurrency,
    )
    return WorkPlan(
        settings=settings,
        references=tuple(handlers or ()),
        built_in=make_built_in(),
        reloads=reloads,
    )
