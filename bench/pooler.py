"""What PgBouncer costs: jobs added and drained directly and through it, in turns, in one run.

    python bench/pooler.py                                   # about a minute
    ROTA_TEST_PGBOUNCER=/path/to/pgbouncer python bench/pooler.py

Each round measures every place once, in another order; the figures are medians of the rounds. The
server is durable, as it is delivered. The pooler has the settings of the reference of stores.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

sys.path[0] = str(Path(__file__).resolve().parent.parent)

import psycopg  # noqa: E402 - after the path is set
from bench.queue_contest.harness.machine import (  # noqa: E402 - found by the path above
    cpu_of,
    cpu_of_family,
)
from tests.servers.binaries import find_installations  # noqa: E402 - found by the path above
from tests.servers.pgbouncer import PgBouncer, find_pgbouncer  # noqa: E402 - likewise
from tests.servers.postgres import PostgresServer  # noqa: E402 - likewise

from rota.jobs import Job, JobRequest, admit_job, make_job_ids  # noqa: E402 - likewise
from rota.stores.postgres.address import read_address  # noqa: E402 - likewise
from rota.stores.postgres.dialling import PLANNING  # noqa: E402 - likewise
from rota.stores.postgres.store import PostgresStore  # noqa: E402 - likewise
from rota.worker import Context, Worker, WorkerSettings  # noqa: E402 - likewise

KIND = "noop"
Figures = dict[str, float]


@dataclass(frozen=True)
class Place:
    """An address, and the processes behind it."""

    url: str
    server: PostgresServer
    pooler: PgBouncer | None = None

    def cpu_seconds(self) -> float:
        """Processor time of this program, the server and the pooler."""
        others = cpu_of_family(self.server.process_id)
        if self.pooler is not None and self.pooler.process_id is not None:
            others += cpu_of([self.pooler.process_id])
        return others + time.process_time()


def make_jobs(count: int) -> list[Job]:
    now, request = datetime.now(UTC), JobRequest(name="bench", queue="default", kind=KIND)
    ids = make_job_ids(now, random.getrandbits(62), count)
    return [admit_job(request, job_id=job_id, now=now) for job_id in ids]


async def measure(place: Place, added: int, drained: int) -> Figures:
    """Each verb: jobs a second, and processor time of all that take part, in µs a job."""
    url = f"{place.url}{'&' if '?' in place.url else '?'}schema=bench_{token_hex(4)}"
    figures: Figures = {}
    async with await PostgresStore.open(read_address(url)) as store:
        await store.insert(make_jobs(1), datetime.now(UTC))
        await drain(store, 1, WorkerSettings())
        with measured(place, figures, "add one by one", added):
            for job in make_jobs(added):
                await store.insert([job], datetime.now(UTC))
        with measured(place, figures, "drain by 10", added):
            await drain(store, added, WorkerSettings())
        await store.insert(make_jobs(drained), datetime.now(UTC))
        with measured(place, figures, "drain by 500", drained):
            await drain(store, drained, WorkerSettings(batch=500, concurrency=100))
    return figures


async def drain(store: PostgresStore, count: int, settings: WorkerSettings) -> None:
    worker, done = Worker(store, settings=settings), 0

    async def noop(_: Context) -> None:
        nonlocal done
        done += 1
        if done == count:
            worker.stop()

    worker.handler(KIND)(noop)
    await worker.run()


@contextmanager
def measured(place: Place, figures: Figures, verb: str, count: int) -> Iterator[None]:
    begin, used = time.perf_counter(), place.cpu_seconds()
    yield
    figures[f"{verb}, jobs/s"] = count / (time.perf_counter() - begin)
    figures[f"{verb}, jobs per CPU second"] = count / (place.cpu_seconds() - used)


@contextmanager
def places(folder: Path) -> Iterator[dict[str, Place]]:
    """The addresses of one server: directly, and through two poolers."""
    program = find_pgbouncer()
    if program is None:
        raise SystemExit("there is no pgbouncer on this machine")
    server = PostgresServer(find_installations()[0], folder / "postgres")
    server.create()
    server.start()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE steady LOGIN SUPERUSER")
        for name, value in PLANNING.items():
            connection.execute(f"ALTER ROLE steady SET {name} = '{value}'".encode())
    poolers = {
        "pooled, settings by ALTER ROLE": PgBouncer(
            program,
            folder / "one",
            server.url.replace("rota@", "steady@"),
            ["default_pool_size = 20"],
        ),
        "pooled, settings in each transaction": PgBouncer(
            program, folder / "two", server.url, ["default_pool_size = 20"]
        ),
    }
    try:
        for pooler in poolers.values():
            pooler.create()
            pooler.start()
        pooled = {name: Place(each.url, server, each) for name, each in poolers.items()}
        yield {"direct": Place(server.url, server), **pooled}
    finally:
        for pooler in poolers.values():
            pooler.remove()
        server.remove()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--added", type=int, default=300)
    parser.add_argument("--drained", type=int, default=5000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rota-pooler-") as folder:
        Path(folder).chmod(0o711)
        with places(Path(folder)) as found:
            figures = run_rounds(found, given)
    report(figures)


def run_rounds(found: dict[str, Place], given: argparse.Namespace) -> dict[str, list[Figures]]:
    """Every place once in each round, beginning with another one each time."""
    names = [*found]
    figures: defaultdict[str, list[Figures]] = defaultdict(list)
    for number in range(given.rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            measuring = measure(found[name], given.added, given.drained)
            figures[name].append(asyncio.run(measuring))
    return figures


def report(found: dict[str, list[Figures]]) -> None:
    for verb in found["direct"][0]:
        direct = [each[verb] for each in found["direct"]]
        for name, figures in found.items():
            rates = [each[verb] for each in figures]
            ratios = [own / other for own, other in zip(rates, direct, strict=True)]
            print(
                f"{verb:34} {name:36} {statistics.median(rates):7.0f}, "
                f"{statistics.median(ratios):.2f} of direct "
                f"({', '.join(f'{ratio:.2f}' for ratio in ratios)})"
            )


if __name__ == "__main__":
    main()
