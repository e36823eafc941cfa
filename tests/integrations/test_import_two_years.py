"""Every fire of two years: Rota's against APScheduler's own, and a million of them at once."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from tests.unit.cli.test_imports import NOW, UTC_ZONE, apscheduler, crontab

from rota.cli.import_rule import ImportedSchedule
from rota.cli.imports import compare, find_window, list_ours


def aps_fires(fields: dict[str, Any], zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """What APScheduler itself computes."""
    trigger, previous, now = CronTrigger(timezone=zone, **fields), None, begin
    found: list[datetime] = []
    while True:
        at = trigger.get_next_fire_time(previous, now.astimezone(ZoneInfo(zone)))
        if at is None or at.astimezone(UTC) >= end:
            return found
        found.append(at.astimezone(UTC))
        previous, now = at, found[-1] + timedelta(milliseconds=1)


def accounted(schedule: ImportedSchedule) -> list[datetime]:
    """Rota's own fires, corrected by the differences that the report lists."""
    listed = compare(schedule, NOW).differences
    ours = set(list_ours(schedule, *find_window(schedule, NOW)))
    only_ours = {it.at for it in listed if it.is_ours}
    assert only_ours <= ours
    return sorted((ours - only_ours) | {it.at for it in listed if not it.is_ours})


APS_RULES: list[dict[str, Any]] = [
    {"hour": 1, "minute": 30},
    {"minute": 30, "month": "3,4,10"},
    {"day_of_week": "0", "hour": 9},
    {"day_of_week": "mon-fri", "hour": "8-18/5", "minute": "15"},
    {"day": "2nd fri", "hour": 9},
    {"day": "last", "hour": 23},
    {"day": "last sun", "hour": 1, "minute": 30},
    {"day": "13", "day_of_week": "fri", "hour": 9},
    {"week": "*/2", "day_of_week": "mon", "hour": 7},
    {"month": "1,7", "day": "1"},
    {"hour": "0-3", "minute": 15},
    {"hour": "1", "minute": "0,30"},
    {"hour": "0,2", "minute": "*/20", "second": "0,30", "day_of_week": "sun"},
]


@pytest.mark.parametrize("fields", APS_RULES, ids=str)
@pytest.mark.parametrize("zone", ["Europe/London", "Australia/Lord_Howe"])
def test_an_apscheduler_job_fires_as_apscheduler_says(fields: dict[str, Any], zone: str) -> None:
    written = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    found = apscheduler(f"'cron', {written}", zone)
    expected = aps_fires(fields, zone, *find_window(found, NOW))
    assert accounted(found) == expected
    assert compare(found, NOW).fire_count == len(expected)


def test_a_fire_that_apscheduler_misses_is_listed_with_the_reason() -> None:
    job = apscheduler("'cron', month='1,7', day=1", "Australia/Lord_Howe")
    (found,) = compare(job, NOW).differences
    assert (f"{found.at:%Y-%m-%d}", found.is_ours) == ("2027-12-31", True)
    assert found.reason.endswith("and APScheduler misses it")


def test_an_interval_of_apscheduler_passes_clock_changes_as_ours() -> None:
    found = apscheduler("'interval', hours=7, minutes=20")
    begin, end = find_window(found, NOW)
    trigger = IntervalTrigger(hours=7, minutes=20, start_date=begin, timezone="Europe/London")
    expected, at = [], trigger.get_next_fire_time(None, begin)
    while at < end:
        expected.append(at.astimezone(UTC))
        at = trigger.get_next_fire_time(at, at)
    assert list(list_ours(found, begin, end)) == expected
    assert compare(found, NOW).fire_count == len(expected)


def test_every_minute_of_two_years_is_compared() -> None:
    found = compare(crontab("* * * * *"), NOW)
    assert (found.fire_count, found.differences) == (731 * 1_440, [])


def test_a_single_wrong_fire_among_a_hundred_thousand_is_found() -> None:
    right = crontab("*/10 * * * *", UTC_ZONE)
    rrule = "FREQ=DAILY;BYHOUR=" + ",".join(map(str, range(24)))
    rrule += (
        ";BYMINUTE=" + ",".join(map(str, range(0, 60, 10))) + ";BYSECOND=0\nEXDATE:20280505T051000Z"
    )
    wrong = ImportedSchedule(**{**vars(right), "when": rrule})
    assert [it.at.isoformat() for it in compare(wrong, NOW).differences] == [
        "2028-05-05T05:10:00+00:00"
    ]
