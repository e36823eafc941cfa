import math

import pytest

from rota.cli.options import bounds

AT_LEAST_ONE = "must be at least 1"
WITHIN = "must be from 0.5 to 3600"
ABOVE_ZERO = "must be more than 0 and at most 60"


@pytest.mark.parametrize(
    ("limits", "allowed", "refused", "reason"),
    [
        ({"least": 1}, [1, 60, math.inf], [-1, 0, 0.5, math.nan], AT_LEAST_ONE),
        ({"least": 0.5, "most": 3600}, [0.5, 3600], [0, 3601, math.inf, math.nan], WITHIN),
        ({"above": 0, "most": 60}, [0.5, 60], [-1, 0, 61, math.inf, math.nan], ABOVE_ZERO),
    ],
)
def test_numbers_beyond_the_bounds_are_refused_with_the_bounds(
    limits: dict[str, float], allowed: list[float], refused: list[float], reason: str
) -> None:
    check = bounds(**limits)
    for number in (None, *allowed):
        check(float, number)
    for number in refused:
        with pytest.raises(ValueError, match=reason):
            check(float, number)
