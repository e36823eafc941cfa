"""What the reference model does is always in order; what is changed in it afterwards never is."""

from collections.abc import Callable, Sequence
from datetime import UTC, timedelta
from functools import cache
from random import Random
from typing import TypeAlias

import msgspec
import pytest
from tests.unit.verification.trace.reference_model import play
from tests.verification.trace import (
    Crashed,
    Entry,
    InitializeReturned,
    Observed,
    RunFailed,
    RunStarted,
    RunSucceeded,
    StopCalled,
    StopReturned,
    Tolerance,
    Verdict,
    check_trace,
)

Mutation: TypeAlias = Callable[[list[Entry], int], list[Entry]]
SECOND = timedelta(seconds=1)
SEEDS = range(40)


@cache
def story(seed: int) -> tuple[Entry, ...]:
    return tuple(play(seed))


def axioms_of(trace: list[Entry]) -> frozenset[str]:
    return frozenset(judge(trace).axioms)


def judge(trace: Sequence[Entry]) -> Verdict:
    """The model retries at once, and so nothing is tolerated."""
    strict = Tolerance(after_failure=timedelta())
    return check_trace(trace, zone=UTC, allowance=timedelta(), tolerance=strict)


def positions(trace: list[Entry], *kinds: type[Entry]) -> list[int]:
    return [position for position, entry in enumerate(trace) if isinstance(entry, kinds)]


def end_of(trace: list[Entry], start: int) -> int | None:
    """Where the run that starts here ends by itself; None when a crash or the trace ends it."""
    begun = trace[start]
    assert isinstance(begun, RunStarted)
    for position in range(start + 1, len(trace)):
        entry = trace[position]
        if isinstance(entry, Crashed):
            return None
        if isinstance(entry, RunSucceeded | RunFailed) and entry.name == begun.name:
            return position
    return None


def completed_starts(trace: list[Entry]) -> list[int]:
    return [start for start in positions(trace, RunStarted) if end_of(trace, start) is not None]


def shift(entry: Entry, by: timedelta) -> Entry:
    return msgspec.structs.replace(entry, at=entry.at + by)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_reference_model_is_always_in_order(seed: int) -> None:
    judge(story(seed)).assert_ok()


def test_the_stories_of_the_model_contain_everything() -> None:
    kinds = {type(entry) for seed in SEEDS for entry in story(seed)}
    assert kinds >= {RunStarted, RunSucceeded, RunFailed, StopReturned, Crashed, InitializeReturned}
    assert sum(len(story(seed)) for seed in SEEDS) > 5_000


def drop_run(trace: list[Entry], start: int) -> list[Entry]:
    end = end_of(trace, start)
    return [entry for position, entry in enumerate(trace) if position not in {start, end}]


def start_earlier(trace: list[Entry], start: int) -> list[Entry]:
    moved = shift(trace[start], -SECOND)
    rest = trace[:start] + trace[start + 1 :]
    place = next(index for index, entry in enumerate(rest) if entry.at > moved.at)
    return [*rest[:place], moved, *rest[place:]]


def start_later(trace: list[Entry], start: int) -> list[Entry]:
    moved = shift(trace[start], SECOND / 2)
    rest = trace[:start] + trace[start + 1 :]
    place = next(index for index, entry in enumerate(rest) if entry.at > moved.at)
    return [*rest[:place], moved, *rest[place:]]


def start_twice(trace: list[Entry], start: int) -> list[Entry]:
    return [*trace[: start + 1], *trace[start:]]


def run_again(trace: list[Entry], start: int) -> list[Entry]:
    """After its success the task runs once more, half a second later."""
    end = end_of(trace, start)
    assert end is not None
    again = [shift(trace[end], SECOND / 2), shift(trace[end], SECOND / 2)]
    begun = trace[start]
    assert isinstance(begun, RunStarted)
    again[0] = RunStarted(begun.name, at=again[1].at)
    place = next(index for index, entry in enumerate(trace) if entry.at > again[0].at)
    return [*trace[:place], *again, *trace[place:]]


def is_free(trace: list[Entry], start: int, until: timedelta) -> bool:
    """Whether the scheduler goes on undisturbed from this start to its end and so much longer."""
    end = end_of(trace, start)
    assert end is not None
    begun = trace[start]
    assert isinstance(begun, RunStarted)
    disturbances = (Crashed, StopCalled, Observed, InitializeReturned)
    return not any(
        isinstance(entry, disturbances)
        or (isinstance(entry, RunStarted) and entry.name == begun.name)
        for entry in trace[start + 1 :]
        if entry.at <= trace[end].at + until
    )


@pytest.mark.parametrize(
    ("mutate", "expected"),
    [
        (drop_run, {"L1"}),
        (start_earlier, {"S1"}),
        (start_later, {"L1"}),
        (start_twice, {"T2"}),
        (run_again, {"S1"}),
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_start_is_always_seen(seed: int, mutate: Mutation, expected: set[str]) -> None:
    trace = list(story(seed))
    candidates = [
        start
        for start in completed_starts(trace)
        if is_free(trace, start, SECOND) and not is_retried(trace, start)
    ]
    for start in Random(seed).sample(candidates, min(3, len(candidates))):
        assert axioms_of(mutate(trace, start)) & expected


def is_retried(trace: list[Entry], start: int) -> bool:
    """Whether the run fails: a further run might then be its retry."""
    end = end_of(trace, start)
    return end is not None and isinstance(trace[end], RunFailed)


def test_a_stop_that_returns_before_the_last_run_ended_is_always_seen() -> None:
    seen = 0
    for seed in SEEDS:
        trace = list(story(seed))
        for place in positions(trace, StopReturned):
            if isinstance(trace[place - 1], RunSucceeded | RunFailed):
                swapped = [*trace[: place - 1], trace[place], trace[place - 1], *trace[place + 1 :]]
                assert "S3" in axioms_of(swapped)
                seen += 1
    assert seen > 10


def retries(trace: list[Entry]) -> list[int]:
    """The starts that follow a failure of the same task and are completed undisturbed."""
    found, failed = [], set()
    for position, entry in enumerate(trace):
        if isinstance(entry, RunFailed):
            failed.add(entry.name)
        elif isinstance(entry, RunStarted) and entry.name in failed:
            failed.discard(entry.name)
            if end_of(trace, position) is not None and is_free(trace, position, SECOND):
                found.append(position)
    return found


def test_a_lost_retry_is_always_seen() -> None:
    seen = 0
    for seed in SEEDS:
        trace = list(story(seed))
        for start in retries(trace):
            assert "L1" in axioms_of(drop_run(trace, start))
            seen += 1
    assert seen > 50
