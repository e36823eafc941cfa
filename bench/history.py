"""Whether a lease costs the same after many leases, beside many ready jobs.

    python bench/history.py                                    # PostgreSQL and SQLite, 200,000 jobs
    python bench/history.py --store postgres --jobs 10000000   # needs 20 GB and an hour

A store is given ready jobs of one queue. As many are leased and completed; those that are taken are
replaced at the rear, so that the same number is always ready. The cost of a lease is sampled before
the first, and after 1, 10, 50 and 100 % of the leases. Nothing is pruned meanwhile.

The figures that hold on a busy machine are the processor time of the server's sessions and, on
PostgreSQL, the pages that a lease reads. Times as the caller sees them are medians.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import asyncpg
from bench.queue_contest.contestants import StoreKind
from bench.queue_contest.harness.machine import describe_machine
from bench.queue_contest.harness.places import Ground, Place, PostgresPlace, SqlitePlace
from bench.queue_contest.peers.rota_store import make_jobs
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from rota import open_store
from rota.jobs import Job, decide_complete
from rota.stores.opened import OpenStore
from rota.stores.protocol import KeptJob, LeaseRequest

PAYLOAD = {"text": "x" * 100}
SHARES = (0.0, 0.01, 0.1, 0.5, 1.0)
SAMPLED = 40
"""Leases in a sample; the jobs are completed after the last."""

WARM_UP = 30
LOADED_AT_ONCE = 2_000
DRIVEN_AT_ONCE = 500
"""Jobs in a lease between the samples."""

HOUR = timedelta(hours=1)
GOAL = 1.2


class Cost(NamedTuple):
    """What one lease costs: medians of a sample, and of pages the mean; None where unknown."""

    done: int
    caller_us: float
    server_us: float
    pages: float | None
    driven_server_us: float
    """Of all the server's processes, a job leased and completed since the sample before."""


