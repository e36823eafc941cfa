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
from rota.house.plan import HousePlan


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
    """Run jobs with handlers of your own and the built-in ones.

    WORKER_POLL_MS, WORKER_BATCH and WORKER_LEASE_MS in the environment tune
    it. The first ctrl-C or SIGTERM lets jobs that run finish, for 25 seconds
    at most; the second one hands them back. No attempt is spent by that. Try:

        rota work --handlers myapp.jobs:handlers
        rota work --handlers myapp.jobs:handlers --queue mail --concurrency 50
        rota work --handlers myapp.jobs:handlers --reload
    """
    plan = plan_work(
        handlers, queues=queues, tenants=tenants, concurrency=concurrency, reloads=reload
    )
    run_plan(terminal, HousePlan(store_url=store, work=plan), as_json=as_json)
