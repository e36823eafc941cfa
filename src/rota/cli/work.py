"""``rota work``: a worker, and nothing else."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from rota.cli.options import (
    ConcurrencyOption,
    GivenTerminal,
    HandlersOption,
    LinesOption,
    OnlyTenantOption,
    QueueOption,
    ReloadOption,
    StoreOption,
)
from rota.cli.place import DEFAULT_STORE
from rota.cli.serve import read_settings, run_plan
from rota.kinds import make_built_in
from rota.runtime.engines import WorkPlan
from rota.runtime.startup import RuntimePlan


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
    """Run a worker."""
    plan = plan_work(
        handlers, queues=queues, tenants=tenants, concurrency=concurrency, reloads=reload
    )
    run_plan(terminal, RuntimePlan(store_url=store, work=plan), as_json=as_json)


def plan_work(
    handlers: Sequence[str] | None,
    *,
    queues: Collection[str] | None = None,
    tenants: Collection[str] | None = None,
    concurrency: int,
    reloads: bool = False,
) -> WorkPlan:
    """A worker as the environment and the command line describe it."""
    settings = replace(
        read_settings(), queues=queues or None, tenants=tenants or None, concurrency=concurrency
    )
    return WorkPlan(
        settings=settings,
        references=tuple(handlers or ()),
        built_in=make_built_in(),
        reloads=reloads,
    )
