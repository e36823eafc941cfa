"""How the judge reads what the theory leaves open: restarts, changes, zones, jumps and doubts."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.unit.verification.trace_writer import HOURLY, TraceWriter, a_task
from tests.verification.trace import (
    POLLING_EDITION,
    Observed,
    Tolerance,
    check_trace,
    linear_allowance,
)

from rota.errors import InvalidInputError

SECOND = timedelta(seconds=1)
STRICT = Tolerance(after_jump=timedelta(), after_fault=timedelta())
DAILY = a_task("a", "0 12 * * *")


def test_a_new_task_is_owed_a_start_if_its_minute_is_now() -> None:
    trace = TraceWriter().at("10:00:30").initialize(HOURLY)
    trace.run().observe().judge().assert_ok()
    without = TraceWriter().at("10:00:30").initialize(HOURLY).at("10:00:31").observe()
    assert without.judge().axioms == {"L1"}


def test_a_new_task_is_owed_nothing_for_a_minute_ago() -> None:
    trace = TraceWriter().at("10:01").initialize(HOURLY)
    assert trace.run().judge().axioms == {"S1"}


def test_a_first_start_stays_due_after_its_minute_and_a_restart() -> None:
    trace = TraceWriter().at("10:00:30").initialize(HOURLY).stop().at("10:20").initialize(HOURLY)
    trace.run().observe().judge().assert_ok()


def test_many_missed_occurrences_owe_one_start() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").run().stop().at("14:30")
    trace.initialize(HOURLY).run()
    trace.observe().judge().assert_ok()
    assert trace.run().judge().axioms == {"S1", "S2"}


def test_a_missed_occurrence_that_is_not_made_up_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").run().stop().at("11:30")
    trace.initialize(HOURLY).at("11:31").observe()
    assert trace.judge().axioms == {"L1"}


def test_a_task_that_never_ran_is_owed_what_it_missed_since_it_came() -> None:
    trace = TraceWriter().initialize(HOURLY).stop().at("10:30").initialize(HOURLY)
    trace.run().observe().judge().assert_ok()


def test_a_retry_that_fell_due_while_stopped_is_owed_after_the_restart() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").start().fail().stop()
    trace.at("12:04").initialize(DAILY).at("12:05").run().observe().judge().assert_ok()
    late = TraceWriter().initialize(DAILY).at("12:00").start().fail().stop()
    late.at("13:00").initialize(DAILY).run().observe().judge().assert_ok()


def test_a_retry_lost_in_a_restart_is_seen() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").start().fail().crash()
    trace.initialize(DAILY).at("12:06").observe()
    assert trace.judge().axioms == {"L1"}


def test_a_retry_without_delay_may_be_held_back_a_little() -> None:
    task = a_task("a", "0 12 * * *", timedelta())
    trace = TraceWriter().initialize(task).at("12:00").start().wait(seconds=3).fail()
    trace.wait(seconds=1).run().observe()
    trace.judge().assert_ok()
    assert trace.judge(tolerance=Tolerance(after_failure=SECOND / 2)).axioms == {"L1"}


def test_a_lost_orphan_is_seen() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").start().crash().initialize(DAILY)
    assert trace.wait(seconds=1).observe().judge().axioms == {"L1"}


def test_a_crash_between_two_runs_leaves_no_orphan() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").run().crash().initialize(DAILY)
    assert trace.start().judge().axioms == {"S1"}


def test_a_run_the_store_still_holds_as_running_may_start_again() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").run().crash("a").initialize(DAILY)
    trace.run().observe().judge().assert_ok()
    unstarted = TraceWriter().initialize(DAILY).at("12:00").run().crash("a").initialize(DAILY)
    unstarted.at("12:30").observe().judge().assert_ok()


def test_a_run_that_ended_just_before_a_crash_may_start_again_if_tolerated() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").run().wait(seconds=1).crash()
    trace.initialize(DAILY).run()
    trace.judge(tolerance=Tolerance(settle_lag=SECOND)).assert_ok()
    assert trace.judge(tolerance=Tolerance(settle_lag=SECOND / 2)).axioms == {"S1", "S2"}


def test_a_changed_expression_keeps_the_history_and_counts_its_own_misses() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").run().stop().at("12:40")
    trace.initialize(a_task("a", "30 * * * *")).run().observe().judge().assert_ok()


def test_the_polling_edition_forgets_the_history_of_a_changed_task() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").run().stop().at("12:40")
    trace.initialize(a_task("a", "30 * * * *")).run()
    assert trace.judge(edition=POLLING_EDITION).axioms == {"S1"}


def test_a_changed_delay_keeps_a_pending_retry() -> None:
    slow = a_task("a", "0 12 * * *", timedelta(hours=1))
    trace = (
        TraceWriter()
        .initialize(DAILY)
        .at("12:00")
        .start()
        .fail()
        .at("12:01")
        .stop()
        .initialize(slow)
    )
    trace.at("12:05").run().observe()
    trace.judge().assert_ok()
    assert trace.judge(edition=POLLING_EDITION).axioms == {"S1"}


def test_a_task_that_was_removed_and_came_back_is_new() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").run().stop().initialize().stop()
    trace.wait(seconds=5).initialize(DAILY).run().observe().judge().assert_ok()
    late = TraceWriter().initialize(DAILY).at("11:59").stop().initialize().stop()
    assert late.at("12:30").initialize(DAILY).run().judge().axioms == {"S1"}


def test_a_task_removed_while_it_runs_ends_quietly() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").start().initialize().wait(minutes=1)
    trace.fail().at("12:30").observe().judge(edition=POLLING_EDITION).assert_ok()


def test_a_task_that_comes_back_while_it_runs_does_not_overlap_itself() -> None:
    trace = TraceWriter().initialize(DAILY).at("12:00").start().initialize().initialize(DAILY)
    assert "T2" in trace.start().judge(edition=POLLING_EDITION).axioms


def test_a_minute_shown_twice_is_due_twice_or_once() -> None:
    kyiv = ZoneInfo("Europe/Kyiv")
    night = datetime(2024, 10, 27, 0, 0, tzinfo=UTC)
    task = a_task("a", "30 3 * * *")
    both = TraceWriter(night).initialize(task).at("0:30").run().at("1:30").run().observe()
    both.judge(kyiv).assert_ok()
    assert both.judge(kyiv, fold="first").axioms == {"S1", "S2"}
    once = TraceWriter(night).initialize(task).at("0:30").run().at("2:30").observe()
    once.judge(kyiv, fold="first").assert_ok()
    once.judge(kyiv, edition=POLLING_EDITION).assert_ok()
    assert once.judge(kyiv).axioms == {"L1"}


def test_a_minute_that_is_skipped_is_not_due() -> None:
    kyiv = ZoneInfo("Europe/Kyiv")
    trace = TraceWriter(datetime(2024, 3, 31, 0, 0, tzinfo=UTC)).initialize(
        a_task("a", "30 3 * * *")
    )
    trace.at("5:00").observe().judge(kyiv).assert_ok()
    assert trace.at("6:00").run().judge(kyiv).axioms == {"S1"}


def test_time_the_host_slept_is_not_lateness() -> None:
    trace = TraceWriter().initialize(HOURLY).at("9:59:50").jump("13:20:00").run().observe()
    trace.judge(tolerance=STRICT).assert_ok()
    late = TraceWriter().initialize(HOURLY).at("9:59:50").jump("13:20:00").at("13:20:01").run()
    assert late.judge(tolerance=STRICT).axioms == {"L1"}
    late.judge(tolerance=Tolerance(after_jump=SECOND)).assert_ok()


def test_lateness_is_counted_on_both_sides_of_a_jump() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00:20").jump("10:30").at("10:30:20").run()
    trace.judge(tolerance=STRICT, allowance=40 * SECOND).assert_ok()
    assert trace.judge(tolerance=STRICT, allowance=39 * SECOND).axioms == {"L1"}


def test_a_clock_set_back_brings_no_occurrence_back() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").run().at("10:05").jump("9:30")
    trace.at("10:30").observe()
    trace.judge(tolerance=STRICT).assert_ok()
    again = TraceWriter().initialize(HOURLY).at("10:00").run().at("10:05").jump("9:30")
    assert again.at("10:00").run().judge(tolerance=STRICT).axioms == {"S1", "S2"}


def test_a_start_due_when_the_clock_was_set_back_is_optional() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").jump("9:30")
    trace.at("9:45").observe().judge().assert_ok()
    started = TraceWriter().initialize(HOURLY).at("10:00").jump("9:30").run()
    started.at("10:30").observe().judge().assert_ok()
    started = TraceWriter().initialize(HOURLY).at("10:00").jump("9:30").run().at("10:00").run()
    started.at("10:30").observe().judge().assert_ok()


def test_an_unmarked_step_back_of_the_clock_is_taken_as_one() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").run().at("10:05").observe().at("10:04")
    trace.observe().at("10:59").observe().judge().assert_ok()


def test_a_failing_store_excuses_what_it_delays() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").fault(5 * SECOND).at("10:00:05").run()
    trace.judge(tolerance=STRICT).assert_ok()
    late = TraceWriter().initialize(HOURLY).at("10:00").fault(5 * SECOND).at("10:00:06").run()
    assert late.judge(tolerance=STRICT).axioms == {"L1"}
    late.judge(tolerance=Tolerance(after_fault=SECOND)).assert_ok()


def test_faults_in_a_row_excuse_together() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").fault(5 * SECOND)
    trace.at("10:00:05").fault(5 * SECOND).at("10:00:10").fault(5 * SECOND).at("10:00:15").run()
    trace.judge(tolerance=STRICT).assert_ok()


def test_an_initialize_cut_off_by_a_crash_may_have_been_remembered_or_not() -> None:
    trace = TraceWriter().at("9:50")
    trace.call_initialize(HOURLY)
    trace.crash().at("10:30").initialize(HOURLY).at("10:40").observe().judge().assert_ok()
    remembered = TraceWriter().at("9:50")
    remembered.call_initialize(HOURLY)
    remembered.crash().at("10:30").initialize(HOURLY).run().observe().judge().assert_ok()


def test_a_removal_cut_off_by_a_crash_may_have_been_remembered_or_not() -> None:
    for is_remembered in (True, False):
        trace = TraceWriter().initialize(HOURLY).at("10:00").stop()
        trace.call_initialize()
        trace.crash().at("10:30").initialize(HOURLY)
        trace = trace if is_remembered else trace.run()
        trace.at("10:50").observe().judge().assert_ok()


def test_an_observed_start_settles_the_doubt() -> None:
    trace = TraceWriter().at("9:50")
    trace.call_initialize(HOURLY)
    trace.crash().at("10:30").initialize(HOURLY).run().at("10:31").run()
    assert trace.judge().axioms == {"S1", "S2"}


def test_an_initialize_that_failed_with_its_store_may_have_been_remembered() -> None:
    trace = TraceWriter().at("9:50")
    call = trace.call_initialize(HOURLY)
    trace.fault().fail_initialize(call).at("10:30").initialize(HOURLY).run()
    trace.observe().judge().assert_ok()


def test_a_first_coming_belongs_to_the_minute_of_the_call_or_of_the_return() -> None:
    for starts in (True, False):
        trace = TraceWriter().at("10:00:59")
        call = trace.call_initialize(HOURLY)
        trace.at("10:01:01").return_initialize(call)
        trace = trace.run() if starts else trace.at("10:30").observe()
        trace.judge(allowance=2 * SECOND).assert_ok()


def test_a_store_that_fails_during_a_reinitialization_stops_the_polling_edition() -> None:
    trace = TraceWriter().initialize(HOURLY)
    call = trace.call_initialize(HOURLY)
    trace.fault().fail_initialize(call).at("10:30").observe()
    trace.judge(edition=POLLING_EDITION).assert_ok()
    assert trace.run().judge(edition=POLLING_EDITION).axioms == {"S1"}


def test_the_allowance_grows_with_the_number_of_tasks() -> None:
    assert linear_allowance(100_000) == timedelta(minutes=11)
    trace = TraceWriter().initialize(*(a_task(str(number), "0 12 * * *") for number in range(10)))
    trace.at("12:00:00.5").observe()
    trace.judge(allowance=lambda count: count * SECOND / 20).assert_ok()
    assert trace.judge(allowance=lambda count: count * SECOND / 21).axioms == {"L1"}


def test_an_empty_trace_is_in_order() -> None:
    check_trace([], zone=UTC).assert_ok()


def test_a_naive_instant_is_refused_with_its_position() -> None:
    entries = [
        Observed(at=datetime(2024, 1, 1, tzinfo=UTC)),
        Observed(at=datetime(2024, 1, 1)),  # noqa: DTZ001 - that it is naive is the point
    ]
    with pytest.raises(InvalidInputError, match=r"trace\[1\]\.at"):
        check_trace(entries, zone=UTC)


def test_a_claim_that_a_failing_store_may_hold_may_outlive_a_reset() -> None:
    changed = a_task("a", "0 12 * * *", timedelta(minutes=9))
    trace = TraceWriter().initialize(HOURLY).at("10:00").fault().at("10:01").initialize(changed)
    trace.run().observe()
    trace.judge(edition=POLLING_EDITION, tolerance=Tolerance()).assert_ok()
    certain = TraceWriter().initialize(HOURLY).at("10:00").run().at("10:01").initialize(changed)
    assert certain.run().judge(edition=POLLING_EDITION).axioms == {"S1"}


def test_a_clock_set_back_during_initialize_may_date_the_first_coming() -> None:
    for starts in (True, False):
        trace = TraceWriter().at("10:30")
        call = trace.call_initialize(HOURLY)
        trace.jump("9:59:50").at("10:01").return_initialize(call)
        trace = trace.run() if starts else trace.at("10:59").observe()
        trace.judge(allowance=70 * SECOND).assert_ok()


def test_an_occurrence_due_during_a_run_may_start_after_the_clock_was_set_back() -> None:
    trace = TraceWriter().initialize(a_task("a", "0,5 10 * * *")).at("10:00").start()
    trace.at("10:06").jump("9:30").at("9:31").succeed().run().at("9:50").observe()
    trace.judge().assert_ok()


def test_a_failure_while_a_new_delay_is_taken_over_may_be_retried_after_either() -> None:
    for minute in ("12:01", "12:05"):
        trace = TraceWriter().initialize(DAILY).at("12:00").start()
        call = trace.call_initialize(a_task("a", "0 12 * * *", timedelta(minutes=1)))
        trace.fail().return_initialize(call).at(minute).run().observe()
        assert trace.judge(edition=POLLING_EDITION, allowance=timedelta(hours=1)).ok


def test_a_fault_that_began_before_stop_may_make_it_fail() -> None:
    trace = TraceWriter().initialize(HOURLY).fault(10 * SECOND)
    call = trace.wait(seconds=5).call_stop()
    trace.wait(seconds=5).fail_stop(call).judge().assert_ok()
