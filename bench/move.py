"""Moves a tenant with many jobs between shards while it works, and kills the mover again and again.

    python bench/move.py --jobs 1000000                # two schemas of one PostgreSQL
    python bench/move.py --store sqlite --jobs 100000

Workers and a producer are processes of their own; a series ticks every two seconds. The movers are
``rota shards move``, killed with kill -9 at random times until the last is left alone. A worker
writes a line to a file before it settles a job, and a producer one after an insert is acknowledged.
The judge knows these files and the ids of the jobs laid in before, and counts in the end how often
each job ran and where it lies.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.queue_contest.contestants import StoreKind
from bench.queue_contest.harness.machine import describe_machine
from bench.queue_contest.harness.places import Ground
from bench.queue_contest.peers.rota_store import make_jobs
from msgspec.structs import replace
from rich.console import Console

from rota import open_store
from rota.errors import StoreUnavailableError
from rota.jobs import Completion, Job, JobStatus, Recurrence, decide_complete
from rota.stores.opened import OpenStore
from rota.stores.protocol import KeptJob, LeaseRequest
from rota.stores.shards.members import Members
from rota.stores.shards.placement import Placement
from rota.stores.shards.store import ShardedStore

NAMES = ("one", "two")
TENANT = next(
    f"t{number}" for number in range(99) if Placement(NAMES).locate(f"t{number}") == "one"
)
PAYLOAD = {"text": "x" * 100}
ENDED_SHARE = 0.5
LOADED_AT_ONCE = 2_000
LEASE_FOR = timedelta(minutes=1)
TICK = 2
COMMAND = "import sys; from rota.cli.main import run; sys.exit(run())"

Answer = TypeVar("Answer")


def write_line(file: int, *words: str) -> None:
    os.write(file, (" ".join(words) + "\n").encode())


async def insist(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat a call until the tenant may be written again."""
    while True:
        try:
            return await call()
        except StoreUnavailableError:
            await asyncio.sleep(0.2)


async def work(address: str, path: str, name: str) -> None:
    """Lease, run and settle until the process is ended."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with await open_store(address) as store:
        request = LeaseRequest(worker=name, limit=10, lease_for=LEASE_FOR)
        while True:
            leased = await insist(lambda: store.lease(request, datetime.now(UTC)))
            await asyncio.sleep(0.1)
            for job in leased:
                write_line(file, "ran", job.id, f"{time.time():.3f}")
            if leased:
                await settle(store, leased, file)


async def settle(store: OpenStore, leased: list[Job], file: int) -> None:
    now = datetime.now(UTC)
    changes = [decide_complete(job, now) for job in leased]
    for applied in await insist(lambda: store.apply(changes, datetime.now(UTC))):
        if applied.is_stale:
            write_line(file, "stale", applied.job.id if applied.job else "-")
        if applied.successor is not None:
            write_line(file, "added", applied.successor.id)


async def produce(address: str, path: str) -> None:
    """Insert ten jobs a second, and note those that were acknowledged."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    chance = random.Random()
    async with await open_store(address) as store:
        while True:
            now = datetime.now(UTC)
            made = make_jobs(2, PAYLOAD, now, chance.getrandbits(62))
            jobs = [replace(job, tenant=TENANT) for job in made]
            await insist(lambda: store.insert(jobs, datetime.now(UTC)))  # noqa: B023 - awaited at once
            for job in jobs:
                write_line(file, "added", job.id)
            await asyncio.sleep(0.2)


def members_of(store: OpenStore) -> Members:
    if not isinstance(store, ShardedStore):
        raise TypeError(f"not a sharded store: {store!r}")
    return store.members


async def lay_in(store: OpenStore, count: int) -> list[str]:
    """Ended and ready jobs of the tenant, and a series; the ids of all."""
    source, chance = members_of(store)[NAMES[0]], random.Random(1)
    ids: list[str] = []
    begun = datetime.now(UTC) - timedelta(days=1)
    for first in range(0, count, LOADED_AT_ONCE):
        created = begun + timedelta(milliseconds=first)
        size = min(LOADED_AT_ONCE, count - first)
        jobs = [
            replace(job, tenant=TENANT)
            for job in make_jobs(size, PAYLOAD, created, chance.getrandbits(62))
        ]
        ended = int(size * ENDED_SHARE)
        jobs[:ended] = [complete(job, created) for job in jobs[:ended]]
        await source.load([KeptJob(job, ()) for job in jobs], datetime.now(UTC))
        ids += [job.id for job in jobs]
    return [*ids, await start_series(store)]


def complete(job: Job, at: datetime) -> Job:
    completion = Completion(worker="before", started_at=at, ended_at=at)
    return replace(job, status=JobStatus.COMPLETED, completion=completion)


async def start_series(store: OpenStore) -> str:
    now = datetime.now(UTC)
    (job,) = make_jobs(1, PAYLOAD, now, 1)
    rule = Recurrence(interval=f"{TICK}s", start=now)
    first = replace(job, tenant=TENANT, priority=9, recurrence=rule, occurrence_at=now, due_at=now)
    await store.insert([first], now)
    return first.id


