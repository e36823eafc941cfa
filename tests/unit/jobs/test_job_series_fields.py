"""A recurrence, from a record or from a mapping, with its trigger tried out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from tests.unit.jobs.arbitrary import always, recurrences

from rota.errors import InvalidJobError
from rota.jobs import Recurrence, first_occurrence
from rota.jobs.validation import read_recurrence

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def refused(value: Any) -> str:
    with pytest.raises(InvalidJobError) as refusal:
        read_recurrence(value, NOW)
    return refusal.value.message


@always
@given(recurrences())
def test_a_recurrence_is_kept_with_its_first_occurrence(recurrence: Recurrence) -> None:
    first = first_occurrence(recurrence)
    if first is None:
        assert refused(recurrence) == "recurrence has no occurrence between its start and its end"
    else:
        assert read_recurrence(recurrence, NOW) == (recurrence, first)


def test_a_mapping_may_leave_out_all_but_when() -> None:
    kept, first = read_recurrence({"interval": "1h30m"}, NOW)
    assert kept == Recurrence(interval="1h30m", zone="UTC", start=NOW)
    assert first == NOW


def test_a_mapping_may_say_everything() -> None:
    fields = {
        "cron": "0 9 * * *",
        "zone": "Europe/London",
        "start": "2026-05-03T00:00:00Z",
        "until": "2026-06-01T00:00:00+02:00",
        "count": 9,
        "gap": "shift",
        "fold": "first",
        "overlap": "queue",
    }
    kept, first = read_recurrence(fields, NOW)
    assert kept == Recurrence(
        cron="0 9 * * *",
        zone="Europe/London",
        start=datetime(2026, 5, 3, tzinfo=UTC),
        until=datetime(2026, 5, 31, 22, tzinfo=UTC),
        count=9,
        gap="shift",
        fold="first",
        overlap="queue",
    )
    assert first == datetime(2026, 5, 3, 8, tzinfo=UTC)


def test_nothing_occurs_before_the_start_not_even_by_a_fraction_of_a_second() -> None:
    for late in (TICK, timedelta(seconds=1) - TICK):
        kept, first = read_recurrence({"rrule": "FREQ=DAILY"}, NOW + late)
        assert kept.start == first == NOW + timedelta(seconds=1)
    assert read_recurrence({"rrule": "FREQ=DAILY"}, NOW)[1] == NOW


def test_an_overlap_of_nothing_is_the_default() -> None:
    assert read_recurrence({"interval": "1h", "overlap": None}, NOW)[0].overlap == "skip"


def test_a_rule_may_bring_its_own_start() -> None:
    text = "DTSTART;TZID=Europe/London:20260601T090000\nRRULE:FREQ=DAILY;COUNT=2"
    kept, first = read_recurrence({"rrule": text, "zone": "Europe/London"}, NOW)
    assert kept.start == first == datetime(2026, 6, 1, 8, tzinfo=UTC)
    assert refused({"rrule": text, "zone": "UTC"}).startswith("recurrence.rrule is refused: ")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("daily", "recurrence must be an object, got str"),
        ({}, "recurrence must have exactly one of cron, rrule, interval"),
        (
            {"cron": "* * * * *", "interval": "1h"},
            "recurrence must have exactly one of cron, rrule, interval",
        ),
        ({"cron": 5}, "recurrence.cron must be a text, got int"),
        ({"cron": ""}, "recurrence.cron must have 1 to 8192 characters, got 0"),
        ({"rrule": "x" * 8193}, "recurrence.rrule must have 1 to 8192 characters, got 8193"),
        ({"rrule": "x" * 8192}, "recurrence.rrule is refused: Invalid recurrence rule"),
        ({"cron": "x"}, "recurrence.cron is refused: Invalid cron expression"),
        ({"interval": "1h", "zone": 5}, "recurrence.zone must be the name of a time zone, got int"),
        ({"interval": "1h", "until": "later"}, "recurrence.until must be an instant with"),
        ({"interval": "1h", "start": 5}, "recurrence.start must be an instant, got int"),
        ({"interval": "1h", "count": 0}, "recurrence.count must be from 1 to 100000, got 0"),
        ({"interval": "1h", "gap": "jump"}, "recurrence.gap must be one of skip, shift"),
        ({"interval": "1h", "fold": ["first"]}, "recurrence.fold must be one of first, both"),
        ({"interval": "1h", "overlap": "pile"}, "recurrence.overlap must be one of skip, queue, "),
        ({"interval": "1h", "colour": 1}, "recurrence.colour is not a field"),
        ({"interval": "soon"}, "recurrence.interval is refused: "),
        (
            {"interval": "1h", "zone": "Mars/Olympus"},
            "recurrence.zone is refused: Unknown time",
        ),
        ({"cron": "61 * * * *"}, 'recurrence.cron is refused: Invalid cron expression "61'),
        ({"rrule": "FREQ=SOMETIMES"}, "recurrence.rrule is refused: Invalid recurrence rule"),
        (
            {"rrule": "FREQ=DAILY;UNTIL=20200101"},
            "recurrence has no occurrence between its start and its end",
        ),
    ],
)
def test_another_recurrence_is_refused_by_its_field(value: Any, message: str) -> None:
    assert refused(value).startswith(message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"jitter": 5}, "recurrence.jitter must be a duration such as 30s or 5m, got int"),
        ({"jitter": "soon"}, 'recurrence.jitter must be a duration such as 30s or 5m, got "soon"'),
        ({"jitter": "24h1s"}, 'recurrence.jitter must be at most 24h, got "24h1s"'),
        (
            {"jitter": "x" * 41},
            f'recurrence.jitter must be a duration such as 30s or 5m, got "{"x" * 40}"',
        ),
        (
            {"jitter": "2h"},
            "recurrence.jitter must be shorter than the time between occurrences, which is 2:00:00",
        ),
        ({"alert_after": 5}, "recurrence.alert_after must be a duration such as 30m or 26h, got"),
        (
            {"alert_after": "3h", "overlap": "allow"},
            'recurrence.alert_after cannot be combined with overlap "allow"; use skip or queue',
        ),
        ({"start": "9999-12-30T00:00:00Z"}, "recurrence.start must be before 9999-12-30"),
        ({"unmet_since": None}, "recurrence.unmet_since is not a field"),
        ({"is_continued": True}, "recurrence.is_continued is not a field"),
        ({"x" * 41: 1}, f"recurrence.{'x' * 40} is not a field"),
    ],
)
def test_what_goes_with_an_interval_is_refused_by_its_field(
    fields: dict[str, Any], message: str
) -> None:
    assert refused({"interval": "2h", **fields}).startswith(message)


def test_a_jitter_is_shorter_than_every_pause_and_at_most_a_day() -> None:
    kept, first = read_recurrence({"interval": "2h", "jitter": "1h59m59s"}, NOW)
    assert (kept.jitter, first) == ("1h59m59s", NOW)
    assert read_recurrence({"interval": "25h", "jitter": "24h"}, NOW)[0].jitter == "24h"
    once = {"rrule": "FREQ=DAILY;COUNT=1", "jitter": "24h"}
    assert read_recurrence(once, NOW)[0].jitter == "24h"


def test_a_zone_in_front_of_a_cron_expression_is_settled_with_the_other() -> None:
    kept, _ = read_recurrence({"cron": "CRON_TZ=Europe/London 0 9 * * *"}, NOW)
    assert (kept.cron, kept.zone) == ("0 9 * * *", "Europe/London")
    bad = {"cron": "CRON_TZ=Mars/Olympus 0 9 * * *"}
    assert refused(bad).startswith("recurrence.cron is refused: Invalid cron expression")
    other = {"cron": "CRON_TZ=Europe/London 0 9 * * *", "zone": "UTC"}
    assert refused(other).startswith("recurrence.zone ")
    assert not refused(other).startswith("recurrence.zone zone")
