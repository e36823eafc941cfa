"""Lengths of time as people write them."""

from datetime import timedelta

import pytest

from rota.clock.duration import read_duration
from rota.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("250ms", 0.25), ("1.5h", 5400)],
)
def test_text_is_read(text: str, seconds: float) -> None:
    assert read_duration(text, "delay") == timedelta(seconds=seconds)


def test_a_timedelta_is_itself() -> None:
    assert read_duration(timedelta(minutes=3), "delay") == timedelta(minutes=3)


@pytest.mark.parametrize(
    "value", [30, "30", "", "1x", "-3s", timedelta(-1), None, "1h 30m", "9" * 80]
)
def test_anything_else_is_refused_with_the_fix(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"delay: .* is not a length of time.*'1h30m'"):
        read_duration(value, "delay")
