"""What the commands that run something have in common."""

import asyncio
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from rota.auth.binding import check_binding
from rota.cli.rendering.terminal import Terminal
from rota.cli.running.voices import speaking
from rota.kinds import make_built_in
from rota.runtime.configuration import read_configuration
from rota.runtime.engines import WorkPlan
from rota.runtime.process import HouseEnd
from rota.runtime.startup import HousePlan, run_house
from rota.runtime.web import Binding
from rota.worker import WorkerSettings


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


def read_settings() -> WorkerSettings:
    """Those of ``WORKER_POLL_MS`` and the like, all checked."""
    return read_configuration().worker


def plan_binding(host: str, port: int) -> Binding:
    """Where to listen; refused where others would get in without a token."""
    check_binding(host, has_auth=True)
    return Binding(host=host, port=port)


def run_plan(terminal: Terminal, plan: HousePlan, *, as_json: bool) -> None:
    """Run until a signal; when told twice, end as an interrupted program does."""
    with speaking(terminal, as_json=as_json) as voice:
        end_on(asyncio.run(run_house(plan, voice, terminal.clock)))


def end_on(end: HouseEnd) -> None:
    """End the command as the house ended."""
    if end is HouseEnd.AT_ONCE:
        raise KeyboardInterrupt
