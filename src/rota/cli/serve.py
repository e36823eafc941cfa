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
    """The worker settings of the environment, such as ``WORKER_POLL_MS``, validated."""
    return read_configuration().worker


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
    *,
    store: StoreOption = DEFAULT_STORE,
    host: HostOption = DEFAULT_HOST,
    port: PortOption = DEFAULT_PORT,
    as_json: LinesOption = False,
    terminal: GivenTerminal,
) -> None:
    """Run the API and the pages."""
    read_settings()
    run_plan(
        terminal, RuntimePlan(store_url=store, binding=plan_binding(host, port)), as_json=as_json
    )
