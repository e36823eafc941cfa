"""The command line of bench/queue.py."""

import argparse
import time
from dataclasses import replace
from math import inf
from pathlib import Path

from bench.queue_contest.contestants import (
    MAIN_CONTESTANTS,
    ROTA,
    Contestant,
    Measure,
    StoreKind,
    in_other_checkout,
    list_contestants,
)
from bench.queue_contest.crowd import run_crowd
from bench.queue_contest.flatness import run_flatness
from bench.queue_contest.harness.environments import (
    ROOT,
    Environments,
    MissingError,
    default_cache,
    default_python,
)
from bench.queue_contest.harness.places import Ground, NoServerError
from bench.queue_contest.measures import BRIEF, FULL, QUICK, Sizes
from bench.queue_contest.page import write_page
from bench.queue_contest.race import Race
from bench.queue_contest.report import (
    describe_run,
    print_comparisons,
    print_figures,
    print_settings,
    print_verdicts,
)
from bench.queue_contest.saved import load_run, make_run, save_run
from bench.queue_contest.targets import compare_checkouts, judge
from rich.console import Console

WIDTH = 156
RESULTS = ROOT / "bench" / "results.json"
DOCS = ROOT / "docs"
PAGE_MEASURES = (Measure.ENQUEUE, Measure.DRAIN, Measure.LATENCY)
PAGE_MINUTES = 4.5
DESCRIPTION = """Rota and other job queues, one run, side by side: no-op jobs, durability on.

Databases go to the temporary folder: set TMPDIR to a real disk. The contestants are installed into
the cache folder on first use; one that cannot be installed is named and left out.
"""


def main() -> None:
    given = _make_parser().parse_args()
    if given.redraw:
        write_page(load_run(RESULTS), DOCS)
        return
    console, ground = _make_console(), Ground()
    try:
        environments = Environments(given.cache, given.python)
        chosen = _with_other_checkout(_choose(given), given.before, environments)
        contestants = _admit(console, chosen, environments, ground)
        if given.flat:
            run_flatness(console, contestants, environments, ground, given.flat_rows)
        elif given.crowd:
            run_crowd(console, contestants, environments, ground, given.crowd)
        else:
            _run_race(console, contestants, environments, ground, given)
    finally:
        ground.close()


def _make_console() -> Console:
    """At least as wide as the tables; what is not a terminal has any width."""
    console = Console()
    return console if console.width >= WIDTH else Console(width=WIDTH)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_selection(parser)
    _add_page(parser)
    parser.add_argument("--repeats", type=int, help="how often everything else is measured")
    parser.add_argument("--rounds", type=int, help="how many rounds of enqueueing, in turns")
    parser.add_argument(
        "--flat",
        action="store_true",
        help="instead: what lease and settle cost with and without millions of other jobs",
    )
    parser.add_argument(
        "--flat-rows", type=int, default=1_000_000, help="rows of each kind for --flat"
    )
    parser.add_argument(
        "--crowd",
        type=int,
        metavar="JOBS",
        help="instead: how fast 1, 4, 8 and 16 workers drain this number of jobs in batches of ten",
    )
    parser.add_argument(
        "--python",
        default=default_python(),
        help="the interpreter of all Python contestants; the one that runs this if left out",
    )
    parser.add_argument(
        "--cache", type=Path, default=default_cache(), help="where contestants are installed"
    )
    return parser


def _add_page(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--page",
        action="store_true",
        help="the main contestants on four stores; writes bench/results.json and docs/bench.md",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="begin no repeat of drain and latency that would end later; 4.5 with --page",
    )
    parser.add_argument(
        "--redraw", action="store_true", help="only draw the page of bench/results.json again"
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """The options that say who takes part and what is measured."""
    parser.add_argument("--quick", action="store_true", help="one repeat, fewer jobs; 5 minutes")
    parser.add_argument(
        "--only", default="", help="parts of contestants' names, with commas: rota,pgqueuer"
    )
    parser.add_argument(
        "--store", choices=[each.value for each in StoreKind], help="only what is kept there"
    )
    parser.add_argument(
        "--measure",
        choices=[each.value for each in Measure],
        action="append",
        help="only this; may be given several times",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="CHECKOUT",
        help="another checkout of Rota, which takes part beside this one",
    )


def _choose(given: argparse.Namespace) -> list[Contestant]:
    parts = [part.strip().lower() for part in given.only.split(",") if part.strip()]
    return [
        contestant
        for contestant in list_contestants()
        if not given.page or contestant.name in MAIN_CONTESTANTS
        if given.page is False or contestant.store is not StoreKind.MYSQL
        if given.store in (None, contestant.store)
        and (not parts or any(part in contestant.key.lower() for part in parts))
    ]


def _with_other_checkout(
    chosen: list[Contestant], checkout: Path | None, environments: Environments
) -> list[Contestant]:
    """The contestants, and after each Rota the one of the other checkout."""
    if checkout is None:
        return chosen
    checks = environments.pending_checks(checkout.resolve())
    others = {
        each.key: in_other_checkout(each, checkout.resolve(), checks.get(each.store))
        for each in chosen
        if each.name == ROTA
    }
    paired = (pair for each in chosen for pair in (each, others.get(each.key)))
    return [each for each in paired if each is not None]


def _admit(
    console: Console, chosen: list[Contestant], environments: Environments, ground: Ground
) -> list[Contestant]:
    """Those whose environment could be made and whose store is there; others are named aloud."""
    missing: dict[str, str] = {}
    with console.status("installing contestants"):
        for name in dict.fromkeys(contestant.environment for contestant in chosen):
            try:
                environments.make(name)
            except MissingError as error:
                missing[name] = str(error)
    if any(contestant.store is StoreKind.POSTGRES for contestant in chosen):
        try:
            ground.start_server()
        except NoServerError as error:
            missing[StoreKind.POSTGRES] = str(error)
    for name, reason in missing.items():
        console.print(f"[bold red]LEFT OUT, {name}: {reason}[/bold red]")
    return [
        each for each in chosen if each.environment not in missing and each.store not in missing
    ]


def _run_race(
    console: Console,
    contestants: list[Contestant],
    environments: Environments,
    ground: Ground,
    given: argparse.Namespace,
) -> None:
    sizes = _choose_sizes(given)
    usual = PAGE_MEASURES if given.page else tuple(Measure)
    measures = [Measure(name) for name in given.measure] if given.measure else usual
    print_settings(console, contestants, environments, ground, sizes)
    machine, begin = describe_run(contestants, environments, ground), time.perf_counter()
    minutes = given.minutes or (PAGE_MINUTES if given.page else inf)
    results = Race(ground, environments, sizes, minutes).run(contestants, measures, console)
    seconds = time.perf_counter() - begin
    print_figures(console, contestants, results)
    print_comparisons(console, list(compare_checkouts(results)))
    print_verdicts(console, judge(results))
    if given.page:
        run = make_run(contestants, results, machine, seconds)
        save_run(run, RESULTS)
        write_page(run, DOCS)


def _choose_sizes(given: argparse.Namespace) -> Sizes:
    sizes = BRIEF if given.page else QUICK if given.quick else FULL
    chosen = {"repeats": given.repeats, "rounds": given.rounds}
    return replace(sizes, **{name: count for name, count in chosen.items() if count is not None})
