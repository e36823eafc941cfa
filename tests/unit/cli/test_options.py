import math
from collections.abc import Callable

import pytest
from cyclopts.validators import Number

from rota.cli.options import Check, bounds

PAIRS = [
    (bounds(least=1), Number(gte=1)),
    (bounds(least=0.5, most=3600), Number(gte=0.5, lte=3600)),
    (bounds(above=0, most=60), Number(gt=0, lte=60)),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("number", [None, -1, 0, 0.5, 1, 60, 61, 3600, 3601, math.inf, math.nan])
def test_numbers_are_judged_as_by_the_validator_of_cyclopts(
    ours: Check, theirs: Number, number: float | None
) -> None:
    assert _refusal(ours, number) == _refusal(theirs, number)


def _refusal(check: Callable[[object, float | None], None], number: float | None) -> str | None:
    try:
        check(float, number)
    except ValueError as error:
        return str(error)
    return None
