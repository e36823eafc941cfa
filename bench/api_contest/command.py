"""The command line of bench/api.py."""

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from bench.api_contest.asking import Asked, ask_for, ask_once, make_request
from bench.api_contest.filling import TEXT, fill
from bench.queue_contest.harness.machine import cpu_of, cpu_of_family, describe_machine, time_loop
from bench.queue_contest.harness.places import Ground
from rich.console import Console
from rich.table import Table

PAGE_SIZE = 20
DEEP_PAGE = 10_000
TARGET = 0.6
PREFIXES = {"rota": "/api/v1/jobs", "bare": "/jobs"}
MEASURES = (
    "one job", "first page", "deep page", "page of a queue", "create", "create, due later",
)  # fmt: skip
JOB = {"name": "bench", "queue": "queue_1", "priority": 5, "payload": TEXT}
NEW_JOB = json.dumps(JOB).encode()
LATER_JOB = json.dumps({**JOB, "run_at": "2099-01-01T00:00:00Z"}).encode()


class Figure(NamedTuple):
    """One measurement, with the processor time of server and database for each request."""

    asked: Asked
    server_us: float
    database_us: float


Figures = dict[tuple[str, str], list[Figure]]


class Sizes(NamedTuple):
    rows: int
    seconds: float
    repeats: int
    connections: int


def main() -> None:
    given = _make_parser().parse_args()
    sizes = Sizes(
        given.rows or (50_000 if given.quick else 1_000_000),
        given.seconds or (1.0 if given.quick else 2.0),
        given.repeats or (5 if given.quick else 9),
        given.connections,
    )
    console, ground = Console(width=120), Ground()
    try:
        ground.start_server()
        _run(console, ground, sizes)
    finally:
        ground.close()


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Rota's API beside bare Starlette + asyncpg.")
    parser.add_argument("--quick", action="store_true", help="50,000 jobs, fewer and shorter turns")
    parser.add_argument("--rows", type=int, help="jobs that are kept before")
    parser.add_argument("--seconds", type=float, help="how long each turn lasts")
    parser.add_argument("--repeats", type=int, help="how many turns each has")
    parser.add_argument("--connections", type=int, default=32, help="kept open, asking at once")
    return parser


def _run(console: Console, ground: Ground, sizes: Sizes) -> None:
    place = ground.new_postgres()
    console.print(f"machine: {describe_machine()}, Python {sys.version.split()[0]}")
    console.print(f"PostgreSQL: {ground.describe_server()}")
    with console.status(f"laying in {sizes.rows:,} jobs, twice"):
        token = fill(place.settings["url"], sizes.rows)
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(_serving(name, place.settings["url"])) for name in PREFIXES
        }
        race = Race(console, servers, place.server_process_id, sizes)
        _report(console, race.run(token), sizes)


class Server(NamedTuple):
    port: int
    process_id: int


@contextmanager
def _serving(name: str, url: str) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.api_contest.serving", name, url, str(port)]
    process = subprocess.Popen(command)
    try:
        _wait_for(port, process)
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise SystemExit("the server did not start")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return


