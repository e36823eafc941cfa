"""What the README says about other libraries is true of the versions that are pinned here."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim, CronSimError
from dateutil.rrule import rrulestr

Walk = Callable[[str, datetime], Iterator[datetime]]

LONDON = ZoneInfo("Europe/London")
SPRING = datetime(2027, 3, 28, tzinfo=LONDON)
"""01:00 to 02:00 is skipped."""

AUTUMN = datetime(2027, 10, 31, tzinfo=LONDON)
"""01:00 to 02:00 is shown twice."""


def by_croniter(expression: str, start: datetime) -> Iterator[datetime]:
    found = croniter(expression, start)
    while True:
        yield found.get_next(datetime)


def by_cronsim(expression: str, start: datetime) -> Iterator[datetime]:
    yield from CronSim(expression, start)


def by_apscheduler(expression: str, start: datetime) -> Iterator[datetime]:
    """As its scheduler does: asked again a moment after each run."""
    trigger = CronTrigger.from_crontab(expression, timezone=LONDON)
    previous, now = None, start
    while True:
        previous = trigger.get_next_fire_time(previous, now)
        yield previous
        now = (previous.astimezone(UTC) + timedelta(milliseconds=5)).astimezone(LONDON)


def by_dateutil(_: str, start: datetime) -> Iterator[datetime]:
    yield from rrulestr("FREQ=DAILY", dtstart=start.replace(hour=1, minute=30))


def shown(walk: Walk, midnight: datetime, expression: str = "30 1 * * *") -> list[str]:
    """The occurrences of one day in London, in UTC: summer time is an hour ahead of it."""
    instants = (found.astimezone(UTC) for found in islice(walk(expression, midnight), 60))
    end = (midnight + timedelta(days=1)).astimezone(UTC)
    return [f"{instant:%H:%M}" for instant in instants if instant < end]


@pytest.mark.parametrize(
    ("walk", "in_spring", "in_autumn"),
    [
        (by_apscheduler, ["01:30"], ["00:30", "01:30"]),  # later by the gap; both
        (by_croniter, ["01:00"], ["00:30", "01:30"]),  # at the end of the gap; both
        (by_cronsim, ["01:00"], ["00:30"]),  # at the end of the gap; the first
        (by_dateutil, ["01:30"], ["00:30"]),  # later by the gap; the first
    ],
)
def test_half_past_one_when_the_clocks_change(
    walk: Walk, in_spring: list[str], in_autumn: list[str]
) -> None:
    assert shown(walk, SPRING) == in_spring
    assert shown(walk, AUTUMN) == in_autumn


def test_an_hourly_rule_of_dateutil_loses_the_repeated_hour() -> None:
    rule = rrulestr("FREQ=HOURLY", dtstart=AUTUMN)
    first = [f"{found.astimezone(UTC):%H:%M}" for found in islice(rule, 4)]
    assert first == ["23:00", "00:00", "02:00", "03:00"]


def test_an_expression_that_is_never_due() -> None:
    never = "0 0 31 2 *"
    assert CronTrigger.from_crontab(never).get_next_fire_time(None, SPRING) is None
    with pytest.raises(CroniterBadDateError):
        croniter(never, SPRING).get_next(datetime)
    with pytest.raises(CronSimError):
        CronSim(never, SPRING)
