"""``rota up``: a scheduler on a store, and a board that shows it at work."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import Parameter
from rich.live import Live

from rota.cli.reading.instants import choose_zone
from rota.cli.reading.options import DEFAULT_STORE, GivenTerminal, StoreOption, ZoneOption
from rota.cli.reading.registrations import read_registrations
from rota.cli.rendering.board import Board
from rota.cli.rendering.terminal import Terminal
from rota.errors import StoreError
from rota.events import Event
from rota.scheduler import Scheduler
from rota.scheduler.asking.desk import TaskDesk
from rota.stores.protocol import DocumentStore
from rota.wiring import open_store

REDRAWN_EVERY = timedelta(seconds=1)

TasksOption = Annotated[
    str | None,
    Parameter(
        metavar="MODULE:NAME",
        help="Registrations to run: a list of (name, cron, callback, retry delay), or a function "
        "that returns one. Default: two tasks that watch over the store.",
    ),
]


def up(
    *,
    tasks: TasksOption = None,
    store: StoreOption = DEFAULT_STORE,
    zone: ZoneOption = None,
    terminal: GivenTerminal,
) -> None:
    """Run a scheduler on a store and watch it work.

    It remembers across restarts: stop it with ctrl-C, start it again, and each
    task goes on from where it was. A second ctrl-C does not wait for running
    tasks. Try:

        rota up
        rota up --tasks examples.declarative_tasks:registrations
    """
    asyncio.run(_run(terminal, tasks, store, zone))


async def _run(terminal: Terminal, tasks: str | None, url: str, zone: str | None) -> None:
    local = choose_zone(zone).zone
    async with await open_store(url) as store:
        registrations = (
            list_house_tasks(store, terminal) if tasks is None else read_registrations(tasks)
        )
        scheduler = Scheduler(store, clock=terminal.clock, zone=local)
        board = Board(terminal.clock, local, [(it[0], it[1]) for it in registrations])
        stop = _stop_on_signals()
        if terminal.out.is_terminal:
            await _run_with_board(terminal, scheduler, registrations, board, stop)
        else:
            await _run_with_lines(terminal, scheduler, registrations, board, stop)


async def _run_with_board(
    terminal: Terminal,
    scheduler: Scheduler,
    registrations: Sequence[Any],
    board: Board,
    stop: asyncio.Event,
) -> None:
    scheduler.events.subscribe(board.follow)
    await scheduler.initialize(registrations)
    with Live(console=terminal.out, auto_refresh=False, get_renderable=board.render) as live:
        ticking = asyncio.create_task(_redraw(terminal, live))
        await stop.wait()
        ticking.cancel()
        await scheduler.stop()
        live.refresh()


async def _run_with_lines(
    terminal: Terminal,
    scheduler: Scheduler,
    registrations: Sequence[Any],
    board: Board,
    stop: asyncio.Event,
) -> None:
    def tell(event: Event) -> None:
        line = board.follow(event)
        if line is not None:
            terminal.print_text(line)

    scheduler.events.subscribe(tell)
    await scheduler.initialize(registrations)
    terminal.print_text(f"{len(registrations)} tasks scheduled; stop with ctrl-C")
    await stop.wait()
    await scheduler.stop()


async def _redraw(terminal: Terminal, live: Live) -> None:
    while True:
        live.refresh()
        await terminal.clock.sleep(REDRAWN_EVERY)


def _stop_on_signals() -> asyncio.Event:
    """Set at the first ctrl-C or SIGTERM; the second one interrupts at once."""
    stop = asyncio.Event()
    loop, main = asyncio.get_running_loop(), asyncio.current_task()

    def ask() -> None:
        if stop.is_set() and main is not None:
            main.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in a main thread
            loop.add_signal_handler(number, ask)
    return stop


def list_house_tasks(store: DocumentStore, terminal: Terminal) -> list[Any]:
    """What runs when no tasks are named: a sign of life, and a look after the store."""

    async def heartbeat() -> None:
        """Its start is the news: the board and the record show how punctual it was."""

    async def look_after_the_store() -> None:
        overview = await TaskDesk(store, terminal.clock).look()
        if overview.unreadable:
            names = ", ".join(overview.unreadable)
            raise StoreError(f"records that cannot be read: {names}")

    return [
        ("heartbeat", "* * * * *", heartbeat, timedelta(seconds=10)),
        ("look-after-the-store", "0,15,30,45 * * * *", look_after_the_store, timedelta(minutes=1)),
    ]
