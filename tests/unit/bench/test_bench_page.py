"""The page of the benchmarks: what was measured is what its charts and tables show."""

from pathlib import Path
from xml.etree import ElementTree

from bench.queue_contest.chart import BAR_END, BAR_START, OURS
from bench.queue_contest.page import write_page
from bench.queue_contest.saved import SavedContestant, SavedRun, load_run, save_run

SVG = "{http://www.w3.org/2000/svg}"


def a_run() -> SavedRun:
    def took(*rates: float) -> dict[str, list[dict[str, float]]]:
        return {"drain": [{"rate": rate, "worker_us": 20.0, "server_us": 30.0} for rate in rates]}

    return SavedRun(
        day="2026-01-01",
        machine=["machine: two cores"],
        seconds=270.0,
        loops=(27.0, 30.0),
        contestants=[
            SavedContestant("Rota", "redis", "batch 500", took(4_000, 4_000, 4_000)),
            SavedContestant("A <peer>", "redis", "as delivered", took(1_000, 900, 1_100)),
            SavedContestant("Absent", "mongo", "failed", {}),
        ],
        failures=["Absent on mongo, drain: it did not start"],
    )


def test_a_chart_has_a_bar_for_each_contestant_as_long_as_its_figure(tmp_path: Path) -> None:
    write_page(a_run(), tmp_path)
    chart = ElementTree.parse(tmp_path / "images/bench/redis.svg").getroot()  # noqa: S314 - our own
    _, ours, theirs = chart.iter(f"{SVG}rect")
    assert ours.get("fill") == OURS != theirs.get("fill")
    assert float(ours.get("width", 0)) == BAR_END - BAR_START
    assert float(theirs.get("width", 0)) == (BAR_END - BAR_START) / 4
    names = [text.text for text in chart.iter(f"{SVG}text")]
    assert names[1:] == ["Rota", "4,000", "A <peer>", "1,000"]


def test_the_page_has_medians_intervals_ratios_and_what_failed(tmp_path: Path) -> None:
    write_page(a_run(), tmp_path)
    page = (tmp_path / "bench.md").read_text()
    assert "| Rota | - | 4,000 | - | - | 20 | 30 |" in page
    assert "| A <peer> | - | 1,000 (900-1,100) | - | - | 20 | 30 |" in page
    assert "drain/s: Rota has 4.00 (3.64-4.44) of A <peer>, the best peer" in page
    assert "Rounds of enqueueing: 0; of the rest: 3." in page
    assert "Left out: Absent on mongo, drain: it did not start" in page
    assert "## MongoDB" not in page
    assert "{" not in page


def test_a_saved_run_draws_the_same_page_again(tmp_path: Path) -> None:
    save_run(a_run(), tmp_path / "results.json")
    assert load_run(tmp_path / "results.json") == a_run()
