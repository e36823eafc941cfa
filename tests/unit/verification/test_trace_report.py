"""A verdict that someone can act upon, and a judge that is quick."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.verification.trace_writer import HOURLY, TraceWriter, a_task
from tests.verification.trace import AXIOMS, Misshapen, check_trace


def test_the_report_names_axiom_position_facts_and_shows_the_trace() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").run().at("10:00:01").start()
    with pytest.raises(AssertionError) as caught:
        trace.judge().assert_ok()
    text = str(caught.value)
    assert "1 violation(s) in 5 records" in text
    assert "S1 at position 4, 2024-03-04 10:00:01Z: 'a' started at 2024-03-04 10:00:01Z" in text
    assert "last start 2024-03-04 10:00:00Z; '0 * * * *' next due 2024-03-04 11:00:00Z" in text
    assert AXIOMS["S1"] in text
    assert ">     4  2024-03-04 10:00:01Z run started name=a" in text
    assert "      2  2024-03-04 10:00:00Z run started name=a" in text


def test_a_trace_in_order_says_so() -> None:
    verdict = TraceWriter().initialize(HOURLY).judge()
    assert verdict.ok
    assert verdict.render() == "no violation in 2 records"
    verdict.assert_ok()


def test_a_long_report_is_cut() -> None:
    trace = TraceWriter().initialize(*(a_task(str(number), "0 12 * * *") for number in range(9)))
    for number in range(9):
        trace.run(str(number))
    text = trace.judge().render(limit=2)
    assert "9 violation(s)" in text
    assert "... and 7 more" in text
    assert "; 3 more]" in text


def test_a_misshapen_list_is_shown() -> None:
    verdict = TraceWriter().initialize(Misshapen("(1, 2)")).judge()
    assert "registration 0: (1, 2) has not the shape of a registration" in verdict.render()
    assert "misshapen (1, 2)" in verdict.render()


def test_violations_come_in_the_order_of_the_trace() -> None:
    trace = TraceWriter().initialize(HOURLY).start().succeed().at("10:30").start().at("11:30")
    positions = [violation.position for violation in trace.observe().judge().violations]
    assert positions == sorted(positions)
    assert len(positions) > 1


def test_thirty_thousand_records_are_judged_in_a_moment() -> None:
    """Were each compared with all others, it would not end within the limit of the run."""
    trace = TraceWriter(datetime(2024, 1, 1, tzinfo=UTC) - timedelta(seconds=1))
    names = [f"task {number}" for number in range(50)]
    trace.initialize(*(a_task(name) for name in names))
    for name in names:
        trace.run(name)
    trace.now += timedelta(seconds=1)
    for _ in range(300):
        for name in names:
            trace.run(name)
        trace.now += timedelta(minutes=1)
    verdict = check_trace(trace.entries, zone=UTC, allowance=timedelta())
    verdict.assert_ok()
    assert len(trace.entries) > 30_000
