"""Registrations; the refusals are in tests/spec/1/test_registrations.py."""

from datetime import timedelta

import pytest

from rota.scheduler.registration import accept_registrations, count_registrations

MINUTE = timedelta(minutes=1)


async def nothing() -> None:
    """A callback."""


def test_equal_expressions_are_parsed_once() -> None:
    one, two, three = accept_registrations(
        [
            ("a", "0 9 * * *", nothing, MINUTE),
            ("b", "0 9 * * *", nothing, MINUTE),
            ("c", "0  9 * * *", nothing, MINUTE),
        ],
        "posix",
    )
    assert one.cron is two.cron
    assert one.cron is not three.cron
    assert three.cron.text == "0  9 * * *"


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (timedelta(0), 0),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=1000), 1),
        (timedelta(microseconds=1001), 2),
    ],
)
def test_a_delay_is_rounded_up_to_milliseconds(delay: timedelta, expected: int) -> None:
    (task,) = accept_registrations([("a", "* * * * *", nothing, delay)], "posix")
    assert task.retry_delay_ms == expected


def test_an_empty_expression_counts_as_missing() -> None:
    assert count_registrations([1, 2]) == 2
    assert count_registrations(None) == 0
    assert count_registrations(iter([1])) == 0
