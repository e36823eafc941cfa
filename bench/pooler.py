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
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

sys.path[0] = str(Path(__file__).resolve().parent.parent)

import psycopg  # noqa: E402 - after the path is set
from tests.servers.binaries import find_installations  # noqa: E402 - found by the path above
from tests.servers.pgbouncer import PgBouncer, find_pgbouncer  # noqa: E402 - likewise
from tests.servers.postgres import PostgresServer  # noqa: E402 - likewise

from rota.jobs import Job, JobRequest, admit_job, make_job_ids  # noqa: E402 - likewise
from rota.stores.postgres.address import read_address  # noqa: E402 - likewise
from rota.stores.postgres.dialling import PLANNING  # noqa: E402 - likewise
from rota.stores.postgres.store import PostgresStore  # noqa: E402 - likewise
from rota.worker import Context, Worker  # noqa: E402 - likewise

KIND = "noop"
Figures = dict[str, float]


def make_jobs(count: int) -> list[Job]:
    now, request = datetime.now(UTC), JobRequest(name="bench", queue="default", kind=KIND)
    ids = make_job_ids(now, random.getrandbits(62), count)
    return [admit_job(request, job_id=job_id, now=now) for job_id in ids]


async def measure(url: str, added: int, drained: int) -> Figures:
    """Jobs a second: added one by one, and drained by a worker with its usual settings."""
    place = f"{url}{'&' if '?' in url else '?'}schema=bench_{token_hex(4)}"
    async with await PostgresStore.open(read_address(place)) as store:
        await store.insert(make_jobs(1), datetime.now(UTC))
        begin = time.perf_counter()
        for job in make_jobs(added):
            await store.insert([job], datetime.now(UTC))
        add_rate = added / (time.perf_counter() - begin)
        await store.insert(make_jobs(drained), datetime.now(UTC))
        return {"add": add_rate, "drain": await measure_drain(store, drained)}


async def measure_drain(store: PostgresStore, count: int) -> float:
    worker, done = Worker(store), 0
    first, last = 0.0, 0.0

    async def noop(_: Context) -> None:
        nonlocal done, first, last
        done += 1
        last = time.perf_counter()
        first = first or last
        if done == count:
            worker.stop()

    worker.handler(KIND)(noop)
    await worker.run()
    return done / (last - first)


@contextmanager
def places(folder: Path) -> Iterator[dict[str, str]]:
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
        yield {"direct": server.url, **{name: each.url for name, each in poolers.items()}}
    finally:
        for pooler in poolers.values():
            pooler.remove()
        server.remove()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--added", type=int, default=200)
    parser.add_argument("--drained", type=int, default=2000)
    given = parser.parse_args()
    found: defaultdict[str, list[Figures]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="rota-pooler-") as folder:
        Path(folder).chmod(0o711)
        with places(Path(folder)) as urls:
            for number in range(given.rounds):
                order = [*urls][number % len(urls) :] + [*urls][: number % len(urls)]
                for name in order:
                    figures = asyncio.run(measure(urls[name], given.added, given.drained))
                    found[name].append(figures)
    report(found)


def report(found: dict[str, list[Figures]]) -> None:
    for verb in ("add", "drain"):
        direct = [each[verb] for each in found["direct"]]
        for name, figures in found.items():
            rates = [each[verb] for each in figures]
            ratios = [own / other for own, other in zip(rates, direct, strict=True)]
            print(
                f"{verb:6} {name:38} {statistics.median(rates):7.0f} jobs/s, "
                f"{statistics.median(ratios):.2f} of direct (rounds: "
                f"{', '.join(f'{ratio:.2f}' for ratio in ratios)})"
            )


if __name__ == "__main__":
    main()
