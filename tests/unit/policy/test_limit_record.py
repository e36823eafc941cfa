"""What may be limited, and how."""

from datetime import timedelta
from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.policy.limits import Limit, Rate

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tenant": "a b", "running": 1}, "tenant"),
        ({"tenant": "", "running": 1}, "tenant"),
        ({"queue": "a/b", "running": 1}, "queue"),
        ({"running": -1}, "running"),
        ({"running": True}, "running"),
        ({"running": 2**40}, "running"),
        ({}, "running"),
        ({"tenant": "a", "queue": "x"}, "running"),
        ({"rate": 5}, "rate"),
        ({"queue": "x", "ageing": timedelta(0)}, "ageing"),
        ({"queue": "x", "ageing": 60}, "ageing"),
        ({"ageing": MINUTE}, "ageing"),
        ({"tenant": "a", "queue": "x", "ageing": MINUTE}, "ageing"),
    ],
)
def test_a_limit_without_sense_names_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        Limit(**fields)
    assert refusal.value.details["field"] == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"count": 0}, "rate.count"),
        ({"count": 1.5}, "rate.count"),
        ({"burst": 0}, "rate.burst"),
        ({"per": timedelta(0)}, "rate.per"),
        ({"per": timedelta(days=400)}, "rate.per"),
        ({"per": 60}, "rate.per"),
    ],
)
def test_a_rate_without_sense_names_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        Rate(**{"count": 1, "per": MINUTE, **fields})
    assert refusal.value.details["field"] == field


def test_a_burst_that_is_left_out_is_the_count_of_a_period() -> None:
    assert Rate(count=7, per=MINUTE).most == 7
    assert Rate(count=7, per=MINUTE, burst=2).most == 2
