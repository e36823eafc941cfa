"""A model of 10^9 jobs a day and 10^5 tenants: rows, bytes, connections, cost, what is full first.

    python bench/billion.py
    python bench/billion.py --jobs-a-day 1e8 --tenants 1e4 --keep-hours 24

Computes, and measures nothing. The constants are figures of bench/README.md and of
docs/guide/more-than-one-machine.md, each with its source; prices are parameters. The simulation at
the end places the tenants by the hashing of the store itself, with sizes that follow a power law,
and says how full the fullest shard is.
"""

import argparse
import math
import random
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from rota.stores.shards.placement import choose_shard

DAY = 86_400.0
VACUUM_RATE = 500e6
"""Bytes of indexes that a vacuum reads in a second."""


class Engine(NamedTuple):
    """What one shard of a store can do."""

    name: str
    server_us: float
    """Processor time of the server for one job: inserted in bulk, leased and completed."""
    row_bytes: float
    """Of one job with its entries in all indexes, 100 bytes of payload."""
    hired_count: int
    """Cores that one server has."""
    core_count: float
    """Cores of which it makes use: the log and locks leave some idle."""
    most_bytes: float
    connection_count: int
    """How many connections a server of this size takes."""
    index_bytes: float
    """Of one job, which a vacuum reads; 0 where there is none."""
    log_bytes: float
    """Written to the log for one job over its life."""


ENGINES = (
    # 25 µs to drain and 17 to insert in bulk; 8.5 GB for 10 million ready jobs, and more for the
    # entries of ended jobs. Five writes of about 300 bytes of log.
    Engine("PostgreSQL, 16 cores, 4 TB", 42, 1_100, 16, 9.6, 4e12, 500, 400, 1_500),
    # 28 µs to drain and 30 to insert. One thread does it all; everything lies in memory.
    Engine("Valkey, 1 core, 64 GB", 58, 900, 1, 0.7, 64e9, 10_000, 0, 1_200),
)


class Load(NamedTuple):
    """What is asked for."""

    jobs_a_day: float
    tenant_count: float
    keep_hours: float
    """How long ended jobs stay."""
    peak: float
    """The busiest second against the mean."""
    handler_ms: float
    """How long a job runs, on the mean."""
    slots: int
    """Jobs that one worker process runs at once."""
    connections_a_worker: int
    core_hour: float
    gb_month: float


class Sizing(NamedTuple):
    """How much a load needs on one engine."""

    peak_rate: float
    rows: float
    total_bytes: float
    shards_for_work: int
    shards_for_room: int
    worker_count: int
    connections_a_shard: float
    placement_reads: float
    cost_a_million: float

    @property
    def shard_count(self) -> int:
        return max(self.shards_for_work, self.shards_for_room)


def size(load: Load, engine: Engine) -> Sizing:
    """Work, room and connections. Every worker process has its connections on every shard."""
    mean = load.jobs_a_day / DAY
    peak_rate = mean * load.peak
    rows = mean * load.keep_hours * 3600 + peak_rate * load.handler_ms / 1e3
    total_bytes = rows * engine.row_bytes
    for_work = math.ceil(peak_rate * engine.server_us / 1e6 / (engine.core_count * 0.7))
    for_room = math.ceil(total_bytes / (engine.most_bytes * 0.7))
    shards = max(for_work, for_room)
    workers = math.ceil(peak_rate * load.handler_ms / 1e3 / load.slots)
    hired = shards * engine.hired_count
    daily = hired * 24 * load.core_hour + total_bytes / 1e9 * load.gb_month / 30
    return Sizing(
        peak_rate,
        rows,
        total_bytes,
        for_work,
        for_room,
        workers,
        float(workers * load.connections_a_worker),
        workers * 1.0,  # each process reads the placement once a second
        daily / load.jobs_a_day * 1e6,
    )


