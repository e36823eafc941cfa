"""``rota serve``: the API and the pages."""

from rota.cli.reading.options import DEFAULT_STORE, GivenTerminal, StoreOption
from rota.cli.running.command import plan_binding, read_settings, run_plan
from rota.cli.running.options import HostOption, LinesOption, PortOption
from rota.house.plan import HousePlan
from rota.house.web import DEFAULT_HOST, DEFAULT_PORT


def serve(
    *,
    store: StoreOption = DEFAULT_STORE,
    host: HostOption = DEFAULT_HOST,
    port: PortOption = DEFAULT_PORT,
    as_json: LinesOption = False,
    terminal: GivenTerminal,
) -> None:
    """Serve the API and the pages; jobs are run elsewhere.

    Everybody needs a token: rota tokens create makes one. Jobs whose workers
    are gone are freed, too. The first ctrl-C or SIGTERM lets requests under
    way finish; the second one does not wait. Try:

        rota serve
        rota serve --store postgresql://rota@db.example/rota --port 9000
        rota serve --host 0.0.0.0 --json
    """
    read_settings()
    run_plan(
        terminal, HousePlan(store_url=store, binding=plan_binding(host, port)), as_json=as_json
    )
