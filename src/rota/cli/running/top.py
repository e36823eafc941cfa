"""``rota top``: how all jobs stand, again and again."""

import asyncio
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.live import Live

from rota.cli.reading.instants import choose_zone
from rota.cli.reading.options import GivenTerminal, JsonOption, ZoneOption
from rota.cli.reading.place import NOWHERE, Place, converse, find_address, require_store
from rota.cli.rendering.live.top import MEASURED_FOR, Look, render_top
from rota.cli.rendering.occurrences import format_instant
from rota.cli.rendering.service.moments import Viewer, read_utc
from rota.cli.rendering.terminal import Terminal
from rota.client import Client, open_client
from rota.errors import RotaError
from rota.runtime.startup import show_address

EveryOption = Annotated[
    float,
    Parameter(
        metavar="SECONDS",
        validator=Number(gte=0.5, lte=3600),
        help="How long to wait between two looks.",
    ),
]
OnceOption = Annotated[bool, Parameter(negative="", show_default=False, help="Look once, and end.")]


def top(
    *,
    every: EveryOption = 2,
    once: OnceOption = False,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Show how all jobs stand, once or until interrupted."""
    local = choose_zone(zone).zone
    if as_json:
        look = converse(terminal, place, take_look)
        terminal.print_document(
            {**look.overview, "workers": look.workers, "throughput": look.throughput}
        )
        return
    address = show_address(find_address(place).url)
    if once or not terminal.out.is_terminal:
        look = converse(terminal, place, take_look)
        viewer = Viewer(terminal.clock.now(), local)
        terminal.out.print(render_top(look, viewer, address))
        return
    asyncio.run(_watch(terminal, place, timedelta(seconds=every), zone))


async def take_look(client: Client) -> Look:
    """Ask for all that the screen shows; the service's own clock says what is now."""
    overview = await client.get("/overview")
    until = read_utc(overview["taken_at"])
    span = {"since": format_instant(until - MEASURED_FOR), "until": format_instant(until)}
    workers = (await client.get("/workers"))["items"]
    return Look(overview, workers, await client.get("/throughput", span))


async def _watch(terminal: Terminal, place: Place, every: timedelta, zone: str | None) -> None:
    address, local = find_address(place), choose_zone(zone).zone
    require_store(address)
    async with open_client(address, terminal.clock) as client:
        look = await take_look(client)
        with Live(console=terminal.out, auto_refresh=False, screen=True) as live:
            while True:
                viewer = Viewer(terminal.clock.now(), local)
                live.update(render_top(look, viewer, show_address(address.url)), refresh=True)
                await terminal.clock.sleep(every)
                look = await _look_again(client, look)


async def _look_again(client: Client, last: Look) -> Look:
    """A new look; while nobody answers, the last one, which says when it was taken."""
    try:
        return await take_look(client)
    except RotaError:
        return last
