"""Many durations in a few numbers."""

from statistics import quantiles

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.telemetry.stats import BOUNDS_MS, DurationCount, DurationStats

STEADY = settings(deadline=None, derandomize=True)
milliseconds = st.floats(0, 10_000_000)


def tally_of(durations: list[float]) -> DurationStats:
    counted = DurationCount()
    for each in durations:
        counted.add(each)
    return counted.freeze()


def test_of_no_durations_nothing_is_said() -> None:
    nothing = DurationStats()
    assert (nothing.p50_ms, nothing.p95_ms, nothing.mean_ms) == (None, None, None)


@STEADY
@given(st.lists(milliseconds), st.lists(milliseconds))
def test_two_that_are_added_are_what_one_would_have_counted(
    some: list[float], others: list[float]
) -> None:
    together, added = tally_of(some + others), tally_of(some) + tally_of(others)
    assert added.buckets == together.buckets
    assert (added.count, added.longest_ms) == (together.count, together.longest_ms)
    assert added.sum_ms == pytest.approx(together.sum_ms)


@STEADY
@given(st.lists(milliseconds, min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_in_the_bucket_in_which_it_really_is(
    durations: list[float], share: float
) -> None:
    found = tally_of(durations).quantile(share)
    ordered = sorted(durations)
    real = ordered[max(-int(-share * len(ordered) // 1) - 1, 0)]
    low = max((bound for bound in BOUNDS_MS if bound < real), default=0.0)
    high = min((bound for bound in BOUNDS_MS if bound >= real), default=ordered[-1])
    assert found is not None
    assert low <= found <= high
    assert found <= ordered[-1]


def test_a_median_is_about_that_of_the_durations() -> None:
    durations = [float(each) for each in range(1, 1_000)]
    recorder = tally_of(durations)
    assert recorder.p50_ms == pytest.approx(quantiles(durations, n=2)[0], rel=0.02)
    assert recorder.p95_ms == pytest.approx(quantiles(durations, n=20)[-1], rel=0.02)
    assert recorder.mean_ms == pytest.approx(500)
