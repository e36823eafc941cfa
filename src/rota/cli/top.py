"""``rota top``: all jobs of a tenant on one screen, refreshed until interrupted."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rota.cli.arguments import choose_zone
from rota.cli.connection import converse, find_address
from rota.cli.occurrences import format_instant
from rota.cli.options import GivenTerminal, JsonOption, ZoneOption, flag
from rota.cli.output import (
    Terminal,
    Viewer,
    format_milliseconds,
    format_seconds,
    read_utc,
    show_text,
)
from rota.cli.place import NOWHERE, Place, find_target
from rota.client import Client, open_client
from rota.errors import RotaError
from rota.escape import escape
from rota.runtime.startup import show_address

MOST_ALARMS = 6
MOST_QUEUES = 15
MOST_RUNS = 5
MOST_FAILURES = 5
MEASURED_FOR = timedelta(minutes=10)
LATE_SECONDS = 300


class Look(NamedTuple):
    """One look at the service: the overview, who works, and what ended of late."""

    overview: dict[str, Any]
    workers: list[dict[str, Any]]
    throughput: dict[str, Any]


def render_top(look: Look, viewer: Viewer, address: str) -> RenderableType:
    """The whole screen; everything in it is safe to show."""
    parts = [
        _heading(look, viewer, address),
        *_throughput(look.throughput["total"]),
        *_holds(look.overview),
        *_alarms(look.overview),
        Text(),
        _queues(look.overview),
        *_next_runs(look.overview, viewer),
        *_failures(look.overview, viewer),
    ]
    return Group(*parts)


def _heading(look: Look, viewer: Viewer, address: str) -> Text:
    counts, queues = look.overview["counts"], look.overview["queues"]
    late = sum(it["late_seconds"] > LATE_SECONDS for it in queues)
    dead = sum(it["dead_count"] for it in queues)
    now = viewer.now.astimezone(viewer.zone)
    text = Text(f"{now:%a %Y-%m-%d %H:%M:%S}  {escape(address)}\n", "bold")
    text.append(f"workers {len(look.workers)}", "" if look.workers else "red")
    for word, status in (
        ("running", "RUNNING"),
        ("ready", "READY"),
        ("pending", "PENDING"),
        ("blocked", "BLOCKED"),
        ("done", "COMPLETED"),
    ):
        text.append(f"  {word} {counts.get(status, 0)}")
    text.append(f"  dead {dead}", "red" if dead else "")
    if late:
        text.append(f"  late {late}", "yellow")
    return text


def _throughput(total: dict[str, Any]) -> Iterator[Text]:
    """What ended in the last minutes, and how long it had waited and taken; nothing of nothing."""
    words = ("succeeded", "failed", "dead", "deferred", "stalled")
    counts = [(word, total[word]) for word in words if total[word] or word == "succeeded"]
    ended = total["succeeded"] + total["failed"]
    rate = ended / MEASURED_FOR.total_seconds()
    speed = f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"
    minutes = int(MEASURED_FOR.total_seconds() // 60)
    shown = "  ".join(f"{word} {count}" for word, count in counts)
    yield Text(f"last {minutes} min  {shown}  {speed}")
    if total["wait"]["count"]:
        yield Text(f"waited {_spread(total['wait'])}; took {_spread(total['handler'])}")


def _spread(durations: dict[str, Any]) -> str:
    if not durations["count"]:
        return "-"
    half, most = (format_milliseconds(durations[key]) for key in ("p50_ms", "p95_ms"))
    return f"{half} (95%: {most})"


def _holds(overview: dict[str, Any]) -> Iterator[Text]:
    for hold in overview["holds"]:
        yield Text(f"|| {escape(hold['text'])}", "bold yellow")


def _alarms(overview: dict[str, Any]) -> Iterator[Text]:
    alarms = overview["alarms"]
    for alarm in alarms[:MOST_ALARMS]:
        where = "" if alarm["queue"] is None else f"{escape(alarm['queue'])}: "
        yield Text(f"! {where}{escape(alarm['text'])}", "red")
    if len(alarms) > MOST_ALARMS:
        yield Text(f"! and {len(alarms) - MOST_ALARMS} more", "red")


def _queues(overview: dict[str, Any]) -> Table:
    table = _table("Queue", "Due", "Later", "Running", "Stalled", "Dead", "Oldest", "Workers")
    for column in table.columns[1:]:
        column.justify = "right"
    for queue in overview["queues"][:MOST_QUEUES]:
        late = queue["late_seconds"]
        style = "red" if queue["dead_count"] else "yellow" if late > LATE_SECONDS else ""
        counts = ("due", "later", "running", "stalled", "dead")
        cells = [
            escape(queue["queue"]),
            *(str(queue[f"{it}_count"]) for it in counts),
            format_seconds(late) if queue["due_count"] else "-",
            str(queue["worker_count"]),
        ]
        _add(table, cells, style)
    return table


def _next_runs(overview: dict[str, Any], viewer: Viewer) -> Iterator[RenderableType]:
    runs = overview["next_runs"][:MOST_RUNS]
    if runs:
        table = _table("Next", "At", "Name")
        for run in runs:
            at = run["at"]
            when = viewer.tell(at) if read_utc(at) > viewer.now else "due"
            _add(table, [when, viewer.show(at), show_text(run["name"], 60)])
        yield from (Text(), table)


def _failures(overview: dict[str, Any], viewer: Viewer) -> Iterator[RenderableType]:
    failures = overview["failures"][:MOST_FAILURES]
    if failures:
        table = _table("Failed", "Name", "Error")
        for failure in failures:
            error = show_text(failure["error"], 100)
            _add(table, [viewer.tell(failure["ended_at"]), show_text(failure["name"], 40), error])
        yield from (Text(), table)


def _add(table: Table, cells: Sequence[str], style: str = "") -> None:
    table.add_row(*map(Text, cells), style=style)


def _table(*header: str) -> Table:
    return Table(*header, box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")


EveryOption = Annotated[
    float,
    Parameter(
        metavar="SECONDS",
        validator=Number(gte=0.5, lte=3600),
        help="How long to wait between two looks.",
    ),
]
OnceOption = Annotated[bool, flag("Look once, and end.")]


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
    find_target(place).require()
    address, local = find_address(place), choose_zone(zone).zone
    async with open_client(address, terminal.clock) as client:
        look = await take_look(client)
        with Live(console=terminal.out, auto_refresh=False, screen=True) as live:
            while True:
                viewer = Viewer(terminal.clock.now(), local)
                live.update(render_top(look, viewer, show_address(address.url)), refresh=True)
                await terminal.clock.sleep(every)
                look = await _look_again(client, look)


async def _look_again(client: Client, last: Look) -> Look:
    """A new snapshot; while the service does not answer, the last one."""
    try:
        return await take_look(client)
    except RotaError:
        return last
