"""Whether more workers finish more jobs: small batches, so that all ask for the same jobs."""

from contextlib import closing
from dataclasses import replace

from bench.queue_contest.contestants import MONGO_LOOP, ROTA, ROTA_BEFORE, Contestant
from bench.queue_contest.harness.environments import Environments
from bench.queue_contest.harness.places import Ground
from bench.queue_contest.harness.programs import ContestantError, Entry, entry_folder
from bench.queue_contest.measures import Figures, measure_drain
from bench.queue_contest.report import print_machine, print_verdicts
from bench.queue_contest.targets import Verdict, judge_runs
from rich.console import Console
from rich.table import Table

WORKER_COUNTS = (1, 4, 8, 16)
BATCH = 10
GOAL = 0.9
"""Of the rate of one worker, what any number of workers must reach."""

Rates = dict[int, Figures]


def run_crowd(
    console: Console,
    contestants: list[Contestant],
    environments: Environments,
    ground: Ground,
    count: int,
) -> None:
    """Drain the same jobs with more and more workers."""
    ours = [each for each in contestants if each.name in (ROTA, ROTA_BEFORE, MONGO_LOOP)]
    print_machine(console, ours, environments, ground)
    table = Table(title=f"{count:,} jobs, batches of {BATCH}: jobs/s, and µs of the server a job")
    table.add_column("contestant", no_wrap=True)
    for workers in WORKER_COUNTS:
        table.add_column(f"{workers} workers", justify="right")
    verdicts: list[Verdict] = []
    for contestant in ours:
        rates = _measure(console, contestant, environments, ground, count)
        cells = (_cell(rates.get(workers)) for workers in WORKER_COUNTS)
        table.add_row(contestant.key, *cells)
        verdicts += _judge(contestant, rates)
    console.print(table)
    print_verdicts(console, verdicts)


def _measure(
    console: Console,
    contestant: Contestant,
    environments: Environments,
    ground: Ground,
    count: int,
) -> Rates:
    settings = {**contestant.settings, "batch": BATCH, "concurrency": BATCH}
    rates: Rates = {}
    for workers in WORKER_COUNTS:
        with (
            console.status(f"{workers} workers of {contestant.key}"),
            closing(ground.new_place(contestant.store)) as place,
            entry_folder() as folder,
        ):
            entry = Entry(replace(contestant, settings=settings), place, environments, folder)
            try:
                entry.tell("prepare")
                rates[workers] = measure_drain(entry, count, workers)
            except ContestantError as error:
                console.print(f"[red]{contestant.key}, {workers} workers failed:[/red] {error}")
    return rates


def _cell(figures: Figures | None) -> str:
    if figures is None:
        return "-"
    return f"{figures['rate']:,.0f}\n[dim]{figures['server_us']:,.0f}[/dim]"


def _judge(contestant: Contestant, rates: Rates) -> list[Verdict]:
    if contestant.name != ROTA or 1 not in rates:
        return []
    return [
        verdict
        for workers, figures in rates.items()
        if workers > 1
        for verdict in judge_runs(
            f"{contestant.store}, {workers} workers against one",
            GOAL,
            [figures["rate"]],
            [rates[1]["rate"]],
        )
    ]