class Meter:
    """The processor time and the pages of a store's server."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def sessions(self) -> float:
        """Seconds of the processes that carry out calls."""
        if isinstance(self._place, SqlitePlace):
            return time.process_time()
        head = self._place.server_process_id or 0
        return sum(map(_seconds_of, filter(_is_session, _family(head))))

    def all(self) -> float:
        """Seconds of the whole server, what it does in the background included."""
        if isinstance(self._place, SqlitePlace):
            return time.process_time()
        return sum(map(_seconds_of, _family(self._place.server_process_id or 0)))

    async def pages(self, store: OpenStore) -> int | None:
        """Pages of jobs and their indexes that were read since ever."""
        if not isinstance(self._place, PostgresPlace):
            return None
        await asyncio.sleep(1.1)  # a session reports no more often than once a second
        await store.read_clock()
        return int(
            self._place.ask(
                "SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit"
                " FROM pg_statio_user_tables WHERE schemaname = 'rota' AND relname = 'jobs'"
            )
        )


def _family(head: int) -> list[int]:
    children = Path(f"/proc/{head}/task/{head}/children")
    return [head, *map(int, children.read_text().split())] if children.exists() else []


def _is_session(process_id: int) -> bool:
    """Of PostgreSQL, a process that serves a client; other servers have one process."""
    try:
        title = Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return False
    return b"postgres" not in title or (b"contest" in title and b"autovacuum" not in title)


def _seconds_of(process_id: int) -> float:
    total = 0
    for path in Path(f"/proc/{process_id}/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[0])
        except OSError:
            continue
    return total / 1e9


class Supply:
    """Gives the store ready jobs, each created a microsecond after the one before."""

    def __init__(self, store: OpenStore, place: Place) -> None:
        self._store = store
        self._place = place
        self._chance = random.Random(1)
        self._next = datetime.now(UTC) - 24 * HOUR

    async def add(self, count: int, report: Callable[[int], None]) -> None:
        """Append this number of jobs."""
        if not count:
            return
        if isinstance(self._place, PostgresPlace):
            await self._copy_rows(self._place.settings["url"], count)
            report(count)
            return
        for first in range(0, count, LOADED_AT_ONCE):
            jobs = self._make(min(LOADED_AT_ONCE, count - first))
            await self._store.load([KeptJob(job, ()) for job in jobs], datetime.now(UTC))
            report(len(jobs))

    def _make(self, count: int) -> list[Job]:
        jobs = make_jobs(count, PAYLOAD, self._next, self._chance.getrandbits(62))
        self._next += timedelta(milliseconds=1)
        return jobs

    async def _copy_rows(self, url: str, count: int) -> None:
        """Copy the row of one job on the server; ids ascend as those of new jobs do."""
        (job,) = self._make(1)
        await self._store.insert([job], datetime.now(UTC))
        connection = await asyncpg.connect(url)
        columns = [
            row[0]
            for row in await connection.fetch(
                "SELECT column_name FROM information_schema.columns"
                " WHERE table_schema = 'rota' AND table_name = 'jobs'"
            )
        ]
        made = {
            "id": "(left(id::text, 24) || lpad(to_hex(number), 12, '0'))::uuid",
            **{
                name: f"{name} + number * interval '1 microsecond'"
                for name in ("created_at", "due_at", "updated_at")
            },
        }
        await connection.execute(
            f"INSERT INTO rota.jobs ({', '.join(columns)})"  # noqa: S608 - names of the catalogue
            f" SELECT {', '.join(made.get(name, name) for name in columns)}"
            f" FROM rota.jobs CROSS JOIN generate_series(1, {count - 1}) AS number"
            f" WHERE id = '{job.id}'",
            timeout=7200,
        )
        await connection.close()
        self._next += timedelta(microseconds=count)


class Run:
    """One store, from the first lease to the last."""

    def __init__(self, store: OpenStore, place: Place, batch: int) -> None:
        self._store = store
        self._meter = Meter(place)
        self._batch = batch
        self.done = 0

    async def lease(self, count: int) -> list[Job]:
        request = LeaseRequest(worker="bench", limit=count, lease_for=HOUR)
        jobs = list(await self._store.lease(request, datetime.now(UTC)))
        if not jobs:
            raise RuntimeError(f"no job left after {self.done}")
        self.done += len(jobs)
        return jobs

    async def complete(self, jobs: Sequence[Job]) -> None:
        now = datetime.now(UTC)
        for first in range(0, len(jobs), DRIVEN_AT_ONCE):
            part = jobs[first : first + DRIVEN_AT_ONCE]
            await self._store.apply([decide_complete(job, now) for job in part], now)

    async def drive(self, count: int, report: Callable[[int], None]) -> float:
        """Lease and complete this number of jobs; µs of the whole server a job."""
        before, last = self._meter.all(), self.done + count
        begun_with = self.done
        while self.done < last:
            jobs = await self.lease(min(DRIVEN_AT_ONCE, last - self.done))
            await self.complete(jobs)
            report(len(jobs))
        driven = self.done - begun_with
        return (self._meter.all() - before) / driven * 1e6 if driven else 0.0

    async def sample(self, driven_us: float, done: int) -> Cost:
        """What a lease costs now."""
        pages = await self._meter.pages(self._store)
        taken: list[Job] = []
        took: list[float] = []
        cpu: list[float] = []
        for _ in range(SAMPLED):
            before, begun = self._meter.sessions(), time.perf_counter()
            taken += await self.lease(self._batch)
            took.append(time.perf_counter() - begun)
            cpu.append(self._meter.sessions() - before)
        after = await self._meter.pages(self._store)
        await self.complete(taken)
        page_count = None if pages is None or after is None else (after - pages) / SAMPLED
        caller_us, server_us = (statistics.median(each) * 1e6 for each in (took, cpu))
        return Cost(done, caller_us, server_us, page_count, driven_us)


async def run_store(
    place: Place, job_count: int, lease_count: int, batch: int, console: Console
) -> list[Cost]:
    """The costs at each share of the leases."""
    costs: list[Cost] = []
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console
    )
    async with await open_store(place.settings["url"]) as store:
        supply, run = Supply(store, place), Run(store, place, batch)
        spare = (WARM_UP + SAMPLED * len(SHARES)) * batch
        with bar:
            task = bar.add_task(f"{job_count:,} jobs", total=job_count + spare)
            await supply.add(job_count + spare, lambda count: bar.advance(task, count))
            place.settle()
            for _ in range(WARM_UP):
                await run.complete(await run.lease(batch))
            first = run.done
            task = bar.add_task(f"{lease_count:,} leases", total=lease_count)
            for share in SHARES:
                left = max(0, first + round(lease_count * share) - run.done)
                await supply.add(left, lambda _: None)
                driven_us = await run.drive(left, lambda count: bar.advance(task, count))
                costs.append(await run.sample(driven_us, run.done - first))
                console.print(describe(costs[-1], costs[0]))
    return costs


def describe(cost: Cost, first: Cost) -> str:
    pages = (
        ""
        if cost.pages is None or not first.pages
        else (f"; {cost.pages:,.0f} pages ({cost.pages / first.pages:.2f})")
    )
    return (
        f"after {cost.done:,} leases: server {cost.server_us:,.0f} µs a lease"
        f" ({cost.server_us / first.server_us:.2f}); caller {cost.caller_us:,.0f} µs"
        f" ({cost.caller_us / first.caller_us:.2f}){pages};"
        f" {cost.driven_server_us:.0f} µs of the server a job since the last"
    )


def show(store: StoreKind, costs: Sequence[Cost], batch: int, job_count: int) -> Table:
    title = f"{store}: a lease of {batch} beside {job_count:,} ready jobs"
    table = Table("leases done", "server µs", "ratio", "caller µs", "ratio", "pages", title=title)
    for cost in costs:
        table.add_row(
            f"{cost.done:,}",
            f"{cost.server_us:,.0f}",
            f"{cost.server_us / costs[0].server_us:.2f}",
            f"{cost.caller_us:,.0f}",
            f"{cost.caller_us / costs[0].caller_us:.2f}",
            "-" if cost.pages is None else f"{cost.pages:,.0f}",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    kinds = [str(kind) for kind in StoreKind]
    parser.add_argument("--store", action="append", choices=kinds, help="default: postgres, sqlite")
    parser.add_argument("--jobs", type=int, default=200_000, help="ready jobs")
    parser.add_argument("--leases", type=int, help="jobs that are leased; default: as many")
    parser.add_argument("--batch", type=int, default=100, help="jobs in a sampled lease")
    options = parser.parse_args()
    console = Console()
    console.print(describe_machine(), f"process {os.getpid()}")
    with closing(Ground()) as ground:
        for name in options.store or ("postgres", "sqlite"):
            kind = StoreKind(name)
            if kind is StoreKind.POSTGRES:
                ground.start_server()
                console.print(ground.describe_server())
            with closing(ground.new_place(kind)) as place:
                lease_count = options.leases or options.jobs
                run = run_store(place, options.jobs, lease_count, options.batch, console)
                costs = asyncio.run(run)
            console.print(show(kind, costs, options.batch, options.jobs))
            last = costs[-1].server_us / costs[0].server_us
            verdict = "reached" if last <= GOAL else "MISSED"
            console.print(f"{kind}: {last:.2f} of the first; wanted at most {GOAL}: {verdict}")


if __name__ == "__main__":
    main()
