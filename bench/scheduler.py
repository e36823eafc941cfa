"""A million declarative tasks: what they cost to take in, to keep, and to start all at once.

    python bench/scheduler.py                 # everything; about ten minutes, five of them idle
    python bench/scheduler.py --tasks 100000 --due 10000 --idle-seconds 30
    python bench/scheduler.py --tasks 100000 --store redis://localhost --store sqlite:///x.db

Each measurement runs in a process of its own, so that memory is that of one contestant. APScheduler
3 keeps its jobs in memory; Rota writes every task and every result durably to an SQLite file.

With ``--store``, which may be given again, it measures specification 1's targets R1 and R2 on empty
stores: how long after the minute the last of the tasks starts when all are due at once, and how
long after a restart, when a kill -9 interrupted all of them. The targets allow ten minutes for
100,000 tasks.
"""

import argparse
import asyncio
import gc
import json
import logging
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from rota import Scheduler, open_store

EXPRESSIONS = 1_000
ZONE = ZoneInfo("Europe/London")
KIBIBYTE = 1024
Measured = dict[str, float]


def list_expressions(avoiding: int) -> list[str]:
    """A thousand expressions, none of which is due within an hour of the minute to avoid."""
    chance = random.Random(1)
    found: set[str] = set()
    while len(found) < EXPRESSIONS:
        minute, hour = chance.randrange(60), chance.randrange(24)
        away = (hour * 60 + minute - avoiding) % (24 * 60)
        if 60 < away < 23 * 60:
            found.add(f"{minute} {hour} {chance.randrange(1, 29)} * *")
    return sorted(found)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def minute_of_day() -> int:
    now = datetime.now(ZONE)
    return now.hour * 60 + now.minute


async def no_operation() -> None:
    pass


async def measure_intake(tasks: int, path: str, idle_seconds: float) -> Measured:
    """First and second initialize, memory, and the cost of doing nothing."""
    expressions = list_expressions(minute_of_day())
    before = resident_bytes()
    registrations = [
        (
            f"task-{number:07d}",
            expressions[number % EXPRESSIONS],
            no_operation,
            timedelta(minutes=5),
        )
        for number in range(tasks)
    ]
    own = resident_bytes()
    store = await open_store(f"sqlite:///{path}")
    measured: Measured = {"registrations_bytes": (own - before) / tasks}
    for turn in ("first", "again"):
        scheduler = Scheduler(store, zone=ZONE)
        start = time.perf_counter()
        await scheduler.initialize(registrations)
        measured[f"{turn}_us"] = (time.perf_counter() - start) / tasks * 1e6
        if turn == "first":
            gc.collect()
            measured["resident_bytes"] = (resident_bytes() - before) / tasks
            await scheduler.stop()
    await asyncio.sleep(1)
    cpu, start = time.process_time(), time.perf_counter()
    await asyncio.sleep(idle_seconds)
    measured["idle_cpu_percent"] = (time.process_time() - cpu) / (time.perf_counter() - start) * 100
    await scheduler.stop()
    await store.close()
    return measured


class Burst:
    """Notes when callbacks start."""

    def __init__(self, wanted: int) -> None:
        self.started = 0
        self.first_at = self.last_at = 0.0
        self._wanted = wanted
        self.is_complete = asyncio.Event()

    async def __call__(self) -> None:
        now = time.time()
        if not self.started:
            self.first_at = now
        self.started += 1
        if self.started == self._wanted:
            self.last_at = now
            self.is_complete.set()


async def next_boundary(leaving: float) -> tuple[datetime, float]:
    """The next minute that leaves enough time to prepare for it."""
    now = datetime.now(UTC)
    boundary = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    while (boundary - now).total_seconds() < leaving:
        boundary += timedelta(minutes=1)
    return boundary, boundary.timestamp()


async def measure_burst(tasks: int, path: str, due: int) -> Measured:
    """``due`` tasks of ``tasks`` fall due at one minute."""
    boundary, boundary_at = await next_boundary(leaving=20 + tasks * 3e-5)
    local = boundary.astimezone(ZONE)
    burst = Burst(due)
    now_due = f"{local.minute} {local.hour} * * *"
    others = list_expressions(local.hour * 60 + local.minute)
    registrations: list[Any] = [
        (
            f"task-{number:07d}",
            now_due if number < due else others[number % EXPRESSIONS],
            burst if number < due else no_operation,
            timedelta(minutes=5),
        )
        for number in range(tasks)
    ]
    store = await open_store(f"sqlite:///{path}")
    scheduler = Scheduler(store, zone=ZONE)
    await scheduler.initialize(registrations)
    spare = boundary_at - time.time()
    await burst.is_complete.wait()
    await scheduler.stop()  # returns when every result is durable
    durable_at = time.time()
    await store.close()
    return {
        "spare_s": spare,
        "first_s": burst.first_at - boundary_at,
        "last_s": burst.last_at - boundary_at,
        "durable_s": durable_at - boundary_at,
    }


