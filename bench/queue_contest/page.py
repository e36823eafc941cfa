"""The page in the docs: for each store a chart, a table, and how Rota compares with the best."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.queue_contest.chart import Bar, Panel, draw_chart
from bench.queue_contest.contestants import DOOR_SYNC, ROTA, ROTA_DOOR, Measure, StoreKind
from bench.queue_contest.race import Results
from bench.queue_contest.report import TITLES
from bench.queue_contest.saved import SavedContestant, SavedRun
from bench.queue_contest.targets import Ratio, compare_runs, spread_of

OURS = (ROTA, ROTA_DOOR, DOOR_SYNC)
VERSIONS = "versions: "
FRAME = Path(__file__).with_name("page.md")


class Column(NamedTuple):
    """One figure of the page."""

    head: str
    title: str
    measure: Measure
    name: str
    form: str
    is_rate: bool = True


COLUMNS = (
    Column("enqueue/s", "Jobs enqueued a second, one by one", Measure.ENQUEUE, "rate", ",.0f"),
    Column("drain/s", "Jobs drained a second, by one process", Measure.DRAIN, "rate", ",.0f"),
    Column(
        "p50 ms",
        "Milliseconds from enqueue to start, median: shorter is better",
        Measure.LATENCY,
        "p50_ms",
        ".1f",
        is_rate=False,
    ),
    Column("p99 ms", "", Measure.LATENCY, "p99_ms", ".1f", is_rate=False),
)
CPU = (("worker CPU µs", "worker_us"), ("server CPU µs", "server_us"))


def write_page(run: SavedRun, docs: Path) -> None:
    """Write the charts and the page into the folder of the docs."""
    images = docs / "images" / "bench"
    images.mkdir(parents=True, exist_ok=True)
    results, sections = run.results(), list[str]()
    for store, title in TITLES.items():
        rows = [each for each in run.contestants if each.store == store and each.figures]
        if rows:
            chart = draw_chart(f"Job queues on {title}", list(_panels(store, rows, results)))
            (images / f"{store}.svg").write_text(chart, encoding="utf-8")
            sections.append(_section(store, title, rows, results))
    frame = FRAME.read_text(encoding="utf-8")
    filled = frame.replace("{run}", _describe(run)).replace("{stores}", "\n".join(sections))
    (docs / "bench.md").write_text(filled.replace("{words}", _words(run)), encoding="utf-8")


def _panels(store: StoreKind, rows: Sequence[SavedContestant], results: Results) -> Iterator[Panel]:
    for column in COLUMNS:
        bars = [bar for row in rows if (bar := _bar(store, row.name, column, results))]
        if column.title and bars:
            ordered = sorted(bars, key=lambda bar: bar.value, reverse=column.is_rate)
            yield Panel(column.title, column.form, ordered)


def _bar(store: StoreKind, name: str, column: Column, results: Results) -> Bar | None:
    spread = spread_of(results.values(f"{name} on {store}", column.measure, column.name))
    if spread is None:
        return None
    return Bar(name, spread.value, spread.low, spread.high, name in OURS)


def _section(
    store: StoreKind, title: str, rows: Sequence[SavedContestant], results: Results
) -> str:
    heads = [*(column.head for column in COLUMNS), *(head for head, _ in CPU)]
    lines = [
        f"## {title}",
        "",
        f"![Job queues on {title}](images/bench/{store}.svg)",
        "",
        f"| | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
        *(f"| {row.name} | {' | '.join(_cells(store, row.name, results))} |" for row in rows),
        "",
        *_comparisons(store, rows, results),
    ]
    return "\n".join(lines)


def _cells(store: StoreKind, name: str, results: Results) -> Iterator[str]:
    key = f"{name} on {store}"
    for column in COLUMNS:
        spread = spread_of(results.values(key, column.measure, column.name))
        yield "-" if spread is None else _show(spread, column.form)
    for _, figure in CPU:
        value = results.median(key, Measure.DRAIN, figure)
        yield "-" if not value else f"{value:.0f}"


def _show(spread: Ratio, form: str) -> str:
    middle = f"{spread.value:{form}}"
    if spread.low == spread.high:
        return middle
    return f"{middle} ({spread.low:{form}}-{spread.high:{form}})"


def _comparisons(
    store: StoreKind, rows: Sequence[SavedContestant], results: Results
) -> Iterator[str]:
    """Rota as users have it, against the best of the others in each figure."""
    peers = [row.name for row in rows if row.name not in OURS]
    for column in COLUMNS:
        runs = {
            name: values
            for name in peers
            if (values := results.values(f"{name} on {store}", column.measure, column.name))
        }
        choose = max if column.is_rate else min
        best = choose(runs, key=lambda name: statistics.median(runs[name]), default="")
        ours = results.values(f"{ROTA} on {store}", column.measure, column.name)
        ratio = compare_runs(ours, runs.get(best, ()))
        if ratio is not None:
            yield f"- {column.head}: Rota has {_show(ratio, '.2f')} of {best}, the best peer."
    yield ""


def _count(run: SavedRun, *, is_enqueue: bool) -> int:
    """In how many rounds enqueueing was measured, or the rest."""
    return max(
        (
            sum("rate" in one or "p50_ms" in one for one in runs)
            for each in run.contestants
            for measure, runs in each.figures.items()
            if (measure == Measure.ENQUEUE) is is_enqueue
        ),
        default=0,
    )


def _versions(machine: Sequence[str]) -> Iterator[str]:
    return (each.removeprefix(VERSIONS) for each in machine if each.startswith(VERSIONS))


def _describe(run: SavedRun) -> str:
    rounds, repeats = _count(run, is_enqueue=True), _count(run, is_enqueue=False)
    low, high = run.loops
    told = (
        f"Measured on {run.day} in {run.seconds / 60:.1f} minutes; the contestants took turns. "
        f"Rounds of enqueueing: {rounds}; of the rest: {repeats}. A fixed loop took {low:.0f} to "
        f"{high:.0f} ms between the measurements: the further apart, the busier the machine was "
        "with other things."
    )
    lines = [
        told,
        "",
        *(f"- {line}" for line in run.machine if not line.startswith(VERSIONS)),
        f"- {VERSIONS}" + "; ".join(_versions(run.machine)),
        *(f"- Left out: {failure}" for failure in run.failures),
    ]
    return "\n".join(lines)


def _words(run: SavedRun) -> str:
    return "\n".join(
        f"- {each.name} on {TITLES[StoreKind(each.store)]}: {each.words}"
        for each in run.contestants
    )
