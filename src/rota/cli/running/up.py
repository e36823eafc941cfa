"""``rota up``: everything in one process, on one store."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import Parameter
from rich.live import Live

from rota.cli.reading.instants import choose_zone
from rota.cli.reading.options import DEFAULT_STORE, GivenTerminal, StoreOption, ZoneOption
from rota.cli.reading.registrations import read_registrations
from rota.cli.rendering.live.board import Board
from rota.cli.rendering.terminal import Terminal
from rota.cli.running.command import end_on, plan_binding, plan_work, run_plan
from rota.cli.running.house_tasks import list_house_tasks
from rota.cli.running.options import (
    ConcurrencyOption,
    HandlersOption,
    HostOption,
    LinesOption,
    PortOption,
    QueueOption,
    ReloadOption,
    TasksOption,
)
from rota.cli.running.voices import make_plain_voice
from rota.clock.protocol import Clock
from rota.runtime.startup import HousePlan, ListTasks, TaskPlan, Voice, run_house
from rota.runtime.web import DEFAULT_HOST, DEFAULT_PORT
from rota.stores.opened import OpenStore

REDRAWN_EVERY = timedelta(seconds=1)

BoardOption = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="On a terminal: show the tasks as a live board, not as lines.",
    ),
]


def up(
    *,
    tasks: TasksOption = None,
    handlers: HandlersOption = None,
    queues: QueueOption = None,
    store: StoreOption = DEFAULT_STORE,
    host: HostOption = DEFAULT_HOST,
    port: PortOption = DEFAULT_PORT,
    zone: ZoneOption = None,
    concurrency: ConcurrencyOption = 10,
    reload: ReloadOption = False,
    board: BoardOption = False,
    as_json: LinesOption = False,
    terminal: GivenTerminal,
) -> None:
    """Run a whole house until it is told to end."""
    local = choose_zone(zone).zone
    shown = Board(terminal.clock, local) if board and terminal.out.is_terminal else None
    registrations = None if tasks is None else read_registrations(tasks)
    plan = HousePlan(
        store_url=store,
        binding=plan_binding(host, port),
        work=plan_work(handlers, queues=queues, concurrency=concurrency, reloads=reload),
        tasks=TaskPlan(_make_lister(registrations, shown), local),
        greets=not as_json,
    )
    if shown is None or as_json:
        run_plan(terminal, plan, as_json=as_json)
    else:
        asyncio.run(_run_with_board(terminal, plan, shown))


def _make_lister(registrations: Sequence[Any] | None, board: Board | None) -> ListTasks:
    def list_tasks(store: OpenStore, clock: Clock) -> Sequence[Any]:
        listed = list_house_tasks(store, clock) if registrations is None else registrations
        if board is not None:
            board.expect([(it[0], it[1]) for it in listed])
        return listed

    return list_tasks


async def _run_with_board(terminal: Terminal, plan: HousePlan, board: Board) -> None:
    plain = make_plain_voice(terminal)
    voice = Voice(plain.say, board.follow, plain.show_token)
    with Live(console=terminal.out, auto_refresh=False, get_renderable=board.render) as live:
        ticking = asyncio.create_task(_redraw(terminal, live))
        try:
            end_on(await run_house(plan, voice, terminal.clock))
        finally:
            ticking.cancel()
            live.refresh()


async def _redraw(terminal: Terminal, live: Live) -> None:
    while True:
        live.refresh()
        await terminal.clock.sleep(REDRAWN_EVERY)
