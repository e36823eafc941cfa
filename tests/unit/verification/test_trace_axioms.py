"""The minimal traces of the theory, and one trace for every way to break an axiom."""

from datetime import timedelta

import pytest
from tests.unit.verification.trace_writer import HOURLY, TraceWriter, a_task
from tests.verification.trace import POLLING_EDITION, Misshapen

MINUTE = timedelta(minutes=1)


def test_a_run_a_failure_and_its_retry_are_in_order() -> None:
    trace = TraceWriter().initialize(HOURLY)
    trace.at("10:00").run().at("11:00").start().at("11:00:07").fail().at("11:05:07").run()
    trace.at("11:30").observe()
    trace.judge().assert_ok()


def test_a_restart_is_in_order() -> None:
    trace = TraceWriter().initialize(HOURLY).stop().initialize(HOURLY)
    trace.at("10:00").run().observe().judge().assert_ok()


def test_a_run_cut_off_by_a_crash_starts_again_without_a_new_occurrence() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").start().wait(seconds=5).crash()
    trace.wait(seconds=5).initialize(HOURLY).run().observe().judge().assert_ok()


def test_an_occurrence_during_a_run_starts_afterwards() -> None:
    trace = TraceWriter().initialize(a_task("a", "0,1 * * * *")).at("10:00").start()
    trace.at("10:01:30").succeed().run().observe().judge().assert_ok()


def test_a_superseded_retry_stays_cancelled() -> None:
    trace = TraceWriter().initialize(a_task("a", "0,1 * * * *"))
    trace.at("10:00").start().fail().at("10:01").run().at("10:30").observe()
    trace.judge().assert_ok()


def test_a_superseded_retry_that_comes_back_is_seen() -> None:
    trace = TraceWriter().initialize(a_task("a", "0,1 * * * *"))
    trace.at("10:00").start().fail().at("10:01").run().at("10:05").start()
    assert trace.judge().axioms == {"S1"}


def test_a_start_that_nothing_owes_is_seen() -> None:
    verdict = TraceWriter().initialize(HOURLY).start().judge()
    assert verdict.axioms == {"S1"}
    (violation,) = verdict.violations
    assert (violation.position, violation.task) == (2, "a")
    assert "nothing was owed" in violation.message
    assert "next due 2024-03-04 10:00:00Z" in violation.message


def test_a_start_a_microsecond_early_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY).at("9:59:59.999999").start()
    assert trace.judge().axioms == {"S1"}


def test_a_start_after_stop_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").stop().start()
    assert trace.judge().axioms == {"S1", "T3"}


def test_a_start_while_stop_waits_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY, a_task("b", "1 * * * *")).at("10:00").start()
    trace.call_stop()
    assert trace.at("10:01").start("b").judge().axioms == {"S1"}


def test_a_start_after_a_crash_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").crash().start()
    assert trace.judge().axioms == {"S1", "T1"}


def test_a_start_before_any_initialize_is_seen() -> None:
    assert TraceWriter().at("10:00").start().judge().axioms == {"S1"}


def test_a_start_of_a_task_that_is_not_listed_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").run().start("other")
    assert trace.judge().axioms == {"S1"}


def test_a_second_start_within_one_period_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").run().wait(seconds=1).start()
    assert trace.judge().axioms == {"S1"}


def test_a_second_success_within_one_period_is_seen_as_such() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").run().wait(seconds=1).run()
    assert trace.judge().axioms == {"S1", "S2"}


def test_a_retry_a_millisecond_early_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").start().fail()
    assert trace.at("10:04:59.999").start().judge().axioms == {"S1"}


def test_a_task_that_overlaps_itself_is_seen() -> None:
    trace = TraceWriter().initialize(a_task("a", "0,1 * * * *")).at("10:00").start()
    trace.at("10:01").start()
    assert trace.judge().axioms == {"S1", "T2"}


def test_a_stop_that_does_not_wait_is_seen() -> None:
    verdict = TraceWriter().initialize(HOURLY).at("10:00").start().stop().succeed().judge()
    assert verdict.axioms == {"S3"}
    assert verdict.violations[0].task == "a"


