"""The pages of a server with many jobs: first contentful paint, server time, bytes.

    python bench/pages.py                                  # SQLite and PostgreSQL, 100,000 jobs
    python bench/pages.py --store sqlite --jobs 10000 --rounds 5

Each store is empty at first, on a server of its own. It gets a day's story (workers, statistics,
series, failures) and the jobs of ``bench/search.py``. ``rota serve`` runs in a process of its own,
and Chromium opens each page as a person does who is signed in.

- first: with an empty cache and a new process of the browser; style and scripts are loaded too
- again: with a cache, coming from another page of the same server. *paint* is the first contentful
  paint that Chromium reports: its median, the *best* and the *p95*. *server* is the time from the
  request to the first byte, *CPU* what the server process used for the page
- KB: the page, and with everything that it loads, as it is sent

Visits take turns: each round opens every page once. An *empty* page, one line of text that the
server sends at once, shows what the machine itself takes.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.queue_contest.contestants import StoreKind
from bench.queue_contest.harness.places import Ground
from bench.search import fill
from playwright.sync_api import Browser, Page
from rich.console import Console
from rich.table import Table
from tests.browser.stage.chromium import open_browser, open_context
from tests.browser.stage.story import fill_with_story

from rota import open_store
from rota.auth.caller import EVERY_SCOPE
from rota.auth.tokens import TokenBook
from rota.clock.system import SystemClock
from rota.ops.series import list_series

EMPTY = "empty"
PAGES = {
    EMPTY: "/../health/live",
    "overview": "",
    "overview, 30 days": "?range=30d",
    "jobs": "/jobs",
    "jobs, dead": "/jobs?state=dead",
    "job": "/jobs/{job}",
    "queues": "/queues",
    "queue": "/queues/mail",
    "kinds": "/kinds",
    "kind": "/kinds/mail.send",
    "errors": "/errors",
    "schedules": "/schedules",
    "series": "/schedules/series/{series}",
}
GOAL_MS = 100
MOST_KB = 150
STARTS_WITHIN = 60

TIMES = """() => new Promise((resolve) => {
  const paints = performance.getEntriesByName("first-contentful-paint");
  const answer = async (paint) => {
    while (document.documentElement.matches(".js") && !window.htmx)
      await new Promise((done) => setTimeout(done, 10));
    const [page] = performance.getEntriesByType("navigation");
    const others = performance.getEntriesByType("resource");
    const loaded = others.filter((it) => it.initiatorType !== "xmlhttprequest");
    resolve({
      paint,
      server: page.responseStart - page.requestStart,
      own: page.encodedBodySize,
      all: loaded.reduce((sum, it) => sum + it.encodedBodySize, page.encodedBodySize),
    });
  };
  if (paints.length) { answer(paints[0].startTime); return; }
  new PerformanceObserver((list, observer) => {
    for (const it of list.getEntriesByName("first-contentful-paint")) {
      observer.disconnect();
      answer(it.startTime);
    }
  }).observe({ type: "paint", buffered: true });
})"""
"""What Chromium knows of the page, once it is painted and has loaded its last script."""


class Seen(NamedTuple):
    """One visit: milliseconds and bytes."""

    paint: float
    server: float
    cpu: float
    own: int
    all: int


class Filled(NamedTuple):
    """What a visitor needs: a token, a job and a series."""

    token: str
    job: str
    series: str


async def prepare(url: str, count: int) -> Filled:
    """A month of jobs, and the story of the day."""
    now = datetime.now(UTC)
    async with await open_store(url) as store:
        await fill(store, count, now)
        await fill_with_story(store, now)
        (job,) = (await store.find("default", None, None, 1)).items
        series = (await list_series(store, "default", now, limit=1)).items[0]
        issued = await TokenBook(store, SystemClock()).issue("default", tuple(EVERY_SCOPE), "bench")
        return Filled(issued.secret.reveal(), job.id, series.id)


@contextmanager
def served(url: str) -> Iterator[tuple[str, int]]:
    """``rota serve`` on a free port: its address, and its process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        str(Path(sys.executable).with_name("rota")),
        "serve",
        "--store",
        url,
        "--port",
        str(port),
    ]
    environ = {**os.environ, "ROTA_SEARCH_INDEX": "off", "TZ": "Europe/Berlin"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(f"{address}/health/live", process)
            yield address, process.pid
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < until and process.poll() is None:
        try:
            with urlopen(url, timeout=2):  # noqa: S310 - our own server
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def read_cpu(process_id: int) -> float:
    """The CPU time of a process in milliseconds."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def look_at(page: Page, url: str, process_id: int) -> Seen:
    before = read_cpu(process_id)
    page.goto(url, wait_until="load")
    found = page.evaluate(TIMES)
    page.goto(urljoin(url, "/health/live"))
    cpu = read_cpu(process_id) - before
    return Seen(found["paint"], found["server"], cpu, int(found["own"]), int(found["all"]))


def sign_in(page: Page, address: str, token: str) -> None:
    page.goto(f"{address}/admin")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview", level=1).wait_for()


def visit_all(address: str, process_id: int, filled: Filled, rounds: int) -> Table:
    table = Table(
        "page", "first: paint ms", "again: paint ms", "best", "p95", "server ms", "CPU ms", "KB"
    )
    urls = {
        name: f"{address}/admin{path.format(job=filled.job, series=filled.series)}"
        for name, path in PAGES.items()
    }
    with open_browser() as browser:
        cookies = _cookies_of(browser, address, filled)
        with open_context(browser) as context:
            context.add_cookies(cookies)
            again = _take_turns(context.new_page(), process_id, urls, rounds)
        for name, url in urls.items():
            with open_context(browser) as context:
                context.add_cookies(cookies)
                first = look_at(context.new_page(), url, process_id)
            table.add_row(name, *_describe(first, again[name]))
    return table


def _take_turns(
    page: Page, process_id: int, urls: Mapping[str, str], rounds: int
) -> dict[str, list[Seen]]:
    """Every page in each round, so that all of them meet the same moments of the machine."""
    turns = [
        {name: look_at(page, url, process_id) for name, url in urls.items()}
        for _ in range(rounds + 1)
    ]
    return {name: [turn[name] for turn in turns[1:]] for name in urls}


def _cookies_of(browser: Browser, address: str, filled: Filled) -> Any:
    """A session of its own, so that the cache of the visit is empty."""
    with open_context(browser) as context:
        page = context.new_page()
        sign_in(page, address, filled.token)
        return context.cookies()


def _describe(first: Seen, again: Sequence[Seen]) -> Iterator[str]:
    paints = sorted(it.paint for it in again)
    p50, p95 = statistics.median(paints), paints[max(round(len(paints) * 0.95) - 1, 0)]
    yield f"{first.paint:.0f}{'' if first.paint < GOAL_MS else ' !'}"
    yield f"{p50:.0f}{'' if p50 < GOAL_MS else ' !'}"
    yield f"{paints[0]:.0f}"
    yield f"{p95:.0f}"
    yield f"{statistics.median(it.server for it in again):.0f}"
    yield f"{statistics.mean(it.cpu for it in again):.0f}"
    yield f"{first.own / 1024:.0f} of {first.all / 1024:.0f}" + (
        "" if first.all < MOST_KB * 1024 else " !"
    )


def run_store(ground: Ground, kind: StoreKind, asked: argparse.Namespace) -> None:
    if kind is StoreKind.POSTGRES:
        ground.start_server()
    place = ground.new_place(kind)
    console = Console(width=110)
    try:
        url = place.settings["url"]
        filled = asyncio.run(prepare(url, asked.jobs))
        place.settle()
        with served(url) as (address, process_id):
            table = visit_all(address, process_id, filled, asked.rounds)
        console.print(f"{kind.value}, {asked.jobs:,} jobs; ! misses {GOAL_MS} ms or {MOST_KB} KB")
        console.print(table)
    finally:
        place.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    names = [kind.value for kind in StoreKind]
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--store", action="append", choices=names)
    asked = parser.parse_args()
    ground = Ground()
    try:
        for kind in StoreKind:
            if kind.value in (asked.store or ("sqlite", "postgres")):
                run_store(ground, kind, asked)
    finally:
        ground.close()


if __name__ == "__main__":
    main()
