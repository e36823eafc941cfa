"""Play many stories and judge them: ``python -m tests.verification.simulation --seeds 0:2000``.

Exit status 1 when a story broke an axiom. ``--seed 123 --show`` plays one story again, exactly as
it was, and shows it with its trace. With ``--fleet`` a story is about a whole fleet; its seeds that
fail are added to the file of those that the tests replay.
"""

import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tests.verification.fleet.kept import keep_seeds
from tests.verification.fleet.trial import try_fleet
from tests.verification.simulation.campaign import Failure, run_batch, run_fleets, run_seeds
from tests.verification.simulation.trial import try_seed
from tests.verification.trace.report import show_entry

_SHOWN_REPORTS = 3


def read_seeds(text: str) -> range:
    """``0:2000`` is the seeds from 0 to 1999, ``7`` is seed 7."""
    first, colon, last = text.partition(":")
    try:
        seeds = range(int(first), int(last) if colon else int(first) + 1)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not like 0:2000") from error
    if not seeds:
        raise ArgumentTypeError(f"{text!r} holds no seed")
    return seeds


def run(arguments: Sequence[str], console: Console) -> int:
    """The command, with its exit status."""
    parser = ArgumentParser(prog="python -m tests.verification.simulation")
    parser.add_argument("--seeds", type=read_seeds, default=range(2000), metavar="FIRST:LAST")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--show", action="store_true", help="show the story and its trace")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--fleet", action="store_true", help="of whole fleets")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        run_one = _run_one_fleet if given.fleet else _run_one
        return run_one(given.seed, console, is_shown=given.show)
    return _run_many(given.seeds, given.jobs, console, is_fleet=given.fleet)


def _run_one_fleet(seed: int, console: Console, *, is_shown: bool) -> int:
    trial = try_fleet(seed)
    if is_shown:
        _write(console, trial.plan.describe())
        _write(console, trial.trace().decode())
    for finding in trial.findings:
        _write(console, str(finding))
    told = f"{len(trial.findings)} findings in {len(trial.record.history)} records"
    _write(console, f"seed {seed}: {told}, trace {trial.fingerprint()[:16]}")
    return 1 if trial.findings else 0


def _run_one(seed: int, console: Console, *, is_shown: bool) -> int:
    trial = try_seed(seed)
    if is_shown:
        _write(console, trial.story.describe())
        for position, entry in enumerate(trial.verdict.trace):
            _write(console, f"{position:>5}  {show_entry(entry)}")
    _write(console, f"seed {seed}: {trial.verdict.render()}")
    return 0 if trial.verdict.ok else 1


def _run_many(seeds: range, job_count: int, console: Console, *, is_fleet: bool) -> int:
    failures: list[Failure] = []
    record_count = 0
    columns = (TextColumn("stories"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[failed]} failed"), console=console) as shown:
        bar = shown.add_task("", total=len(seeds), failed=0)
        for progress in run_seeds(seeds, job_count, run_fleets if is_fleet else run_batch):
            failures.extend(progress.failures)
            record_count += progress.record_count
            shown.update(bar, advance=progress.story_count, failed=len(failures))
    _report(failures, console, "--fleet " if is_fleet else "")
    if is_fleet:
        keep_seeds({each.seed: " ".join(each.axioms) or "not played" for each in failures})
    _write(console, f"{len(seeds)} stories, {record_count} records, {len(failures)} failed")
    return 1 if failures else 0


def _report(failures: Sequence[Failure], console: Console, option: str) -> None:
    for failure in failures[:_SHOWN_REPORTS]:
        _write(console, f"\nseed {failure.seed}: {failure.report}")
    for failure in failures:
        broken = ", ".join(failure.axioms) or "could not be played"
        replay = f"python -m tests.verification.simulation {option}--seed {failure.seed} --show"
        _write(console, f"seed {failure.seed} ({broken}): {replay}")


def _write(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], Console()))
