"""A retry policy, from a record or from a mapping that may leave things out."""

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import asdict
from tests.unit.jobs.arbitrary import always, policies

from rota.errors import InvalidJobError
from rota.jobs import BackoffStrategy, RetryPolicy
from rota.jobs.validation import read_retry_policy

STRATEGIES = "FIXED, LINEAR, EXPONENTIAL, LADDER"
FIELDS = "max_attempts, backoff_strategy, base_delay_seconds, max_delay_seconds, ladder_seconds"


def refused(value: Any) -> str:
    with pytest.raises(InvalidJobError) as refusal:
        read_retry_policy(value)
    return refusal.value.message


@always
@given(policies())
def test_a_valid_policy_is_kept_in_either_form(policy: RetryPolicy) -> None:
    assert read_retry_policy(policy) == policy
    assert read_retry_policy(asdict(policy)) == policy
    assert read_retry_policy(asdict(policy) | {"ladder_seconds": list(policy.ladder_seconds)}) == (
        policy
    )


def test_missing_fields_take_their_defaults() -> None:
    defaults = RetryPolicy(
        max_attempts=3,
        backoff_strategy=BackoffStrategy.EXPONENTIAL,
        base_delay_seconds=10,
        max_delay_seconds=300,
    )
    assert read_retry_policy({}) == defaults
    assert read_retry_policy({"max_attempts": 7}) == RetryPolicy(max_attempts=7)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"max_attempts": 0}, "retry_policy.max_attempts must be from 1 to 10, got 0"),
        ({"max_attempts": 11}, "retry_policy.max_attempts must be from 1 to 10, got 11"),
        ({"max_attempts": True}, "retry_policy.max_attempts must be an integer, got bool"),
        ({"base_delay_seconds": 0}, "retry_policy.base_delay_seconds must be from 1 to 300, got 0"),
        (
            {"base_delay_seconds": 301},
            "retry_policy.base_delay_seconds must be from 1 to 300, got 301",
        ),
        ({"max_delay_seconds": 9}, "retry_policy.max_delay_seconds must be from 10 to 3600, got 9"),
        (
            {"max_delay_seconds": 3601},
            "retry_policy.max_delay_seconds must be from 10 to 3600, got 3601",
        ),
        (
            RetryPolicy(base_delay_seconds=20, max_delay_seconds=19),
            "retry_policy.max_delay_seconds must be from 20 to 3600, got 19",
        ),
        (
            {"backoff_strategy": "SOMETIMES"},
            f"retry_policy.backoff_strategy must be one of {STRATEGIES}, got 'SOMETIMES'",
        ),
        (
            {"backoff_strategy": ["FIXED"]},
            f"retry_policy.backoff_strategy must be one of {STRATEGIES}, got list",
        ),
        (None, "retry_policy must be an object, got nothing"),
        ({"ladder_seconds": 5}, "retry_policy.ladder_seconds must be a list, got int"),
        ({"ladder_seconds": "5"}, "retry_policy.ladder_seconds must be a list, got str"),
        ({"ladder_seconds": []}, "retry_policy.ladder_seconds must have 1 to 10 delays, got 0"),
        (
            {"ladder_seconds": [1] * 11},
            "retry_policy.ladder_seconds must have 1 to 10 delays, got 11",
        ),
        (
            {"ladder_seconds": [1, 0]},
            "retry_policy.ladder_seconds[1] must be from 1 to 604800, got 0",
        ),
        ({"colour": 1}, f"retry_policy.colour is not a field; the fields are {FIELDS}"),
        ({5: 1}, f"retry_policy.5 is not a field; the fields are {FIELDS}"),
        ("FIXED", "retry_policy must be an object, got str"),
    ],
)
def test_another_policy_is_refused_by_its_field(value: Any, message: str) -> None:
    assert refused(value) == message


def test_defaults_are_filled_in_before_delays_are_compared() -> None:
    assert read_retry_policy({"base_delay_seconds": 300}).max_delay_seconds == 300
    assert "from 10 to 3600" in refused({"max_delay_seconds": 5})