class Race:
    """Both are up all the time, and are asked in turns: what else the machine does hits both."""

    def __init__(
        self,
        console: Console,
        servers: dict[str, Server],
        database_process_id: int | None,
        sizes: Sizes,
    ) -> None:
        self._console = console
        self._servers = servers
        self._database_process_id = database_process_id
        self._sizes = sizes

    def run(self, token: str) -> Figures:
        asked = {name: self._list_requests(name, token) for name in self._servers}
        figures: Figures = {}
        for measure in MEASURES:
            for _ in range(self._sizes.repeats + 1):
                self._take_turn(measure, asked, figures)
            self._console.print(f"  {measure}: a fixed loop took {time_loop():.0f} ms")
        return {key: measured[1:] for key, measured in figures.items()}  # the first one warms up

    def _take_turn(
        self, measure: str, asked: dict[str, dict[str, bytes]], figures: Figures
    ) -> None:
        for name, requests in asked.items():
            if measure in requests:
                figure = self._measure(self._servers[name], requests[measure])
                figures.setdefault((name, measure), []).append(figure)

    def _list_requests(self, name: str, token: str) -> dict[str, bytes]:
        prefix, port = PREFIXES[name], self._servers[name].port

        def get(path: str) -> bytes:
            return make_request("GET", prefix + path, token)

        first = json.loads(asyncio.run(ask_once(port, get(f"?limit={PAGE_SIZE}"))))
        requests = {
            "one job": get(f"/{first['items'][0]['id']}"),
            "first page": get(f"?limit={PAGE_SIZE}"),
            "create": make_request("POST", prefix, token, NEW_JOB),
            "create, due later": make_request("POST", prefix, token, LATER_JOB),
        }
        if name == "rota":
            cursor = asyncio.run(_walk(port, token, self._sizes))
            requests["deep page"] = get(f"?limit={PAGE_SIZE}&cursor={cursor}")
            requests["page of a queue"] = get(f"?limit={PAGE_SIZE}&queue=queue_3")
        return requests

    def _measure(self, server: Server, request: bytes) -> Figure:
        sizes, database = self._sizes, self._database_process_id
        before = cpu_of([server.process_id]), cpu_of_family(database)
        asked = asyncio.run(
            ask_for(server.port, sizes.seconds, sizes.connections, lambda _: request)
        )
        after = cpu_of([server.process_id]), cpu_of_family(database)
        server_us, database_us = (
            (end - begin) / asked.answer_count * 1e6
            for begin, end in zip(before, after, strict=True)
        )
        return Figure(asked, server_us, database_us)


async def _walk(port: int, token: str, sizes: Sizes) -> str:
    """The cursor of the page that 10,000 pages come before, or half of all where there are less."""
    wanted = min(DEEP_PAGE * PAGE_SIZE, sizes.rows // 2)
    cursor = ""
    for _ in range(wanted // 100):
        path = f"{PREFIXES['rota']}?limit=100" + (f"&cursor={cursor}" if cursor else "")
        answer = json.loads(await ask_once(port, make_request("GET", path, token)))
        cursor = answer["next_cursor"]
    return cursor


def _report(console: Console, figures: Figures, sizes: Sizes) -> None:
    table = Table(title=f"{sizes.rows:,} jobs kept, {sizes.connections} connections")
    for title in ("request", ""):
        table.add_column(title)
    for title in ("per second", "p50 ms", "p99 ms", "server µs", "database µs", "of bare"):
        table.add_column(title, justify="right")
    for (name, measure), measured in figures.items():
        share = "" if name == "bare" else _format_share(figures, measure)
        table.add_row(measure, name, f"{_rate(measured):,.0f}", *_middles(measured), share)
    console.print(table)
    cost = _cost(figures["rota", "deep page"]) / _cost(figures["rota", "first page"])
    console.print(f"a deep page takes {cost:.2f} times the processor time of the first")
    for measure in ("create", "first page"):
        reached = _share(figures, measure)
        verdict = "reached" if reached >= TARGET else "MISSED"
        console.print(f"{measure}: {reached:.2f} of the bare one; wanted {TARGET}: {verdict}")


def _share(figures: Figures, measure: str) -> float:
    """The middle one of the ratios, turn by turn."""
    pairs = zip(figures["rota", measure], figures["bare", measure], strict=True)
    return statistics.median(one.asked.per_second / it.asked.per_second for one, it in pairs)


def _format_share(figures: Figures, measure: str) -> str:
    return f"{_share(figures, measure):.2f}" if ("bare", measure) in figures else ""


def _cost(measured: list[Figure]) -> float:
    """Of server and database; unlike a rate, it hardly depends on what else the machine does."""
    return statistics.median(figure.server_us + figure.database_us for figure in measured)


def _rate(measured: list[Figure]) -> float:
    return statistics.median(figure.asked.per_second for figure in measured)


def _middles(measured: list[Figure]) -> tuple[str, str, str, str]:
    return (
        f"{statistics.median(figure.asked.p50_ms for figure in measured):.1f}",
        f"{statistics.median(figure.asked.p99_ms for figure in measured):.1f}",
        f"{statistics.median(figure.server_us for figure in measured):.0f}",
        f"{statistics.median(figure.database_us for figure in measured):.0f}",
    )
