"""``rota serve``: the API and the pages."""

import asyncio

from rota.auth.binding import check_binding
from rota.cli.event_lines import reporting
from rota.cli.options import (
    GivenTerminal,
    HostOption,
    LinesOption,
    PortOption,
    StoreOption,
)
from rota.cli.output import Terminal
from rota.cli.place import DEFAULT_STORE
from rota.runtime.configuration import read_configuration
from rota.runtime.process import RuntimeEnd
from rota.runtime.startup import RuntimePlan, run_runtime
from rota.runtime.web import DEFAULT_HOST, DEFAULT_PORT, Binding
from rota.worker import WorkerSettings


def read_settings() -> WorkerSettings:
    """Those of ``WORKER_POLL_MS`` and the like, all checked."""
    return read_configuration().worker


def plan_binding(host: str, port: int) -> Binding:
    """Where to listen; refused where others would get in without a token."""
    check_binding(host, has_auth=True)
    return Binding(host=host, port=port)


def run_plan(terminal: Terminal, plan: RuntimePlan, *, as_json: bool) -> None:
    """Run until a signal; when told twice, end as an interrupted program does."""
    with reporting(terminal, as_json=as_json) as reporter:
        end_on(asyncio.run(run_runtime(plan, reporter, terminal.clock)))


def end_on(end: RuntimeEnd) -> None:
    """End the command as the house ended."""
    if end is RuntimeEnd.AT_ONCE:
        raise KeyboardInterrupt


def serve(
    *,
    store: StoreOption = DEFAULT_STORE,
    host: HostOption = DEFAULT_HOST,
    port: PortOption = DEFAULT_PORT,
    as_json: LinesOption = False,
    terminal: GivenTerminal,
) -> None:
    """Run a house that has only a front."""
    read_settings()
    run_plan(
        terminal, RuntimePlan(store_url=store, binding=plan_binding(host, port)), as_json=as_json
    )
