"""Several instances on one store: each occurrence once, and never two runs at a time."""

from datetime import UTC, datetime, timedelta

from tests.unit.verification.trace_writer import MONDAY, TraceWriter, a_task
from tests.verification.trace import REPLICA_TOLERANCE, Entry, Tolerance, Verdict, check_replicas

HOURLY = a_task("a", "0 * * * *")
STRICT = Tolerance(after_crash=timedelta(seconds=30))


def two(start: datetime = MONDAY) -> tuple[TraceWriter, TraceWriter]:
    left, right = TraceWriter(start, "left"), TraceWriter(start, "right")
    return left.initialize(HOURLY), right.initialize(HOURLY)


def judge(*writers: TraceWriter, tolerance: Tolerance = STRICT) -> Verdict:
    traces: list[list[Entry]] = [writer.entries for writer in writers]
    return check_replicas(traces, zone=UTC, allowance=timedelta(seconds=1), tolerance=tolerance)


def test_each_occurrence_may_be_started_by_either() -> None:
    left, right = two()
    left.at("10:00").run()
    right.at("11:00").run().at("11:30").observe()
    judge(left, right).assert_ok()


def test_an_occurrence_started_by_both_is_seen() -> None:
    left, right = two()
    left.at("10:00").run()
    right.at("10:00:00.2").run()
    verdict = judge(left, right)
    assert verdict.axioms == {"S1", "S2"}
    assert "last start 2024-03-04 10:00:00Z in 'left'" in verdict.violations[0].message


def test_a_task_that_runs_in_both_at_once_is_seen() -> None:
    left, right = two()
    left.at("10:00").start().at("11:00:05").succeed()
    right.at("11:00").start()
    assert "T2" in judge(left, right).axioms


def test_an_occurrence_that_neither_starts_is_seen() -> None:
    left, right = two()
    left.at("10:00").run()
    right.at("11:01").observe()
    assert judge(left, right).axioms == {"L1"}


def test_one_that_joins_does_not_make_the_others_punctual() -> None:
    left = TraceWriter(MONDAY, "left").initialize(HOURLY)
    right = TraceWriter(MONDAY, "right").at("10:00:01").initialize(HOURLY)
    left.at("10:00:02").run()
    assert judge(left, right).axioms == {"L1"}


def test_the_runs_of_a_dead_replica_are_taken_over_in_time() -> None:
    left, right = two()
    left.at("10:00").start().at("10:10").crash()
    right.at("10:10:31").run().at("10:30").observe()
    judge(left, right).assert_ok()
    left, right = two()
    left.at("10:00").start().at("10:10").crash()
    right.at("10:12").run().at("10:30").observe()
    assert judge(left, right).axioms == {"L1"}


def test_a_run_of_a_living_one_is_not_taken_over() -> None:
    left, right = two()
    left.at("10:00").start().at("10:30").succeed()
    right.at("10:10").run()
    assert "T2" in judge(left, right).axioms


def test_a_crash_of_one_leaves_the_others_active() -> None:
    left, right = two()
    left.at("9:59:40").crash()
    right.at("10:00").run().at("11:00").run().at("11:30").observe()
    judge(left, right).assert_ok()


def test_a_stop_of_one_leaves_the_others_active() -> None:
    left, right = two()
    left.at("9:59:40").stop()
    right.at("10:01").observe()
    assert judge(left, right).axioms == {"L1"}


def test_a_stop_waits_only_for_its_own_runs() -> None:
    left, right = two()
    left.at("10:00").start().at("10:20").succeed()
    right.at("10:10").stop()
    judge(left, right).assert_ok()


def test_a_claim_just_before_the_next_minute_leaves_that_minute_owed_if_tolerated() -> None:
    task = a_task("a", "0,1 * * * *")
    left = TraceWriter(MONDAY, "left").initialize(task)
    right = TraceWriter(MONDAY, "right").initialize(task)
    left.at("10:00").run().at("10:01:00").run()
    right.at("10:01:00.1").run().at("10:01:30").observe()
    judge(left, right, tolerance=REPLICA_TOLERANCE).assert_ok()
    assert judge(left, right).axioms == {"S1", "S2"}
