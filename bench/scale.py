"""Whether 2 and 4 shards drain 2 and 4 times as many jobs, and what the others feel when one dies.

    python bench/scale.py                      # as root: each server has 5 % of a core, by a cgroup
    python bench/scale.py --percent 10 --seconds 20

Each shard is a Valkey server with its own processor quota (cgroup, cpu controller), so that the
servers are what is scarce and not this machine. Worker processes lease and complete jobs of all
tenants through the sharded store; every shard has as many tenants and jobs as the others. A round
has 1, 2 and 4 servers, and the figure is the median of the rounds. On the one server there are two
shards, since a sharded store has two at least; `0` is that server with a plain store.

On a busy machine the workers may lack processor time, and then the servers do not use their quota.
So each line also says how much of it they used, and the last figure is what a busy machine leaves
alone: the processor time of the servers for a job over one server, divided by that over several.

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
from typing import NamedTuple

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

    def server_seconds(self) -> float:
        """The processor time of all servers."""
        return sum(seconds_of(place.server_process_id or 0) for place in self.places)

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


async def drain(address: str, seconds: float, batch: int) -> int:
    """Lease and complete for so long; how many jobs."""
    done, after = 0, ""
    async with await open_store(address) as store:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            request = LeaseRequest(
                worker=f"w{os.getpid()}", limit=batch, lease_for=PATIENCE, after_tenant=after
            )
            jobs = await store.lease(request, datetime.now(UTC))
            after = jobs[-1].tenant if jobs else ""
            now = datetime.now(UTC)
            await store.apply([decide_complete(job, now) for job in jobs], now)
            done += len(jobs)
    return done


class Drained(NamedTuple):
    """Jobs a second, the processor time of the servers for a job, and their share of the quota."""

    rate: float
    server_us: float
    quota_share: float


def seconds_of(process_id: int) -> float:
    """The processor time of a process and its threads."""
    tasks = Path(f"/proc/{process_id}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in tasks) / 1e9


def measure(ground: Ground, server_count: int, options: argparse.Namespace) -> Drained:
    """Drain over this number of servers for a while."""
    with closing(Fleet(ground, server_count, options.percent)) as fleet:
        tenants = [each for names in fleet.tenants.values() for each in names]
        job_count = options.jobs * len(fleet.places) // len(tenants)
        asyncio.run(lay_in(fleet.address, tenants, job_count))
        fleet.limit()
        before = fleet.server_seconds()
        words = (fleet.address, str(options.seconds), str(options.batch))
        command = [sys.executable, __file__, "--role", *words]
        workers = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            for _ in range(len(fleet.places) * options.workers)
        ]
        done = sum(int(worker.communicate()[0]) for worker in workers)
        used = fleet.server_seconds() - before
        allowed = options.seconds * options.percent / 100 * len(fleet.places)
    return Drained(done / options.seconds, used / done * 1e6, used / allowed)


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


def median_of(runs: Sequence[Drained]) -> Drained:
    return Drained(*map(statistics.median, zip(*runs, strict=True)))


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1e3


def compare(ground: Ground, options: argparse.Namespace, console: Console) -> None:
    """Drain over 1, 2 and 4 servers, in turns."""
    drained: dict[int, list[Drained]] = {0: [], 1: [], 2: [], 4: []}
    for _ in range(options.rounds):
        for server_count, runs in drained.items():
            runs.append(measure(ground, server_count, options))
            rate, server_us, quota_share = runs[-1]
            console.print(
                f"{server_count} servers: {rate:,.0f} jobs/s, {server_us:.0f} µs of the servers "
                f"a job, {quota_share:.0%} of their quota used"
            )
    one = median_of(drained[1])
    for server_count, runs in drained.items():
        now = median_of(runs)
        share = now.rate / (one.rate * max(1, server_count))
        verdict = f", wanted {GOAL}" if server_count > 1 else ""
        console.print(
            f"{server_count} servers: {share:.2f} of linear{verdict}; "
            f"by processor time {one.server_us / now.server_us:.2f}"
        )


def kill_one(ground: Ground, options: argparse.Namespace, console: Console) -> None:
    """What the tenants of another shard feel."""
    with closing(Fleet(ground, 4, options.percent)) as fleet:
        before, after = asyncio.run(feel(fleet, options.seconds))
    for share in (0.5, 0.99):
        was, became = quantile(before, share), quantile(after, share)
        console.print(
            f"one of four killed: p{share * 100:.0f} of a tenant elsewhere {was:.1f} ms, then "
            f"{became:.1f} ms ({became / was:.2f}; wanted 1.2)"
        )


def main() -> None:
    if sys.argv[1:2] == ["--role"]:
        address, seconds, batch = sys.argv[2:]
        print(asyncio.run(drain(address, float(seconds), int(batch))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--percent", type=float, default=5, help="of a core for each server")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--jobs", type=int, default=40_000, help="laid in for each server")
    parser.add_argument("--workers", type=int, default=1, help="processes for each server")
    parser.add_argument("--batch", type=int, default=50, help="jobs in a lease, over all shards")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    console = Console()
    limit = f"cgroup v1 quota, {options.percent:g} % of a core for each Valkey"
    console.print(describe_machine(), f"{limit}; leases of {options.batch} jobs")
    with closing(Ground()) as ground:
        compare(ground, options, console)
        kill_one(ground, options, console)


if __name__ == "__main__":
    main()
