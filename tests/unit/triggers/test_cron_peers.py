"""Other libraries: the same answers where the dialects agree, and the known differences.

The differences at changes of the clocks are the rows of docs/guide/daylight-saving.md that name
a library which can be run here.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger as PeerTrigger
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim
from tests.unit.triggers.brute_force import posix_expression

from rota.errors import InvalidCronExpressionError
from rota.triggers.cron import Cron, parse_cron

Occurrences = Iterator[datetime]


def of_rota(cron: Cron, start: datetime, count: int) -> list[datetime]:
    return list(cron.between(start, start + timedelta(days=20_000), UTC, limit=count))


def of_cronsim(text: str, start: datetime) -> Occurrences:
    return CronSim(text, start)


def of_croniter(text: str, start: datetime) -> Occurrences:
    return croniter(text, start).all_next(datetime)  # type: ignore[no-any-return]  # untyped


def of_apscheduler(text: str, start: datetime) -> Occurrences:
    trigger = PeerTrigger.from_crontab(text, start.tzinfo)
    found = trigger.get_next_fire_time(None, start)
    while True:
        yield found
        found = trigger.get_next_fire_time(found, found)


@pytest.mark.parametrize("seed", range(4))
def test_strict_expressions_mean_what_cronsim_and_croniter_say(seed: int) -> None:
    random = Random(seed)
    compared = 0
    while compared < 150:
        text = posix_expression(random)
        if is_misread_by_croniter(text):
            continue
        try:
            cron = parse_cron(text)
        except InvalidCronExpressionError:
            continue
        start = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=random.randint(0, 5_000_000))
        expected = of_rota(cron, start, 3)
        for peer in (of_cronsim, of_croniter):
            occurrences = peer(text, start)
            assert [next(occurrences) for _ in expected] == expected, (text, start, peer)
        compared += 1


def is_misread_by_croniter(text: str) -> bool:
    """A range of one number, such as 5-5, which croniter takes for the whole field."""
    return any(low == high for low, high in re.findall(r"(\d+)-(\d+)", text))


def test_a_range_of_one_number_is_that_number_and_not_the_whole_field() -> None:
    start = datetime(2026, 5, 1, tzinfo=UTC)
    text = "0 5-5 * * *"
    (ours,) = of_rota(parse_cron(text), start, 1)
    assert ours == next(of_cronsim(text, start)) == start.replace(hour=5)
    assert next(of_croniter(text, start)) == start.replace(hour=1)


def test_dates_that_no_year_has_are_refused_when_parsed_and_not_when_asked() -> None:
    with pytest.raises(InvalidCronExpressionError):
        parse_cron("0 0 31 2 *")
    late = croniter("0 0 31 2 *", datetime(2026, 5, 1, tzinfo=UTC))
    with pytest.raises(CroniterBadDateError):
        late.get_next(datetime)


def test_seven_is_not_a_weekday_but_cronsim_and_croniter_read_sunday() -> None:
    start = datetime(2026, 5, 1, tzinfo=UTC)
    with pytest.raises(InvalidCronExpressionError):
        parse_cron("0 0 * * 7")
    assert next(of_cronsim("0 0 * * 7", start)).isoweekday() == 7
    assert next(of_croniter("0 0 * * 7", start)).isoweekday() == 7


def test_a_step_restricts_a_day_field_but_not_for_cronsim() -> None:
    start = datetime(2026, 5, 1, tzinfo=UTC)
    text = "0 0 */2 * 1"
    (ours,) = of_rota(parse_cron(text, "extended"), start, 1)
    assert ours.day == next(of_croniter(text, start)).day == 3
    assert next(of_cronsim(text, start)).day == 11


class Row(NamedTuple):
    """A stretch of local days, and the local times at which each contestant runs in it."""

    text: str
    zone: str
    start: str
    end: str
    skip_or_both: list[str]
    shift_or_first: list[str]
    cronsim: list[str]
    croniter: list[str]
    apscheduler: list[str]


ROWS = {
    "a time that does not exist": Row(
        text="30 2 * * *",
        zone="America/New_York",
        start="2026-03-08T00:00",
        end="2026-03-08T23:00",
        skip_or_both=[],
        shift_or_first=["03:30-0400"],
        cronsim=["03:00-0400"],
        croniter=["03:00-0400"],
        apscheduler=["03:30-0400"],
    ),
    "a midnight that does not exist": Row(
        text="0 0 * * *",
        zone="Africa/Cairo",
        start="2026-04-23T12:00",
        end="2026-04-24T23:00",
        skip_or_both=[],
        shift_or_first=["01:00+0300"],
        cronsim=["01:00+0300"],
        croniter=["01:00+0300"],
        apscheduler=[],
    ),
    "several times within an hour that does not exist": Row(
        text="*/30 2 * * *",
        zone="America/New_York",
        start="2026-03-08T00:00",
        end="2026-03-08T23:00",
        skip_or_both=[],
        shift_or_first=["03:00-0400", "03:30-0400"],
        cronsim=[],
        croniter=["03:00-0400"],
        apscheduler=["03:00-0400"],
    ),
    "a day that does not exist": Row(
        text="0 12 * * *",
        zone="Pacific/Apia",
        start="2011-12-29T13:00",
        end="2011-12-31T23:00",
        skip_or_both=["12:00+1400"],
        shift_or_first=["12:00+1400"],
        cronsim=["00:00+1400", "12:00+1400"],
        croniter=["00:00+1400", "12:00+1400"],
        apscheduler=["12:00+1400"],
    ),
    "every hour across a gap": Row(
        text="30 * * * *",
        zone="America/New_York",
        start="2026-03-08T00:45",
        end="2026-03-08T04:45",
        skip_or_both=["01:30-0500", "03:30-0400", "04:30-0400"],
        shift_or_first=["01:30-0500", "03:30-0400", "04:30-0400"],
        cronsim=["01:30-0500", "03:30-0400", "04:30-0400"],
        croniter=["01:30-0500", "03:30-0400", "04:30-0400"],
        apscheduler=["01:30-0500", "03:30-0400", "04:30-0400"],
    ),
    "a time shown twice": Row(
        text="30 1 * * *",
        zone="America/New_York",
        start="2026-11-01T00:00",
        end="2026-11-01T23:00",
        skip_or_both=["01:30-0400", "01:30-0500"],
        shift_or_first=["01:30-0400"],
        cronsim=["01:30-0400"],
        croniter=["01:30-0400", "01:30-0500"],
        apscheduler=["01:30-0400", "01:30-0500"],
    ),
    "every hour across a fold": Row(
        text="0 * * * *",
        zone="America/New_York",
        start="2026-11-01T00:30",
        end="2026-11-01T02:30",
        skip_or_both=["01:00-0400", "01:00-0500", "02:00-0500"],
        shift_or_first=["01:00-0400", "02:00-0500"],
        cronsim=["01:00-0400", "01:00-0500", "02:00-0500"],
        croniter=["01:00-0400", "01:00-0500", "02:00-0500"],
        apscheduler=["01:00-0400", "01:00-0500", "02:00-0500"],
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_table_of_differences_at_changes_of_the_clocks_is_true(row: Row) -> None:
    zone = ZoneInfo(row.zone)
    start = datetime.fromisoformat(row.start).replace(tzinfo=zone)
    end = datetime.fromisoformat(row.end).replace(tzinfo=zone).astimezone(UTC)

    def local(found: Iterator[datetime]) -> list[str]:
        # Through UTC: a peer may answer with a local time that no clock shows.
        instants = takewhile(lambda at: at <= end, (at.astimezone(UTC) for at in found))
        return [f"{at.astimezone(zone):%H:%M%z}" for at in instants]

    cron = parse_cron(row.text, "extended")
    assert local(cron.between(start, end, zone, gap="skip", fold="both")) == row.skip_or_both
    assert local(cron.between(start, end, zone, gap="shift", fold="first")) == row.shift_or_first
    peers: dict[str, Callable[[str, datetime], Occurrences]] = {
        "cronsim": of_cronsim,
        "croniter": of_croniter,
        "apscheduler": of_apscheduler,
    }
    found = {name: local(peer(row.text, start)) for name, peer in peers.items()}
    assert found == {name: getattr(row, name) for name in peers}
