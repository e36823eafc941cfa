"""Whether 2 and 4 shards drain 2 and 4 times as many jobs, and what the others feel when one dies.

    python bench/scale.py                      # as root: each server has 5 % of a core, by a cgroup
    python bench/scale.py --percent 10 --seconds 20

Each shard is a Valkey server with its own processor quota (cgroup, cpu controller), so that the
servers are what is scarce and not this machine. Worker processes lease and complete jobs of all
tenants through the sharded store; every shard has as many tenants and jobs as the others. A round
has 1, 2 and 4 servers, and the figure is the median of the rounds. On the one server there are two
shards, since a sharded store has two at least; `0` is that server with a plain store.

Then, over four shards, a client inserts, leases and completes jobs of tenants on one shard, one at
a time, and another shard is killed with kill -9 half-way: the p99 of these calls before and after.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.queue_contest.contestants import StoreKind
from bench.queue_contest.harness.machine import describe_machine
from bench.queue_contest.harness.places import Ground
from bench.queue_contest.harness.redis_place import RedisPlace
from bench.queue_contest.peers.rota_store import make_jobs
from msgspec.structs import replace
from rich.console import Console

from rota import open_store
from rota.jobs import Job, decide_complete
from rota.stores.opened import OpenStore
from rota.stores.protocol import LeaseRequest
from rota.stores.shards.placement import Placement

GROUP = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 50_000
"""Short, so that a server that has used its quota rests briefly; a quota is at least 1 ms."""

TENANTS_PER_SHARD = 4
PAYLOAD = {"text": "x" * 100}
BATCH = 50
AT_ONCE = 500
GOAL = 0.85
PATIENCE = timedelta(minutes=5)


def names_of(shard_count: int) -> tuple[str, ...]:
    return tuple(f"s{number}" for number in range(shard_count))


def tenants_of(shard_count: int) -> dict[str, list[str]]:
    """As many tenants for each shard, by the hashing of the store itself."""
    placement = Placement(names_of(shard_count))
    found: dict[str, list[str]] = {name: [] for name in placement.hashed}
    for number in range(10_000):
        home = found[placement.locate(f"t{number}")]
        if len(home) < TENANTS_PER_SHARD:
            home.append(f"t{number}")
    return found


@contextmanager
def limited(process_id: int, percent: float) -> Iterator[None]:
    """The process and its threads have so much of a core, until the context ends."""
    group = GROUP / f"rota-bench-{process_id}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD_US * percent / 100)))
        (group / "cgroup.procs").write_text(str(process_id))
        yield
    finally:
        for each in (group / "cgroup.procs").read_text().split():
            (GROUP / "cgroup.procs").write_text(each)
        group.rmdir()


class Fleet:
    """Some servers, limited, and the address of a store over them."""

    def __init__(self, ground: Ground, server_count: int, percent: float) -> None:
        """No servers: one with a plain store."""
        self._stack = ExitStack()
        self.places: list[RedisPlace] = []
        for _ in range(max(1, server_count)):
            place = self._stack.enter_context(closing(ground.new_place(StoreKind.REDIS)))
            if not isinstance(place, RedisPlace):
                raise TypeError(place)
            self.places.append(place)
        self.tenants = tenants_of(max(2, server_count))
        urls = [place.settings["url"] for place in self.places]
        pairs = [f"{name}={urls[i % len(urls)]}?name={name}" for i, name in enumerate(self.tenants)]
        self.address = "shards:" + "|".join(pairs) if server_count else urls[0]
        self._percent = percent

    def limit(self) -> None:
        """From now on; loading is not limited."""
        for place in self.places:
            self._stack.enter_context(limited(place.server_process_id or 0, self._percent))

    def close(self) -> None:
        self._stack.close()


async def lay_in(address: str, tenants: Sequence[str], count: int) -> None:
    chance = random.Random(1)
    async with await open_store(address) as store:
        for tenant in tenants:
            for _ in range(0, count, AT_ONCE):
                now = datetime.now(UTC)
                made = make_jobs(AT_ONCE, PAYLOAD, now, chance.getrandbits(62))
                await store.insert([replace(job, tenant=tenant) for job in made], now)


async def drain(address: str, seconds: float) -> int:
    """Lease and complete for so long; how many jobs."""
    done, after = 0, ""
    async with await open_store(address) as store:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            request = LeaseRequest(
                worker=f"w{os.getpid()}", limit=BATCH, lease_for=PATIENCE, after_tenant=after
            )
            jobs = await store.lease(request, datetime.now(UTC))
            after = jobs[-1].tenant if jobs else ""
            now = datetime.now(UTC)
            await store.apply([decide_complete(job, now) for job in jobs], now)
            done += len(jobs)
    return done


def measure(ground: Ground, server_count: int, options: argparse.Namespace) -> float:
    """Jobs a second over this number of servers."""
    with closing(Fleet(ground, server_count, options.percent)) as fleet:
        tenants = [each for names in fleet.tenants.values() for each in names]
        job_count = options.jobs * len(fleet.places) // len(tenants)
        asyncio.run(lay_in(fleet.address, tenants, job_count))
        fleet.limit()
        command = [sys.executable, __file__, "--role", fleet.address, str(options.seconds)]
        workers = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            for _ in range(len(fleet.places) * options.workers)
        ]
        counts = [int(worker.communicate()[0]) for worker in workers]
    return sum(counts) / float(options.seconds)


async def run_one(store: OpenStore, tenant: str, chance: random.Random) -> float:
    """Insert, lease and complete one job; seconds."""
    begun, now = time.perf_counter(), datetime.now(UTC)
    (made,) = make_jobs(1, PAYLOAD, now, chance.getrandbits(62))
    await store.insert([replace(made, tenant=tenant)], now)
    request = LeaseRequest(worker="one", limit=1, lease_for=PATIENCE, tenants=(tenant,))
    jobs: list[Job] = list(await store.lease(request, datetime.now(UTC)))
    await store.apply([decide_complete(job, now) for job in jobs], datetime.now(UTC))
    return time.perf_counter() - begun


async def feel(fleet: Fleet, seconds: float) -> tuple[list[float], list[float]]:
    """The times of calls for tenants of the second shard, before and after the last is killed."""
    chance = random.Random(3)
    took: tuple[list[float], list[float]] = ([], [])
    tenants = fleet.tenants["s1"]
    async with await open_store(fleet.address) as store:
        for part in took:
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at:
                part.append(await run_one(store, chance.choice(tenants), chance))
                await asyncio.sleep(0.01)
            if part is took[0]:
                os.kill(fleet.places[-1].server_process_id or 0, 9)
    return took


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1e3


def main() -> None:
    if sys.argv[1:2] == ["--role"]:
        print(asyncio.run(drain(sys.argv[2], float(sys.argv[3]))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--percent", type=float, default=5, help="of a core for each server")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--jobs", type=int, default=40_000, help="laid in for each server")
    parser.add_argument("--workers", type=int, default=1, help="processes for each server")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    console = Console()
    limit = f"cgroup v1 quota, {options.percent:g} % of a core for each Valkey"
    console.print(describe_machine(), limit)
    rates: dict[int, list[float]] = {0: [], 1: [], 2: [], 4: []}
    with closing(Ground()) as ground:
        for _ in range(options.rounds):
            for server_count, runs in rates.items():
                runs.append(measure(ground, server_count, options))
                console.print(f"{server_count} servers: {runs[-1]:,.0f} jobs/s")
        one = statistics.median(rates[1])
        for server_count, runs in rates.items():
            share = statistics.median(runs) / (one * max(1, server_count))
            verdict = f", wanted {GOAL}" if server_count > 1 else ""
            console.print(f"{server_count} servers: {share:.2f} of linear{verdict}")
        with closing(Fleet(ground, 4, options.percent)) as fleet:
            before, after = asyncio.run(feel(fleet, options.seconds))
        for share in (0.5, 0.99):
            was, became = quantile(before, share), quantile(after, share)
            console.print(
                f"one of four killed: p{share * 100:.0f} of a tenant elsewhere {was:.1f} ms, then "
                f"{became:.1f} ms ({became / was:.2f}; wanted 1.2)"
            )


if __name__ == "__main__":
    main()
