"""Whether leasing costs the same beside millions of jobs that have ended, are due later or wait."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from bench.queue_contest.contestants import ROTA, Contestant, StoreKind
from bench.queue_contest.harness.environments import Environments
from bench.queue_contest.harness.machine import cpu_of_family
from bench.queue_contest.harness.mongo_place import MongoPlace
from bench.queue_contest.harness.places import Ground, Place
from bench.queue_contest.harness.programs import Entry, entry_folder
from bench.queue_contest.report import TITLES, print_machine, print_verdicts
from bench.queue_contest.targets import Verdict, judge_runs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

GOAL = 1.3
LAYING_PATIENCE = 1800.0

PROGRAMS = {
    StoreKind.POSTGRES: "on_flatness",
    StoreKind.SQLITE: "on_flatness",
    StoreKind.REDIS: "on_redis.on_flatness",
    StoreKind.MONGO: "on_mongo.on_flatness",
}
"""Who lays the jobs in."""


class Extent(NamedTuple):
    """How much is measured."""

    batches: tuple[int, ...] = (100, 500)
    cycle_count: int = 10_000
    repeats: int = 5
    warm_up_count: int = 2_000


def run_flatness(
    console: Console,
    contestants: list[Contestant],
    environments: Environments,
    ground: Ground,
    rows: int,
) -> None:
    """Each store, empty and full; the measurements take turns."""
    ours = [
        contestant
        for contestant in contestants
        if contestant.name == ROTA and contestant.store in PROGRAMS
    ]
    print_machine(console, ours, environments, ground)
    verdicts: list[Verdict] = []
    for contestant in ours:
        extent = Extent()
        enter = partial(_enter, contestant, environments, ground)
        with enter() as full:
            seconds = _lay_in(console, full, rows)
            console.print(f"{rows:,} finished, due later and ready each, laid in {seconds:.0f} s")
            costs = _measure(console, full, enter, extent)
            console.print(_table(contestant.store, costs, rows))
            plans, _, _seconds = full.ask("explain").rpartition("\n")
            console.print(plans, markup=False, highlight=False)
            verdicts += _judge(contestant.store, costs)
    print_verdicts(console, verdicts)


Costs = dict[tuple[str, int], list[float]]
"""µs a job, run by run, by whether the table was empty or full and by batch."""


@contextmanager
def _enter(contestant: Contestant, environments: Environments, ground: Ground) -> Iterator[Entry]:
    """The contestant at a place that is made ready, and removed afterwards."""
    place: Place = ground.new_place(contestant.store)
    program = PROGRAMS[contestant.store]
    with closing(place), entry_folder() as folder:
        entry = Entry(replace(contestant, program=program), place, environments, folder)
        entry.tell("prepare")
        yield entry


def _lay_in(console: Console, full: Entry, rows: int) -> float:
    with console.status(f"laying {3 * rows:,} rows into {full.contestant.store}"):
        seconds = full.tell("lay", rows, patience=LAYING_PATIENCE)
        full.place.settle()
    return seconds


def _measure(
    console: Console,
    full: Entry,
    enter: Callable[[], AbstractContextManager[Entry]],
    extent: Extent,
) -> Costs:
    """Every measurement beside an empty table has a new one."""
    costs: Costs = {(name, batch): [] for name in ("empty", "full") for batch in extent.batches}
    heats = list(costs) * extent.repeats
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    full.tell("cycle", extent.warm_up_count, extent.batches[0])
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        what = f"lease and settle on {full.contestant.store}"
        for name, batch in progress.track(heats, description=what):
            with nullcontext(full) if name == "full" else enter() as entry:
                costs[name, batch].append(_measure_once(entry, batch, extent.cycle_count))
    return costs


def _measure_once(entry: Entry, batch: int, count: int) -> float:
    """µs a job; what is taken from the table was added to it before.

    Of MongoDB it is the server's processor time, which hangs less on who else is at work.
    """
    entry.tell("bulk", count)
    place = entry.place
    place.settle()
    if not isinstance(place, MongoPlace):
        return entry.tell("cycle", count, batch) / count * 1e6
    before = cpu_of_family(place.server_process_id)
    entry.tell("cycle", count, batch)
    return (cpu_of_family(place.server_process_id) - before) / count * 1e6


def _table(store: StoreKind, costs: Costs, rows: int) -> Table:
    unit = "µs of the server a job" if store is StoreKind.MONGO else "µs a job"
    repeats = len(next(iter(costs.values())))
    title = f"{TITLES[store]}: lease and settle, {unit}, median of {repeats}"
    table = Table("batch", "empty table", f"beside 3 x {rows:,} rows", title=title)
    for batch in _batches_of(costs):
        cells = [statistics.median(costs[name, batch]) for name in ("empty", "full")]
        table.add_row(str(batch), *(f"{cell:.1f}" for cell in cells))
    return table


def _batches_of(costs: Costs) -> list[int]:
    return sorted({batch for _, batch in costs})


def _judge(store: StoreKind, costs: Costs) -> list[Verdict]:
    return [
        verdict
        for batch in _batches_of(costs)
        for verdict in judge_runs(
            f"{TITLES[store]} lease and settle, full against empty, batch {batch}",
            GOAL,
            costs["full", batch],
            costs["empty", batch],
            is_least=False,
        )
    ]