def test_a_stop_that_does_not_wait_for_initialize_is_seen() -> None:
    trace = TraceWriter()
    call = trace.call_initialize(HOURLY)
    trace.stop().return_initialize(call)
    assert trace.judge().axioms == {"S3"}
    failed = TraceWriter()
    call = failed.call_initialize(a_task(""))
    failed.stop().wait(seconds=1).fail_initialize(call)
    assert failed.judge(allowance=timedelta(seconds=0.5)).axioms == {"L2", "S3"}
    assert failed.judge(allowance=timedelta(seconds=1)).ok


def test_a_stop_during_initialize_lets_both_return_and_nothing_start() -> None:
    trace = TraceWriter().at("10:00")
    call = trace.call_initialize(HOURLY)
    stop = trace.call_stop()
    trace.return_initialize(call).return_stop(stop).observe().judge().assert_ok()


def test_a_start_after_a_stop_during_initialize_is_seen() -> None:
    trace = TraceWriter().at("10:00")
    call = trace.call_initialize(HOURLY)
    stop = trace.call_stop()
    trace.return_initialize(call).start().succeed().return_stop(stop)
    assert trace.judge().axioms == {"S1"}


@pytest.mark.parametrize(
    "bad",
    [
        Misshapen("5"),
        a_task(""),
        a_task("a\nb"),
        a_task("x" * 256),
        a_task("b", "*/5 * * * *"),
        a_task("b", "0 0 31 2 *"),
        a_task("b", retry=timedelta(milliseconds=-1)),
        a_task("a"),
    ],
)
def test_an_invalid_list_that_is_accepted_is_seen(bad: Misshapen) -> None:
    trace = TraceWriter().initialize(a_task("a"), bad)
    assert "S4" in trace.judge().axioms


def test_an_invalid_list_may_be_refused_at_any_time() -> None:
    trace = TraceWriter()
    trace.fail_initialize(trace.call_initialize(a_task(""))).judge().assert_ok()


def test_a_valid_list_that_is_refused_for_nothing_is_seen() -> None:
    trace = TraceWriter()
    trace.fail_initialize(trace.call_initialize(HOURLY))
    assert trace.judge().axioms == {"S5"}


def test_a_valid_list_may_be_refused_while_another_is_active() -> None:
    trace = TraceWriter().initialize(HOURLY)
    trace.fail_initialize(trace.call_initialize(HOURLY)).judge().assert_ok()


def test_a_valid_list_may_be_refused_while_a_stop_goes_on() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").start()
    stop = trace.call_stop()
    trace.fail_initialize(trace.call_initialize(HOURLY))
    trace.wait(seconds=3).succeed().return_stop(stop).judge().assert_ok()


def test_of_two_concurrent_initializes_either_may_be_refused() -> None:
    for refused_first in (True, False):
        trace = TraceWriter()
        first, second = trace.call_initialize(HOURLY), trace.call_initialize(HOURLY)
        winner, loser = (second, first) if refused_first else (first, second)
        trace.return_initialize(winner).fail_initialize(loser).judge().assert_ok()


def test_a_list_refused_after_a_failing_store_is_excused() -> None:
    trace = TraceWriter()
    call = trace.call_initialize(HOURLY)
    trace.fault().fail_initialize(call).judge().assert_ok()


def test_a_slow_store_does_not_cause_refusals() -> None:
    trace = TraceWriter()
    call = trace.call_initialize(HOURLY)
    trace.fault(MINUTE, failed=False).wait(minutes=1).fail_initialize(call)
    assert trace.judge().axioms == {"S5"}


def test_two_successful_initializes_in_a_row_are_seen() -> None:
    assert TraceWriter().initialize(HOURLY).initialize(HOURLY).judge().axioms == {"S6"}


def test_an_initialize_that_succeeds_before_stop_returned_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY)
    stop = trace.call_stop()
    trace.initialize(HOURLY).return_stop(stop)
    assert "S6" in trace.judge().axioms


