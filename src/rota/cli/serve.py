"""``rota serve``: the API and the pages."""

import asyncio

from msgspec.structs import replace

from rota.app import Rota
from rota.auth.binding import check_binding
from rota.cli.arguments import choose_zone
from rota.cli.event_lines import reporting
from rota.cli.options import (
    AlertSecretOption,
    AlertWebhookOption,
    AppArgument,
    AppStoreOption,
    HostOption,
    KeepOption,
    LinesOption,
    PortOption,
    ServedTasksOption,
    ZoneOption,
)
from rota.cli.output import GivenTerminal, Terminal
from rota.cli.task_rules import DEFAULT_RULES, TaskRules
from rota.jobs.retention import parse_keep
from rota.runtime.configuration import read_configuration, read_webhook
from rota.runtime.plan import DEFAULT_HOST, DEFAULT_PORT, Binding, RuntimePlan
from rota.runtime.process import RuntimeEnd
from rota.runtime.startup import run_runtime
from rota.runtime.user_modules import load_reference, read_registrations, refuse
from rota.worker import WorkerSettings

APP = "app"


def read_settings(app: Rota | None, keep: str | None = None) -> WorkerSettings:
    """The settings of a worker: what the environment sets, then the app's, then the defaults."""
    found = read_configuration(settings=None if app is None else app.settings)
    given = parse_keep(keep or "", "--keep")
    return replace(found.worker, retention=given.over(found.keep))


def load_app(reference: str | None) -> Rota | None:
    """The app at ``module:app``; None if none is named."""
    if reference is None:
        return None
    found = load_reference(reference, APP)
    if not isinstance(found, Rota):
        raise refuse(reference, APP, f"it is not a Rota app but {type(found).__name__}")
    return found


def choose_store(store: str | None, app: Rota | None) -> str:
    """The address that was given, or else the app's, or else that of the environment."""
    if store is not None:
        if app is not None:
            app.use_store(store)
        return store
    return read_configuration().store_url if app is None else app.store_url


def plan_binding(host: str, port: int) -> Binding:
    """Where to listen. Raises when that address is not allowed."""
    check_binding(host, has_auth=True)
    return Binding(host=host, port=port)


def run_plan(terminal: Terminal, plan: RuntimePlan, *, as_json: bool) -> None:
    """Run until SIGINT or SIGTERM; a second signal ends it as an interrupted program."""
    with reporting(terminal, as_json=as_json) as reporter:
        end_on(asyncio.run(run_runtime(plan, reporter, terminal.clock)))


def end_on(end: RuntimeEnd) -> None:
    """Raise KeyboardInterrupt when the process was stopped twice."""
    if end is RuntimeEnd.AT_ONCE:
        raise KeyboardInterrupt


def serve(
    app: AppArgument = None,
    /,
    *,
    store: AppStoreOption = None,
    host: HostOption = DEFAULT_HOST,
    port: PortOption = DEFAULT_PORT,
    alert_webhook: AlertWebhookOption = None,
    alert_secret: AlertSecretOption = None,
    keep: KeepOption = None,
    tasks: ServedTasksOption = None,
    zone: ZoneOption = None,
    rules: TaskRules = DEFAULT_RULES,
    as_json: LinesOption = False,
    terminal: GivenTerminal,
) -> None:
    """Run the API and the pages, and declarative tasks if they are named."""
    loaded = load_app(app)
    local = choose_zone(zone).zone
    registrations = None if tasks is None else read_registrations(tasks)
    plan = RuntimePlan(
        store_url=choose_store(store, loaded),
        binding=plan_binding(host, port),
        tasks=None
        if registrations is None
        else rules.make_plan(lambda _store, _clock: registrations, local),
        apps=() if loaded is None else (loaded,),
        webhook=read_webhook(alert_webhook, alert_secret),
        settings=read_settings(loaded, keep),
    )
    run_plan(terminal, plan, as_json=as_json)
