"""Many seeds, on several cores: which of them fail, and how."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.verification.fleet.trial import try_fleet
from tests.verification.simulation.trial import try_seed

BATCH = 50


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed whose story broke an axiom, or could not be played to its end."""

    seed: int
    axioms: tuple[str, ...]
    report: str


@dataclass(frozen=True, slots=True)
class Progress:
    """What one batch of seeds brought."""

    story_count: int
    record_count: int
    failures: tuple[Failure, ...]


Run = Callable[[Sequence[int]], Progress]


def run_seeds(
    seeds: Sequence[int], job_count: int = 1, run: Run | None = None
) -> Iterator[Progress]:
    """Try every seed, batch by batch, in the order of the seeds."""
    run = run or run_batch
    batches = [tuple(seeds[first : first + BATCH]) for first in range(0, len(seeds), BATCH)]
    if job_count == 1:
        yield from map(run, batches)
        return
    with ProcessPoolExecutor(job_count) as pool:
        yield from pool.map(run, batches)


def run_batch(seeds: Sequence[int]) -> Progress:
    """Try these seeds, one after the other."""
    failures: list[Failure] = []
    record_count = 0
    for seed in seeds:
        try:
            verdict = try_seed(seed).verdict
        except Exception:  # noqa: BLE001 - a story that cannot be played is a finding, not an end
            failures.append(Failure(seed, (), traceback.format_exc()))
            continue
        record_count += len(verdict.trace)
        if not verdict.ok:
            failures.append(Failure(seed, tuple(sorted(verdict.axioms)), verdict.render(limit=2)))
    return Progress(len(seeds), record_count, tuple(failures))


def run_fleets(seeds: Sequence[int]) -> Progress:
    """The same for fleets."""
    failures: list[Failure] = []
    record_count = 0
    for seed in seeds:
        try:
            trial = try_fleet(seed)
        except Exception:  # noqa: BLE001 - as above
            failures.append(Failure(seed, (), traceback.format_exc()))
            continue
        record_count += len(trial.record.history)
        if trial.findings:
            report = "\n".join(map(str, trial.findings[:2]))
            failures.append(Failure(seed, tuple(sorted(trial.rules)), report))
    return Progress(len(seeds), record_count, tuple(failures))
