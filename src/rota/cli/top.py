"""``rota top``: all jobs of a tenant on one screen, refreshed until it is left."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from cyclopts import Parameter
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rota.cli.job_tables import STYLES, WAITING, read_state
from rota.cli.options import bounds, flag, format_instant
from rota.cli.output import (
    NOTHING,
    Viewer,
    format_milliseconds,
    format_seconds,
    read_utc,
    show_text,
)
from rota.cli.session import LOCALLY, TenantSession, ZonedSession
from rota.cli.top_keys import HELP, NAMES, TYPING_HELP, Screen, press, read_keys
from rota.client import Client, open_client
from rota.clock.protocol import Clock
from rota.errors import RotaError
from rota.escape import escape
from rota.runtime.startup import show_address

MOST_ALARMS = 6
MOST_QUEUES = 15
MOST_RUNS = 5
MOST_FAILURES = 5
MOST_JOBS = 20
MEASURED_FOR = timedelta(minutes=10)
LATE_SECONDS = 300


class Look(NamedTuple):
    """One look at the service: the overview, who works, what ended recently, and jobs if asked."""

    overview: dict[str, Any]
    workers: list[dict[str, Any]]
    throughput: dict[str, Any]
    jobs: Sequence[dict[str, Any]] = ()


def render_top(
    look: Look, viewer: Viewer, address: str, screen: Screen | None = None
) -> RenderableType:
    """The whole screen; everything in it is safe to show. Without ``screen`` it has no keys."""
    chosen = screen or Screen()
    parts: list[RenderableType] = [_heading(look, viewer, address)]
    parts += _throughput(look.throughput["total"])
    if chosen.opened is None:
        parts += [
            *_holds(look.overview),
            *_alarms(look.overview),
            Text(),
            _queues(look.overview, chosen, marks=screen is not None),
            *_next_runs(look.overview, viewer),
            *_failures(look.overview, viewer),
        ]
    else:
        parts += [Text(), *_jobs(look.jobs, viewer, chosen.opened)]
    if screen is not None:
        parts += [Text(), _footer(screen)]
    return Group(*parts)


def _footer(screen: Screen) -> Text:
    """What the keys do, and what was chosen with them."""
    order = f"{NAMES.get(screen.sort, screen.sort)}{' reversed' if screen.is_reversed else ''}"
    text = Text(f"sorted by {order}", "dim")
    if screen.text or screen.is_typing:
        text.append(f"  filter: {escape(screen.text)}{'_' if screen.is_typing else ''}", "bold")
    if screen.is_paused:
        text.append("  PAUSED", "bold yellow")
    return text.append(f"\n{TYPING_HELP if screen.is_typing else HELP}", "dim")


def _jobs(jobs: Sequence[dict[str, Any]], viewer: Viewer, queue: str) -> Iterator[RenderableType]:
    yield Text(f"The newest jobs of {escape(queue)}", "bold")
    table = _table("Id", "State", "Run", "Kind", "Name")
    for job in jobs:
        state = read_state(job, viewer.now)
        when = NOTHING if state in WAITING else viewer.relative(job["run_at"])
        cells = [escape(job["id"]), state.value, when, show_text(job["kind"], 30)]
        _add(table, [*cells, show_text(job["name"], 60)], STYLES.get(state, ""))
    yield table


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


def _queues(overview: dict[str, Any], screen: Screen, *, marks: bool) -> Table:
    table = _table("Queue", "Due", "Not due", "Running", "Stalled", "Dead", "Oldest", "Workers")
    for column in table.columns[1:]:
        column.justify = "right"
    queues = screen.arrange(overview["queues"])
    first = max(0, min(screen.selected, len(queues) - 1) - MOST_QUEUES + 1)
    for place, queue in enumerate(queues[first : first + MOST_QUEUES], start=first):
        late = queue["late_seconds"]
        style = "red" if queue["dead_count"] else "yellow" if late > LATE_SECONDS else ""
        counts = ("due", "later", "running", "stalled", "dead")
        mark = ("> " if place == screen.selected else "  ") if marks else ""
        cells = [
            f"{mark}{escape(queue['queue'])}",
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
            when = viewer.relative(at) if read_utc(at) > viewer.now else "due"
            _add(table, [when, viewer.show(at), show_text(run["name"], 60)])
        yield from (Text(), table)


def _failures(overview: dict[str, Any], viewer: Viewer) -> Iterator[RenderableType]:
    failures = overview["failures"][:MOST_FAILURES]
    if failures:
        table = _table("Failed", "Name", "Error")
        for failure in failures:
            error = show_text(failure["error"], 100)
            _add(
                table, [viewer.relative(failure["ended_at"]), show_text(failure["name"], 40), error]
            )
        yield from (Text(), table)


def _add(table: Table, cells: Sequence[str], style: str = "") -> None:
    table.add_row(*map(Text, cells), style=style)


def _table(*header: str) -> Table:
    return Table(*header, box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")


EveryOption = Annotated[
    float,
    Parameter(
        metavar="SECONDS",
        validator=bounds(least=0.5, most=3600),
        help="Seconds between two refreshes.",
    ),
]
OnceOption = Annotated[bool, flag("Print once, and exit.")]


def top(
    *, every: EveryOption = 2, once: OnceOption = False, session: ZonedSession = LOCALLY
) -> None:
    """Show how all jobs stand, once or until it is left with q or ctrl-C."""
    terminal, local = session.terminal, session.local.zone
    if not (session.as_json or once) and terminal.out.is_terminal:
        asyncio.run(_watch(session, timedelta(seconds=every), local))
        return
    look = session.talk(take_look)
    if not session.is_done(
        {**look.overview, "workers": look.workers, "throughput": look.throughput}
    ):
        address = show_address(session.find_target().url)
        terminal.out.print(render_top(look, session.viewer, address))


async def take_look(client: Client) -> Look:
    """Ask for all that the screen shows, as of the time of the service."""
    overview = await client.get("/overview")
    until = read_utc(overview["taken_at"])
    span = {"since": format_instant(until - MEASURED_FOR), "until": format_instant(until)}
    workers = (await client.get("/workers"))["items"]
    return Look(overview, workers, await client.get("/throughput", span))


async def _watch(session: TenantSession, every: timedelta, zone: ZoneInfo) -> None:
    terminal, target = session.terminal, session.find_target()
    target.require()
    async with open_client(target.find_address(), terminal.clock) as client, read_keys() as keys:
        watch = _Watch(client, await take_look(client))
        ticks = Ticks(terminal.clock, every, keys)
        with Live(console=terminal.out, auto_refresh=False, screen=True) as live:
            while not watch.screen.is_over:
                viewer = Viewer(terminal.clock.now(), zone)
                shown = render_top(watch.look, viewer, show_address(target.url), watch.screen)
                live.update(shown, refresh=True)
                await watch.go_on(await ticks.wait())
        ticks.stop()


class _Watch:
    """What is on the screen, and what it is changed by."""

    def __init__(self, client: Client, look: Look) -> None:
        self._client = client
        self.look, self.screen = look, Screen()

    async def go_on(self, key: str | None) -> None:
        """A key was pressed; without one, it is time to look again."""
        before = self.screen.opened
        if key is not None:
            queues = self.screen.arrange(self.look.overview["queues"])
            self.screen = press(self.screen, key, [str(it["queue"]) for it in queues])
        is_due = key is None and not self.screen.is_paused
        if is_due or self.screen.opened != before:
            self.look = await _look_again(self._client, self.look, self.screen.opened)


class Ticks:
    """Waits for the next key or the next look, whichever comes first. Keys delay no look."""

    def __init__(self, clock: Clock, every: timedelta, keys: "asyncio.Queue[str]") -> None:
        self._clock, self._every, self._keys = clock, every, keys
        self._sleep: asyncio.Task[None] | None = None
        self._key: asyncio.Task[str] | None = None

    async def wait(self) -> str | None:
        """The key; None if it is time to look again."""
        self._sleep = self._sleep or asyncio.create_task(self._clock.sleep(self._every))
        self._key = self._key or asyncio.create_task(self._keys.get())
        await asyncio.wait({self._sleep, self._key}, return_when=asyncio.FIRST_COMPLETED)
        if self._key.done():
            key, self._key = self._key.result(), None
            return key
        self._sleep = None
        return None

    def stop(self) -> None:
        for task in (self._sleep, self._key):
            if task is not None:
                task.cancel()


async def _look_again(client: Client, last: Look, queue: str | None) -> Look:
    """A new snapshot; while the service does not answer, the last one."""
    try:
        look = await take_look(client)
        if queue is None:
            return look
        page = await client.get("/jobs", {"queue": queue, "limit": MOST_JOBS})
        return look._replace(jobs=page["items"])
    except RotaError:
        return last