async def measure_apscheduler(jobs: int, _: str, due: int) -> Measured:
    """The same in APScheduler 3's memory; its triggers are shared as Rota shares schedules."""
    boundary, boundary_at = await next_boundary(leaving=20 + jobs * 4e-4)
    local = boundary.astimezone(ZONE)
    burst = Burst(due)
    others = [
        CronTrigger.from_crontab(text, ZONE)
        for text in list_expressions(local.hour * 60 + local.minute)
    ]
    now_due = CronTrigger.from_crontab(f"{local.minute} {local.hour} * * *", ZONE)
    before = resident_bytes()
    scheduler = AsyncIOScheduler(timezone=ZONE, job_defaults={"misfire_grace_time": 600})
    scheduler.start()
    start = time.perf_counter()
    for number in range(jobs):
        trigger = now_due if number < due else others[number % EXPRESSIONS]
        callback: Callable[..., Any] = burst.__call__ if number < due else no_operation
        scheduler.add_job(callback, trigger, id=f"job-{number:07d}")
    added = (time.perf_counter() - start) / jobs * 1e6
    resident = (resident_bytes() - before) / jobs
    await burst.is_complete.wait()
    scheduler.shutdown(wait=False)
    return {
        "first_us": added,
        "resident_bytes": resident,
        "first_s": burst.first_at - boundary_at,
        "last_s": burst.last_at - boundary_at,
    }


async def start_all(tasks: int, url: str, callback: Callable[[], Any], at: datetime) -> Scheduler:
    """A scheduler whose tasks are all due each day at that minute."""
    local = at.astimezone(ZONE)
    expression = f"{local.minute} {local.hour} * * *"
    scheduler = Scheduler(await open_store(url), zone=ZONE)
    await scheduler.initialize(
        [(f"task-{n:07d}", expression, callback, timedelta(minutes=5)) for n in range(tasks)]
    )
    return scheduler


