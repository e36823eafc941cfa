"""``rota work``: a worker, and nothing else."""

from rota.cli.reading.options import DEFAULT_STORE, GivenTerminal, StoreOption
from rota.cli.running.command import plan_work, run_plan
from rota.cli.running.options import (
    ConcurrencyOption,
    HandlersOption,
    LinesOption,
    OnlyTenantOption,
    QueueOption,
    ReloadOption,
)
from rota.runtime.startup import HousePlan


def work(
    *,
    handlers: HandlersOption = None,
    store: StoreOption = DEFAULT_STORE,
    queues: QueueOption = None,
    tenants: OnlyTenantOption = None,
    concurrency: ConcurrencyOption = 10,
    reload: ReloadOption = False,
    as_json: LinesOption = False,
    terminal: GivenTerminal,
) -> None:
    """Run a house that has only a worker."""
    plan = plan_work(
        handlers, queues=queues, tenants=tenants, concurrency=concurrency, reloads=reload
    )
    run_plan(terminal, HousePlan(store_url=store, work=plan), as_json=as_json)
