"""A run as it is kept in a file, so that its page can be drawn again."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from bench.queue_contest.contestants import Contestant, Measure
from bench.queue_contest.measures import Figures
from bench.queue_contest.race import Results


class SavedContestant(msgspec.Struct):
    """Who took part, and how."""

    name: str
    store: str
    words: str
    figures: dict[str, list[Figures]]
    """By measure, run by run."""


class SavedRun(msgspec.Struct):
    """Everything that the page shows."""

    day: str
    machine: list[str]
    seconds: float
    loops: tuple[float, float]
    contestants: list[SavedContestant]
    failures: list[str]

    def results(self) -> Results:
        """The figures as the race had them."""
        results = Results()
        for each in self.contestants:
            for measure, runs in each.figures.items():
                results.figures[f"{each.name} on {each.store}", Measure(measure)] = runs
        return results


def make_run(
    contestants: list[Contestant], results: Results, machine: list[str], seconds: float
) -> SavedRun:
    """The run as it is kept."""
    saved = [
        SavedContestant(each.name, each.store, each.words, _figures_of(each, results))
        for each in contestants
    ]
    return SavedRun(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=machine,
        seconds=round(seconds, 1),
        loops=(min(results.loops), max(results.loops)),
        contestants=saved,
        failures=[failure.splitlines()[0] for failure in results.failures],
    )


def _figures_of(contestant: Contestant, results: Results) -> dict[str, list[Figures]]:
    return {
        measure: [{name: round(value, 3) for name, value in run.items()} for run in runs]
        for measure in Measure
        if (runs := results.figures.get((contestant.key, measure)))
    }


def save_run(run: SavedRun, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


def load_run(path: Path) -> SavedRun:
    return msgspec.json.decode(path.read_bytes(), type=SavedRun)