@contextmanager
def running(role: str, *words: str) -> Iterator[None]:
    """A process of this program, until the context ends."""
    process = subprocess.Popen([sys.executable, __file__, "--role", role, *words])
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


class Moved(NamedTuple):
    seconds: float
    kill_count: int
    steps: list[str]


def move(address: str, kill_count: int, longest: float, console: Console) -> Moved:
    """Kill this number of movers, then let one complete."""
    chance, begun, killed = random.Random(2), time.time(), 0
    command = [sys.executable, "-c", COMMAND, "shards", "move", TENANT, NAMES[1], address]
    steps: list[str] = []
    while True:
        mover = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        wait = chance.uniform(1, longest) if killed < kill_count else None
        try:
            said, _ = mover.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            mover.kill()
            mover.communicate()
            killed += 1
            steps.append(f"killed after {wait:.0f} s")
            console.print(f"{time.time() - begun:.0f} s: {steps[-1]}")
            continue
        if mover.returncode == 0:
            console.print(said.strip())
            return Moved(time.time() - begun, killed, steps)
        time.sleep(3)  # the move belongs to the one before for a minute


async def dump_jobs(shard: OpenStore) -> AsyncIterator[list[Job]]:
    cursor = None
    while True:
        portion = await shard.dump(cursor, 1000)
        yield [each.job for each in portion.records if isinstance(each, KeptJob)]
        cursor = portion.cursor
        if cursor is None:
            return


async def judge(address: str, laid_in: list[str], lines: list[list[str]], console: Console) -> bool:
    """Whether each job is there once, on the target, and ran once at most."""
    ran = Counter(words[1] for words in lines if words[0] == "ran")
    known = {*laid_in, *(words[1] for words in lines if words[0] == "added")}
    found: Counter[str] = Counter()
    states: Counter[str] = Counter()
    strangers = 0
    async with await open_store(address) as store:
        for name, shard in members_of(store).items():
            async for jobs in dump_jobs(shard):
                found.update(job.id for job in jobs)
                strangers += len(jobs) if name != NAMES[1] else 0
                states.update(str(job.status) for job in jobs)
    lost = [each for each in known if not found[each]]
    doubled = [each for each, count in found.items() if count > 1]
    twice = [each for each, count in ran.items() if count > 1]
    stale = sum(words[0] == "stale" for words in lines)
    console.print(
        f"{len(known):,} jobs acknowledged, {sum(ran.values()):,} runs; lost {len(lost)}, on two "
        f"shards {len(doubled)}, run twice {len(twice)}, late results {stale}, "
        f"left on the source {strangers}; {dict(states)}"
    )
    return not (lost or doubled or twice or strangers)


def longest_gap(lines: list[list[str]]) -> float:
    """Seconds in which no job of the tenant was run."""
    times = sorted(float(words[2]) for words in lines if words[0] == "ran")
    return max((after - before for before, after in pairwise(times)), default=0.0)


async def prepare(address: str, count: int) -> list[str]:
    async with await open_store(address) as store:
        return await lay_in(store, count)


def run(options: argparse.Namespace, addresses: list[str], folder: Path, console: Console) -> bool:
    pairs = zip(NAMES, addresses, strict=True)
    address = "shards:" + "|".join(f"{name}={url}" for name, url in pairs)
    begun = time.time()
    laid_in = asyncio.run(prepare(address, options.jobs))
    console.print(f"{len(laid_in):,} jobs laid in within {time.time() - begun:.0f} s")
    path = str(folder / "effects")
    with running("work", address, path, "w1"), running("work", address, path, "w2"):
        with running("produce", address, path):
            time.sleep(5)
            moved = move(address, options.kills, options.longest, console)
            time.sleep(10)
        time.sleep(5)
    lines = [line.split() for line in Path(path).read_text().splitlines()]
    console.print(
        f"moved in {moved.seconds:.0f} s with {moved.kill_count} movers killed; "
        f"the tenant stood still for {longest_gap(lines):.1f} s at most"
    )
    return asyncio.run(judge(address, laid_in, lines, console))


def main() -> None:
    if sys.argv[1:2] == ["--role"]:
        role, address, path, *names = sys.argv[2:]
        asyncio.run(work(address, path, *names) if role == "work" else produce(address, path))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--store", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=3, help="movers that are killed")
    parser.add_argument("--longest", type=float, default=60, help="seconds before a kill, at most")
    options = parser.parse_args()
    console = Console()
    console.print(describe_machine())
    with closing(Ground()) as ground:
        if options.store == "sqlite":
            addresses = [f"sqlite:///{ground.folder}/{name}.db" for name in NAMES]
            is_well = run(options, addresses, ground.folder, console)
        else:
            ground.start_server()
            with closing(ground.new_place(StoreKind.POSTGRES)) as place:
                url = place.settings["url"]
                option = "&" if "?" in url else "?"
                addresses = [f"{url}{option}schema=shard_{name}" for name in NAMES]
                is_well = run(options, addresses, ground.folder, console)
    console.print("nothing lost, nothing doubled" if is_well else "NOT well")
    sys.exit(not is_well)


if __name__ == "__main__":
    main()
