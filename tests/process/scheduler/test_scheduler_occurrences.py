"""The count of starts can fail: it finds what it is there to find, and nothing else."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.process.occurrences import find_miscounts
from tests.verification.trace import Crashed, Entry, InitializeReturned, RunStarted, RunSucceeded

TEN = datetime(2024, 3, 4, 10, tzinfo=UTC)
WINDOW = (TEN - timedelta(minutes=1), TEN + timedelta(minutes=15))
EXPRESSIONS = {"a": "0,5,10,15 * * * *"}


def at(minute: float) -> datetime:
    return TEN + timedelta(minutes=minute)


def begin(instance: str, minute: float = -1) -> Entry:
    return InitializeReturned(1, at=at(minute), instance=instance)


def start(minute: float, instance: str = "left") -> Entry:
    return RunStarted("a", at=at(minute), instance=instance)


def run(minute: float, instance: str = "left") -> list[Entry]:
    return [start(minute, instance), RunSucceeded("a", at=at(minute + 0.5), instance=instance)]


def crash(minute: float, instance: str = "left") -> Entry:
    return Crashed(at=at(minute), instance=instance)


def count_miscounts(*entries: Entry, unstored_for: timedelta = timedelta()) -> int:
    trace = sorted([begin("left"), begin("right"), *entries], key=lambda entry: entry.at)
    return len(list(find_miscounts(trace, EXPRESSIONS, WINDOW, unstored_for)))


def test_one_start_each_is_in_order_from_any_instance() -> None:
    assert count_miscounts(*run(0), *run(5.2, "right"), *run(14.9)) == 0


def test_a_start_that_is_missing_is_found() -> None:
    assert count_miscounts(*run(0), *run(10)) == 1


def test_a_start_made_by_two_is_found() -> None:
    assert count_miscounts(*run(0), *run(0.1, "right"), *run(5), *run(10)) == 1


def test_a_start_before_it_is_due_is_found() -> None:
    assert count_miscounts(*run(0), *run(4.99), *run(10)) == 2


def test_a_run_that_was_cut_off_may_be_started_again_and_then_once() -> None:
    cut = [start(0), crash(0.2)]
    assert count_miscounts(*cut, *run(0.4, "right"), *run(5, "right"), *run(10, "right")) == 0
    twice = [*run(0.4, "right"), *run(1.4, "right")]
    assert count_miscounts(*cut, *twice, *run(5, "right"), *run(10, "right")) == 1


def test_a_restart_also_answers_what_fell_due_since() -> None:
    cut = [*run(0), start(4.8), crash(4.9), *run(5.1, "right")]
    assert count_miscounts(*cut, *run(6, "right"), *run(10, "right")) == 2


@pytest.mark.parametrize(("unstored_for", "count"), [(0, 1), (30, 0)])
def test_a_run_that_ended_just_before_the_crash_may_be_unknown(
    unstored_for: int, count: int
) -> None:
    ended = [*run(0), crash(0.6), *run(0.8, "right"), *run(5, "right"), *run(10, "right")]
    assert count_miscounts(*ended, unstored_for=timedelta(seconds=unstored_for)) == count


def test_events_after_a_crash_are_not_demanded() -> None:
    dead = [crash(4.9), crash(5.1, "right"), begin("third", 5.5)]
    assert count_miscounts(*run(0), *dead, *run(10, "third")) == 0
