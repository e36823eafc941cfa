"""What operators look at, as jobs finish: the cost of pages with few and with many ended jobs.

    python bench/overview.py                                 # SQLite, 5,000 and 100,000 ended jobs
    python bench/overview.py --few 7000 --many 77000 postgresql://rota@db.example/rota_bench

Every store must be empty or new. Answers come from an application in this process, without a
network; the cheapest of 60 requests each. The last column is many beside few: about 1 is flat.
"""

import argparse
import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import httpx2

from rota.jobs import Completion, Job, JobStatus, admit_job, make_job_id
from rota.runtime.wiring import open_store
from rota.server import create_app
from rota.stores.opened import OpenStore
from rota.stores.protocol import KeptJob

ROUNDS = 60
BATCH = 1_000
WAITING = 500
LOOKED_AT = (
    "/api/v1/overview",
    "/api/v1/queues",
    "/admin",
    "/admin?range=30d",
    "/admin/queues",
    "/admin/queues/q1",
    "/admin/errors",
    "/admin/tenants",
)
SECOND = timedelta(seconds=1)


def make_job(number: int, now: datetime, *, is_ended: bool) -> Job:
    at = now - (10 + number) * SECOND
    asked = {"name": f"job {number}", "queue": f"q{number % 5}", "kind": "work"}
    job = admit_job(asked, job_id=make_job_id(at, number), now=at)
    if not is_ended:
        return job
    done = Completion(worker="w", started_at=at, ended_at=at + SECOND)
    return job.__class__(
        **{name: getattr(job, name) for name in job.__struct_fields__}
        | {"status": JobStatus.COMPLETED, "updated_at": at + SECOND, "completion": done}
    )


async def fill(store: OpenStore, start: int, end: int, now: datetime) -> None:
    for first in range(start, end, BATCH):
        numbers = range(first, min(first + BATCH, end))
        await store.load([KeptJob(make_job(it, now, is_ended=True)) for it in numbers], now)


async def measure(client: httpx2.AsyncClient) -> dict[str, float]:
    found = {}
    for path in LOOKED_AT:
        times = []
        for _ in range(ROUNDS):
            begun = perf_counter()
            answer = await client.get(path)
            times.append((perf_counter() - begun) * 1_000)
            answer.raise_for_status()
        found[path] = min(times)
    return found


async def compare(url: str, few: int, many: int) -> None:
    now = datetime.now(UTC)
    async with await open_store(url) as store:
        waiting = [make_job(10_000_000 + it, now, is_ended=False) for it in range(WAITING)]
        await store.insert(waiting, now)
        await fill(store, 0, few, now)
        app = create_app(store)
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            before = await measure(client)
            await fill(store, few, many, now)
            after = await measure(client)
    print(f"{url.partition(':')[0]}, ms, with {few:,} and {many:,} ended jobs")
    for path in LOOKED_AT:
        ratio = after[path] / before[path]
        print(f"  {path:<22} {before[path]:8.1f} {after[path]:8.1f}   x {ratio:.2f}")


def main() -> None:
    asked = argparse.ArgumentParser(description="The cost of pages as jobs finish.")
    asked.add_argument("--few", type=int, default=5_000)
    asked.add_argument("--many", type=int, default=100_000)
    asked.add_argument("stores", nargs="*", help="addresses; default: a new SQLite file")
    given = asked.parse_args(sys.argv[1:])
    with TemporaryDirectory() as folder:
        for url in given.stores or [f"sqlite:///{Path(folder) / 'bench.db'}"]:
            asyncio.run(compare(url, given.few, given.many))


if __name__ == "__main__":
    main()
