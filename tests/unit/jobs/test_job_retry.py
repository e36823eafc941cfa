"""Whether and when a job is tried again."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.arbitrary import CHANCES, always, policies

from rota.errors import InvalidInputError
from rota.jobs import (
    RAIL_RETRIES,
    BackoffStrategy,
    RetryPolicy,
    retry_after,
    retry_delay,
    should_retry,
)
from rota.jobs.validation import read_retry_policy
from rota.testing import a_job

FIXED, LINEAR, EXPONENTIAL, LADDER = BackoffStrategy


@always
@given(policies(FIXED, LINEAR, EXPONENTIAL), st.integers(1, 200))
def test_a_delay_never_exceeds_the_cap_and_never_shrinks(policy: RetryPolicy, number: int) -> None:
    delay = retry_delay(policy, number)
    assert policy.base_delay_seconds <= delay <= policy.max_delay_seconds
    assert delay <= retry_delay(policy, number + 1)


@always
@given(policies(), st.integers(1, 40))
def test_a_delay_is_what_the_formula_says(policy: RetryPolicy, number: int) -> None:
    base, cap = policy.base_delay_seconds, policy.max_delay_seconds
    rungs = policy.ladder_seconds
    formulas = {
        FIXED: base,
        LINEAR: min(base * number, cap),
        EXPONENTIAL: min(base * 2 ** (number - 1), cap),
        LADDER: (rungs + (rungs[-1],) * 40)[number - 1],
    }
    assert retry_delay(policy, number) == formulas[policy.backoff_strategy]


@always
@given(policies(), st.integers(1, 40), CHANCES, CHANCES)
def test_jitter_is_never_early_and_adds_little(
    policy: RetryPolicy, number: int, chance: float, other: float
) -> None:
    exact = timedelta(seconds=retry_delay(policy, number))
    assert retry_after(policy, number) == exact
    jitter = retry_after(policy, number, chance) - exact
    most = min(exact / 10, timedelta(seconds=30)) + timedelta.resolution
    assert timedelta(0) <= jitter <= most
    if policy.backoff_strategy is not LADDER:
        assert jitter == timedelta(0)
    if chance <= other:
        assert retry_after(policy, number, chance) <= retry_after(policy, number, other)


def test_jitter_spreads_over_the_whole_of_its_room() -> None:
    seconds = [retry_after(RAIL_RETRIES, 1, chance / 10).total_seconds() for chance in range(10)]
    assert seconds == pytest.approx([60 + 0.6 * step for step in range(10)])
    assert retry_after(RAIL_RETRIES, 4, 0.999).total_seconds() == pytest.approx(3629.97)


def test_any_number_of_attempts_is_answered_at_once() -> None:
    assert retry_delay(RetryPolicy(), 10**18) == 300
    assert retry_delay(RAIL_RETRIES, 10**18) == 3600


@pytest.mark.parametrize("number", [0, -1])
def test_attempts_are_counted_from_one(number: int) -> None:
    with pytest.raises(InvalidInputError, match="attempt_number must be at least 1"):
        retry_delay(RetryPolicy(), number)


@pytest.mark.parametrize("chance", [-0.1, 1, 1.5, float("nan")])
def test_chance_is_a_share(chance: float) -> None:
    with pytest.raises(InvalidInputError, match="chance must be in"):
        retry_after(RAIL_RETRIES, 1, chance)


@always
@given(st.integers(0, 20), st.integers(1, 10))
def test_a_job_is_retried_while_it_has_attempts_left(count: int, most: int) -> None:
    job = a_job(attempt_count=count, retry_policy=RetryPolicy(max_attempts=most))
    assert should_retry(job) is (count < most)


def test_the_retries_of_the_rail_are_those_of_its_specification() -> None:
    assert RAIL_RETRIES.max_attempts == 5
    assert read_retry_policy(RAIL_RETRIES) is RAIL_RETRIES