def test_the_polling_edition_initializes_again_while_active() -> None:
    trace = TraceWriter().initialize(HOURLY).initialize(HOURLY).at("10:00").run().observe()
    trace.judge(edition=POLLING_EDITION).assert_ok()


def test_the_polling_edition_must_not_refuse_while_active() -> None:
    trace = TraceWriter().initialize(HOURLY)
    trace.fail_initialize(trace.call_initialize(HOURLY))
    assert trace.judge(edition=POLLING_EDITION).axioms == {"S5"}


def test_an_owed_start_that_never_comes_is_seen() -> None:
    verdict = TraceWriter().initialize(HOURLY).at("10:01").observe().judge(allowance=MINUTE / 2)
    assert verdict.axioms == {"L1"}
    (violation,) = verdict.violations
    assert violation.at.isoformat() == "2024-03-04T10:00:30+00:00"
    assert violation.task == "a"


def test_an_owed_start_within_the_allowance_is_not_judged_yet() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:01").observe()
    trace.judge(allowance=MINUTE).assert_ok()


def test_a_late_start_is_seen_although_it_came() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00:01").run().observe()
    assert trace.judge().axioms == {"L1"}


def test_a_stop_ends_what_is_owed_but_not_its_lateness() -> None:
    punctual = TraceWriter().initialize(HOURLY).at("10:00").stop().at("10:30").observe()
    punctual.judge().assert_ok()
    late = TraceWriter().initialize(HOURLY).at("10:00:01").stop().at("10:30").observe()
    assert late.judge().axioms == {"L1"}


def test_an_initialize_that_hangs_is_seen() -> None:
    trace = TraceWriter()
    trace.call_initialize(HOURLY)
    trace.wait(seconds=61).observe()
    assert trace.judge(allowance=MINUTE).axioms == {"L2"}


def test_an_initialize_that_returns_late_is_seen() -> None:
    trace = TraceWriter()
    call = trace.call_initialize(HOURLY)
    trace.wait(seconds=1).return_initialize(call)
    assert trace.judge().axioms == {"L2"}


def test_a_stop_that_hangs_with_nothing_running_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY)
    trace.call_stop()
    assert trace.wait(seconds=61).observe().judge(allowance=MINUTE).axioms == {"L3"}


def test_a_stop_has_time_from_the_end_of_the_last_run() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").start()
    stop = trace.call_stop()
    trace.at("12:00").succeed().return_stop(stop).judge().assert_ok()


def test_a_stop_that_returns_late_after_the_last_run_is_seen() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").start()
    stop = trace.call_stop()
    trace.at("12:00").succeed().wait(seconds=1).return_stop(stop)
    assert trace.judge().axioms == {"L3"}


def test_a_stop_that_fails_needs_a_failing_store_as_excuse() -> None:
    trace = TraceWriter().initialize(HOURLY)
    trace.fail_stop(trace.call_stop())
    assert trace.judge().axioms == {"L3"}
    excused = TraceWriter().initialize(HOURLY)
    call = excused.call_stop()
    excused.fault().fail_stop(call).judge().assert_ok()


def test_a_dead_instance_that_goes_on_is_seen() -> None:
    run = TraceWriter().initialize(HOURLY).at("10:00").start().crash().succeed()
    assert run.judge().axioms == {"T4"}
    call = TraceWriter()
    opened = call.call_initialize(HOURLY)
    assert call.crash().return_initialize(opened).judge().axioms == {"T4"}


def test_an_end_without_a_beginning_is_seen() -> None:
    assert TraceWriter().initialize(HOURLY).succeed().judge().axioms == {"EA7"}
    assert TraceWriter().return_stop(7).judge().axioms == {"EA7"}


def test_of_two_stops_the_second_may_return_after_a_new_initialize() -> None:
    trace = TraceWriter().initialize(HOURLY).at("10:00").start()
    first, second = trace.call_stop(), trace.call_stop()
    trace.wait(minutes=2).succeed().return_stop(first).initialize(HOURLY).return_stop(second)
    trace.at("11:00").run().observe().judge().assert_ok()
