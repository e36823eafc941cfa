from datetime import timedelta

import pytest

from rota.cli.output import format_duration, format_milliseconds


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(seconds=0.9), "0s"),
        (timedelta(seconds=59), "59s"),
        (timedelta(minutes=1), "1m"),
        (timedelta(minutes=59, seconds=59), "59m 59s"),
        (timedelta(hours=3, minutes=20, seconds=59), "3h 20m"),
        (timedelta(hours=23, seconds=59), "23h"),
        (timedelta(days=5, hours=2), "5d 2h"),
        (timedelta(days=9, hours=23, minutes=59), "9d 23h"),
        (timedelta(days=133, hours=23), "133d"),
        (timedelta(days=40_000), "40000d"),
    ],
)
def test_a_duration_is_cut_to_its_two_largest_units(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0.0ms"),
        (0.44, "0.4ms"),
        (38.4, "38ms"),
        (1_240, "1.2s"),
        (20_338.04, "20.3s"),
        (83_000, "1m 23s"),
    ],
)
def test_short_durations_are_shown_in_fitting_units(milliseconds: float, text: str) -> None:
    assert format_milliseconds(milliseconds) == text