async def measure_r1(tasks: int, url: str, _: int) -> Measured:
    """All tasks are due at one minute; then the process dies while all of them run."""
    boundary, boundary_at = await next_boundary(leaving=20 + tasks * 2e-4)
    burst = Burst(tasks)

    async def start_and_stay() -> None:
        await burst()
        await asyncio.Event().wait()

    begun = time.perf_counter()
    await start_all(tasks, url, start_and_stay, boundary)
    taken_in = time.perf_counter() - begun
    await burst.is_complete.wait()
    last_s = burst.last_at - boundary_at
    told = {"intake_s": taken_in, "first_s": burst.first_at - boundary_at, "last_s": last_s}
    print(json.dumps(told | {"boundary": boundary_at}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


async def measure_r2(tasks: int, url: str, boundary_at: int) -> Measured:
    """After the restart every task was interrupted, and starts again."""
    burst = Burst(tasks)
    began_at = time.time()
    scheduler = await start_all(tasks, url, burst, datetime.fromtimestamp(boundary_at, UTC))
    await burst.is_complete.wait()
    again_s = burst.last_at - began_at
    await scheduler.stop()
    return {"again_s": again_s}


def measure_targets(console: Console, tasks: int, urls: list[str]) -> None:
    """R1 and R2 on each store, in a table."""
    title = f"{tasks:,} tasks due at once; seconds"
    table = Table("", "take in", "R1: first", "R1: last", "R2: last", title=title)
    for url in urls:
        own = [sys.executable, __file__, "--tasks", str(tasks), "--path", url, "--part"]
        killed = subprocess.run([*own, "r1"], check=False, stdout=subprocess.PIPE)
        r1: Measured = json.loads(killed.stdout)
        again = [*own, "r2", "--extra", str(r1["boundary"])]
        r2 = json.loads(subprocess.run(again, check=True, stdout=subprocess.PIPE).stdout)
        numbers = (r1["intake_s"], r1["first_s"], r1["last_s"], r2["again_s"])
        table.add_row(url.partition(":")[0], *(f"{it:.1f}" for it in numbers))
    console.print(table)


PARTS = {
    "intake": measure_intake,
    "burst": measure_burst,
    "apscheduler": measure_apscheduler,
    "r1": measure_r1,
    "r2": measure_r2,
}


def measure(part: str, tasks: int, extra: float) -> Measured:
    """Run one part in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            __file__,
            "--part",
            part,
            "--tasks",
            str(tasks),
            "--extra",
            str(extra),
            "--path",
            str(Path(folder) / "bench.db"),
        ]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: Measured = json.loads(done.stdout)
    return result


def report(console: Console, rows: list[tuple[str, Measured]]) -> None:
    table = Table("", "take in, µs a task", "again", "bytes a task", "idle CPU", title="Intake")
    for name, it in rows:
        table.add_row(
            name,
            f"{it['first_us']:.1f}",
            f"{it['again_us']:.1f}" if "again_us" in it else "-",
            f"{it['resident_bytes']:.0f}" if "resident_bytes" in it else "-",
            f"{it['idle_cpu_percent']:.3f} %" if "idle_cpu_percent" in it else "-",
        )
    console.print(table)


def report_bursts(console: Console, rows: list[tuple[str, Measured]]) -> None:
    table = Table("", "first start", "last start", "all durable", title="After the minute, seconds")
    for name, it in rows:
        durable = f"{it['durable_s']:.2f}" if "durable_s" in it else "not durable"
        table.add_row(name, f"{it['first_s']:.3f}", f"{it['last_s']:.2f}", durable)
    console.print(table)


class Sizes(NamedTuple):
    """How many tasks each measurement takes."""

    few: int
    many: int
    due: int
    peer: int
    idle_seconds: float

    @property
    def peer_due(self) -> int:
        return self.peer // 10


def run_all(sizes: Sizes) -> None:
    console = Console()
    console.print(
        f"CPython {platform.python_version()}, {os.cpu_count()} cores,"
        f" rota {version('rota')}, apsw {version('apsw')}, APScheduler {version('apscheduler')}"
    )
    measured = measure_all(console, sizes)
    few, many, peer = measured["few"], measured["many"], measured["peer"]
    peer_name = f"APScheduler 3, {sizes.peer:,} jobs"
    rota_names = f"rota, {sizes.few:,} tasks", f"rota, {sizes.many:,} tasks"
    report(console, [(rota_names[0], few), (rota_names[1], many), (peer_name, peer)])
    rows = [
        (f"rota, {sizes.due:,} of {sizes.many:,} due", measured["burst"]),
        (f"rota, {sizes.peer_due:,} of {sizes.peer:,} due", measured["even"]),
        (f"APScheduler 3, {sizes.peer_due:,} of {sizes.peer:,} due", peer),
    ]
    report_bursts(console, rows)
    console.print(
        f"taking a task in durably: {peer['first_us'] / many['first_us']:.1f}x faster than"
        f" APScheduler adds a job to memory;"
        f" {many['resident_bytes'] / KIBIBYTE:.2f} KiB a task, its registration included;"
        f" cost a task from {sizes.few:,} to {sizes.many:,}:"
        f" {many['first_us'] / few['first_us']:.2f}x"
    )


def measure_all(console: Console, sizes: Sizes) -> dict[str, Measured]:
    parts = {
        "few": ("intake", sizes.few, 1.0),
        "many": ("intake", sizes.many, sizes.idle_seconds),
        "burst": ("burst", sizes.many, sizes.due),
        "even": ("burst", sizes.peer, sizes.peer_due),
        "peer": ("apscheduler", sizes.peer, sizes.peer_due),
    }
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    measured: dict[str, Measured] = {}
    with Progress(*columns, console=console) as progress:
        for name, (part, tasks, extra) in parts.items():
            bar = progress.add_task(f"{part}, {tasks:,} tasks", total=None)
            measured[name] = measure(part, tasks, extra)
            progress.update(bar, total=1, completed=1)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--due", type=int, default=100_000)
    parser.add_argument("--idle-seconds", type=float, default=300)
    parser.add_argument("--part", choices=sorted(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--extra", type=float, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--path", default="", help=argparse.SUPPRESS)
    parser.add_argument("--store", action="append", help="measure R1 and R2 on this empty store")
    given = parser.parse_args()
    if given.store:
        measure_targets(Console(), given.tasks, given.store)
        return
    logging.disable(logging.WARNING)  # a restart reports every task that was interrupted
    if given.part is None:
        few, peer = max(given.tasks // 100, 1), min(given.tasks, 100_000)
        run_all(Sizes(few, given.tasks, given.due, peer, given.idle_seconds))
        return
    part = PARTS[given.part]
    extra = given.extra if given.part == "intake" else int(given.extra)
    print(json.dumps(asyncio.run(part(given.tasks, given.path, extra))))


if __name__ == "__main__":
    main()
