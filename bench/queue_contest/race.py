"""The order of a run: first the rounds of enqueueing, then repeat by repeat the other measures."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from math import inf

from bench.queue_contest import pgbench
from bench.queue_contest.contestants import PGBENCH, Contestant, Measure, StoreKind
from bench.queue_contest.harness.environments import Environments
from bench.queue_contest.harness.machine import time_loop
from bench.queue_contest.harness.places import Ground, PostgresPlace
from bench.queue_contest.harness.programs import ContestantError, Entry, entry_folder
from bench.queue_contest.measures import Figures, Sizes, take
from bench.queue_contest.turns import take_turns
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@dataclass
class Results:
    """What was measured, run by run."""

    figures: dict[tuple[str, Measure], list[Figures]] = field(
        default_factory=lambda: defaultdict(list)
    )
    failures: list[str] = field(default_factory=list)
    loops: list[float] = field(default_factory=list)

    def values(self, contestant: str, measure: Measure, name: str) -> list[float]:
        """One figure of all runs that have it."""
        runs = self.figures.get((contestant, measure), [])
        return [run[name] for run in runs if name in run]

    def median(self, contestant: str, measure: Measure, name: str) -> float | None:
        """Of all runs; None when there was none."""
        values = self.values(contestant, measure, name)
        return statistics.median(values) if values else None


class Race:
    """Runs what is planned and shows how far it is."""

    def __init__(
        self, ground: Ground, environments: Environments, sizes: Sizes, minutes: float = inf
    ) -> None:
        """A race of at most this number of minutes, but with at least one repeat."""
        self._seconds = 60 * minutes
        self._ground = ground
        self._environments = environments
        self._sizes = sizes
        self.results = Results()

    def run(
        self, contestants: list[Contestant], measures: Iterable[Measure], console: Console
    ) -> Results:
        """Measure all of them. One that fails is named and goes on with the next measure."""
        chosen, begin = list(measures), time.perf_counter()
        if Measure.ENQUEUE in chosen:
            for store in StoreKind:
                self._run_rounds([it for it in contestants if it.store is store], console)
        left = self._seconds - (time.perf_counter() - begin)
        self._run_repeats(self._plan(contestants, chosen), left, console)
        return self.results

    def _run_rounds(self, contestants: list[Contestant], console: Console) -> None:
        """The turns of all contestants on one store."""
        starters = [each for each in contestants if Measure.ENQUEUE in each.measures]
        if not starters:
            return

        def note(key: str, figures: Figures) -> None:
            if key == starters[0].key:
                self.results.loops.append(time_loop())
            self.results.figures[key, Measure.ENQUEUE].append(figures)

        def leave_out(key: str, error: ContestantError) -> None:
            self._note_failure(key, Measure.ENQUEUE, error, console)

        names = ", ".join(each.name for each in starters)
        with console.status(f"enqueue on {starters[0].store}, in turns: {names}"):
            take_turns(map(self._entered, starters), self._sizes, note, leave_out)

    def _run_repeats(
        self, repeats: list[list[tuple[Contestant, Measure]]], seconds: float, console: Console
    ) -> None:
        if not any(repeats):
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            bar = progress.add_task("starting", total=sum(map(len, repeats)))
            begin = time.perf_counter()
            for number, heats in enumerate(repeats):
                elapsed = time.perf_counter() - begin
                if number and elapsed * (number + 1) / number > seconds:
                    break
                for contestant, measure in heats:
                    progress.update(bar, description=f"{measure}: {contestant.key}".ljust(48))
                    self.results.loops.append(time_loop())
                    self._run_heat(contestant, measure, console)
                    progress.advance(bar)

    def _plan(
        self, contestants: list[Contestant], measures: list[Measure]
    ) -> list[list[tuple[Contestant, Measure]]]:
        """The heats of each repeat.

        Idling is steady and measured once; latency has rounds of its own.

        Who begins is another one in each repeat: the first comes after another measure, whose
        leftovers the disk may still be busy with.
        """
        return [
            [
                (contestant, measure)
                for measure in measures
                if measure is not Measure.ENQUEUE
                if repeat < _repeats_of(measure, self._sizes)
                for contestant in _beginning_at(repeat, contestants, measure)
            ]
            for repeat in range(max(self._sizes.repeats, self._sizes.feed_rounds))
        ]

    def _run_heat(self, contestant: Contestant, measure: Measure, console: Console) -> None:
        try:
            figures = self._measure(contestant, measure)
        except ContestantError as error:
            self._note_failure(contestant.key, measure, error, console)
        else:
            self.results.figures[contestant.key, measure].append(figures)

    def _note_failure(
        self, key: str, measure: Measure, error: ContestantError, console: Console
    ) -> None:
        self.results.failures.append(f"{key}, {measure}: {error}")
        console.print(f"[red]{key}, {measure} failed:[/red] {error}", markup=True)

    def _measure(self, contestant: Contestant, measure: Measure) -> Figures:
        with self._entered(contestant) as entry:
            if contestant.name == PGBENCH and isinstance(entry.place, PostgresPlace):
                return pgbench.measure(entry, entry.place, self._ground, measure, self._sizes)
            return take(measure, entry, self._sizes)

    @contextmanager
    def _entered(self, contestant: Contestant) -> Iterator[Entry]:
        """The contestant at an empty place."""
        with closing(self._ground.new_place(contestant.store)) as place, entry_folder() as folder:
            yield Entry(contestant, place, self._environments, folder)


def _beginning_at(repeat: int, contestants: list[Contestant], measure: Measure) -> list[Contestant]:
    """Those who take part in a measure, and others at the front in each repeat."""
    starters = [contestant for contestant in contestants if measure in contestant.measures]
    first = repeat % max(len(starters), 1)
    return starters[first:] + starters[:first]


def _repeats_of(measure: Measure, sizes: Sizes) -> int:
    if measure is Measure.IDLE:
        return 1
    return sizes.feed_rounds if measure is Measure.LATENCY else sizes.repeats