def break_points(load: Load, engine: Engine, sizing: Sizing) -> list[tuple[float, str]]:
    """How much of each bound is used, the fullest first; above 1 it breaks."""
    home_rate = 20_000.0  # reads of one small document that one core answers in a second
    per_shard = sizing.peak_rate / sizing.shard_count
    largest = load.jobs_a_day / DAY * load.peak * 0.05
    one_shard = engine.core_count * 0.7 * 1e6 / engine.server_us
    placed = load.tenant_count * 0.01 * 60  # bytes of exceptions, if one in a hundred is one
    # A vacuum reads all indexes when two in a hundred rows are dead; a job leaves two, or three if
    # it is pruned.
    between = 0.02 * sizing.rows / (3 * load.jobs_a_day / DAY)
    vacuum = sizing.rows / sizing.shard_count * engine.index_bytes / VACUUM_RATE
    bounds = [
        (vacuum / between, "vacuum of a shard's indexes, of the time there is for it"),
        (sizing.connections_a_shard / engine.connection_count, "connections of a shard"),
        (sizing.placement_reads / home_rate, "reads of the placement on the home shard"),
        (per_shard * engine.server_us / 1e6 / engine.core_count, "processor of a shard"),
        (sizing.total_bytes / sizing.shard_count / engine.most_bytes, "room of a shard"),
        (largest / one_shard, "one tenant with 5 % of all jobs, on its one shard"),
        (placed / 1e6, "the placement document (1 MB), with 1 % of tenants as exceptions"),
        (sizing.shard_count / 16, "shards that each lease asks (16)"),
    ]
    return sorted(bounds, reverse=True)


def simulate(load: Load, shard_count: int, seed: int = 1) -> float:
    """How much more than its part the fullest shard holds. Sizes of tenants follow Zipf's law."""
    chance = random.Random(seed)
    names = tuple(f"s{number}" for number in range(shard_count))
    full = dict.fromkeys(names, 0.0)
    sizes = [1 / (rank + 10) for rank in range(int(load.tenant_count))]
    chance.shuffle(sizes)
    for number, part in enumerate(sizes):
        full[choose_shard(f"tenant-{number}", names)] += part
    return max(full.values()) / (sum(full.values()) / shard_count)


def show(load: Load, engine: Engine, console: Console) -> None:
    sizing = size(load, engine)
    table = Table("what", "how much", title=engine.name)
    table.add_row(
        "jobs a second, mean and peak", f"{load.jobs_a_day / DAY:,.0f}, {sizing.peak_rate:,.0f}"
    )
    table.add_row(f"rows, kept for {load.keep_hours:g} h", f"{sizing.rows:,.0f}")
    table.add_row("bytes of rows and indexes", f"{sizing.total_bytes / 1e9:,.0f} GB")
    table.add_row("log a day", f"{load.jobs_a_day * engine.log_bytes / 1e9:,.0f} GB")
    table.add_row(
        "shards for the work, for the room", f"{sizing.shards_for_work}, {sizing.shards_for_room}"
    )
    table.add_row("worker processes", f"{sizing.worker_count:,}")
    table.add_row("connections to each shard", f"{sizing.connections_a_shard:,.0f}")
    table.add_row("cost of a million jobs in the stores", f"{sizing.cost_a_million:.3f}")
    if sizing.shard_count > 1:
        table.add_row(
            "the fullest shard, against its part", f"{simulate(load, sizing.shard_count):.2f}"
        )
    console.print(table)
    for used, what in break_points(load, engine, sizing):
        mark = "  BREAKS" if used > 1 else ""
        console.print(f"{used:8.2f}  {what}{mark}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs-a-day", type=float, default=1e9)
    parser.add_argument("--tenants", type=float, default=1e5)
    parser.add_argument("--keep-hours", type=float, default=24, help="how long ended jobs stay")
    parser.add_argument("--peak", type=float, default=3, help="the busiest second against the mean")
    parser.add_argument("--handler-ms", type=float, default=50)
    parser.add_argument("--slots", type=int, default=100, help="jobs a worker process runs at once")
    parser.add_argument("--connections", type=int, default=3, help="of a worker to each shard")
    parser.add_argument("--core-hour", type=float, default=0.04, help="price of a core for an hour")
    parser.add_argument("--gb-month", type=float, default=0.10, help="price of a GB for a month")
    options = parser.parse_args()
    load = Load(
        options.jobs_a_day,
        options.tenants,
        options.keep_hours,
        options.peak,
        options.handler_ms,
        options.slots,
        options.connections,
        options.core_hour,
        options.gb_month,
    )
    console = Console(width=110)
    for engine in ENGINES:
        show(load, engine, console)


if __name__ == "__main__":
    main()
