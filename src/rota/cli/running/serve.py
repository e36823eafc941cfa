"""``rota serve``: the API and the pages."""

from rota.cli.reading.options import DEFAULT_STORE, GivenTerminal, StoreOption
from rota.cli.running.command import plan_binding, read_settings, run_plan
from rota.cli.running.options import HostOption, LinesOption, PortOption
from rota.runtime.startup import HousePlan
from rota.runtime.web import DEFAULT_HOST, DEFAULT_PORT


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
        terminal, HousePlan(store_url=store, binding=plan_binding(host, port)), as_json=as_json
    )
