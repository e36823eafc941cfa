"""Rules of hours, minutes and seconds, at changes of the clocks, against a walk over all of time.

The walk restates the definition: time is cut into periods from the beginning of the unit DTSTART
lies in; every INTERVAL-th is used; in it, an instant occurs when the clock at that instant
satisfies each BY part, and what has no BY part is as far into the period as DTSTART.
"""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from unittest import mock
from zoneinfo import ZoneInfo

import pytest

from rota.errors import NoOccurrenceError
from rota.triggers.rrule import parse_rrule
from rota.triggers.rrule_elapsed import TimeFilter, first_hit
from rota.triggers.rrule_parts import Frequency, Parts
from rota.triggers.zone import wall_time

LONDON = ZoneInfo("Europe/London")
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
UNITS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
CHANGES = [
    ("Europe/London", "2024-03-31"),
    ("Europe/London", "2024-10-27"),
    ("America/New_York", "2024-03-10"),
    ("America/New_York", "2024-11-03"),
    ("Australia/Lord_Howe", "2024-04-06"),
    ("Australia/Lord_Howe", "2024-10-05"),
    ("Pacific/Apia", "2011-12-30"),
    ("America/Sao_Paulo", "2018-11-04"),
    ("America/Sao_Paulo", "2018-02-18"),
]


def _numbers(parts: dict[str, str], name: str) -> set[int] | None:
    return {int(number) for number in parts[name].split(",")} if name in parts else None


class Walk:
    """The definition, applied to one instant after the other."""

    def __init__(self, text: str, start: datetime, zone: ZoneInfo) -> None:
        parts = dict(part.split("=") for part in text.split(";"))
        self.unit = UNITS[parts["FREQ"]]
        self.step = self.unit * int(parts.get("INTERVAL", "1"))
        self.zone = zone
        self.start = start
        wall = wall_time(start, zone)
        self.own = (wall.minute * 60 + wall.second) % self.unit
        self.anchor = start - timedelta(seconds=self.own)
        self.days = set(parts["BYDAY"].split(",")) if "BYDAY" in parts else None
        names = ("BYMONTHDAY", "BYHOUR", "BYMINUTE", "BYSECOND")
        self.lists = [_numbers(parts, name) for name in names]
        self.positions = _numbers(parts, "BYSETPOS")

    def occurrences(self, begin: datetime, end: datetime, grain: int) -> list[datetime]:
        periods: dict[int, list[datetime]] = {}
        skipped = (begin - self.anchor) // timedelta(seconds=self.step)
        # The last period is to be whole.
        last = int((end - self.anchor).total_seconds()) + self.unit
        for passed in range(skipped * self.step, last + 1, grain):
            period, into = divmod(passed, self.step)
            if into < self.unit and self._is_own(into):
                at = self.anchor + timedelta(seconds=passed)
                if self._is_shown(at):
                    periods.setdefault(period, []).append(at)
        chosen = [at for members in periods.values() for at in self._choose(members)]
        return [at for at in chosen if max(self.start, begin) <= at <= end]

    def _is_own(self, into: int) -> bool:
        """Whether it is as far into the period as DTSTART, where no BY part says otherwise."""
        is_own_minute = self.lists[2] is not None or into // 60 == self.own // 60
        return is_own_minute and (self.lists[3] is not None or into % 60 == self.own % 60)

    def _is_shown(self, at: datetime) -> bool:
        wall = wall_time(at, self.zone)
        if self.days is not None and WEEKDAYS[wall.weekday()] not in self.days:
            return False
        shown = (wall.day, wall.hour, wall.minute, wall.second)
        return all(wanted is None or now in wanted for now, wanted in zip(shown, self.lists))  # noqa: B905 - equal by construction

    def _choose(self, members: list[datetime]) -> list[datetime]:
        if self.positions is None:
            return members
        count = len(members)
        places = {place - 1 if place > 0 else count + place for place in self.positions}
        return [members[place] for place in sorted(places) if 0 <= place < count]


def _compare(text: str, zone: ZoneInfo, start: datetime, end: datetime, grain: int) -> None:
    rule = parse_rrule(text, zone=zone, start=start)
    expected = Walk(text, start, zone).occurrences(start, end, grain)
    assert list(rule.between(start - HOUR, end)) == expected, (text, start, zone)


RULES = [
    "FREQ=HOURLY",
    "FREQ=HOURLY;INTERVAL=2",
    "FREQ=HOURLY;INTERVAL=5;BYMINUTE=0,30",
    "FREQ=HOURLY;BYMINUTE=0,10,45",
    "FREQ=HOURLY;BYHOUR=0,1,2,3,23",
    "FREQ=HOURLY;BYMINUTE=35",
    "FREQ=HOURLY;BYMINUTE=20,40",
    "FREQ=HOURLY;BYMINUTE=35,50;BYSETPOS=-1",
    "FREQ=HOURLY;BYHOUR=0;BYMINUTE=0,5",
    "FREQ=HOURLY;BYHOUR=4;BYMINUTE=0,30",
    "FREQ=HOURLY;BYHOUR=0,1,2,3,23;BYMINUTE=0,30,59",
    "FREQ=HOURLY;BYMINUTE=0,15,30,45;BYSETPOS=1,-1",
    "FREQ=HOURLY;BYHOUR=1,2;BYMINUTE=0,15,30,45;BYSETPOS=2",
    "FREQ=HOURLY;INTERVAL=3;BYDAY=SU,SA;BYMINUTE=5",
    "FREQ=MINUTELY;INTERVAL=7",
    "FREQ=MINUTELY;INTERVAL=90",
    "FREQ=MINUTELY;INTERVAL=7;BYHOUR=1,2",
    "FREQ=MINUTELY;BYHOUR=0,1,2;BYMINUTE=0,30",
    "FREQ=MINUTELY;INTERVAL=25;BYDAY=SU;BYMONTHDAY=7,27,31",
    "FREQ=SECONDLY;INTERVAL=5400",
    "FREQ=SECONDLY;INTERVAL=660;BYHOUR=0,1,2",
    "FREQ=SECONDLY;BYHOUR=1,2;BYMINUTE=0,30;BYSECOND=0",
]


@pytest.mark.parametrize(("name", "day"), CHANGES)
@pytest.mark.parametrize("minute", [0, 20])
def test_sub_daily_rules_step_in_elapsed_time(name: str, day: str, minute: int) -> None:
    zone = ZoneInfo(name)
    change = datetime.fromisoformat(day).replace(tzinfo=zone).astimezone(UTC)
    start = (change - 30 * HOUR).replace(minute=0) + timedelta(minutes=minute)
    for text in RULES:
        _compare(text, zone, start, change + 30 * HOUR, 60)


@pytest.mark.parametrize("text", RULES)
def test_a_change_in_the_middle_of_a_period_splits_it(text: str) -> None:
    """The first change moves the clock by half an hour, so the second meets half a period."""
    zone = ZoneInfo("Australia/Lord_Howe")
    start = datetime(2024, 1, 1, 1, 15, tzinfo=zone).astimezone(UTC)
    change = datetime(2024, 10, 5, 15, 30, tzinfo=UTC)
    begin, end = change - 20 * HOUR, change + 20 * HOUR
    rule = parse_rrule(text, zone=zone, start=start)
    expected = Walk(text, start, zone).occurrences(begin, end, 60)
    assert list(rule.between(begin - timedelta(seconds=1), end)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_random_sub_daily_rules_step_in_elapsed_time(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(8):
        name, day = chance.choice(CHANGES)
        zone = ZoneInfo(name)
        change = datetime.fromisoformat(day).replace(tzinfo=zone).astimezone(UTC)
        start = change - timedelta(seconds=chance.randrange(10 * 3600))
        _compare(_random_text(chance), zone, start, start + 12 * HOUR, 1)


def _random_text(chance: random.Random) -> str:
    def some(most: int) -> str:
        return ",".join(str(chance.randrange(most)) for _ in range(chance.randint(1, 5)))

    frequency = chance.choice(list(UNITS))
    parts = [f"FREQ={frequency}", f"INTERVAL={chance.choice((1, 1, 2, 3, 7, 11))}"]
    if chance.random() < 0.4:
        parts.append(f"BYHOUR=0,1,2,{some(24)}")
    if chance.random() < 0.7:
        parts.append(f"BYMINUTE={some(60)}")
    if chance.random() < 0.8 or frequency == "SECONDLY":
        parts.append(f"BYSECOND={some(60)}")
    if chance.random() < 0.3 and len(parts) > 2:
        parts.append(f"BYSETPOS={chance.choice(('1', '-1', '1,-1'))}")
    return ";".join(parts)


@pytest.mark.parametrize(
    ("day", "count"), [("2024-03-31", 23), ("2024-06-01", 24), ("2024-10-27", 25)]
)
def test_an_hourly_rule_fires_as_often_as_the_day_has_hours(day: str, count: int) -> None:
    midnight = datetime.fromisoformat(day)
    rule = parse_rrule("FREQ=HOURLY", zone=LONDON, start=datetime.fromisoformat("2024-01-01"))
    start = midnight.replace(tzinfo=LONDON).astimezone(UTC)
    end = (midnight + DAY).replace(tzinfo=LONDON).astimezone(UTC)
    found = list(rule.between(start - timedelta(seconds=1), end - timedelta(seconds=1)))
    assert len(found) == count
    assert {later - earlier for earlier, later in pairwise(found)} == {HOUR}


def test_a_day_in_hours_meets_another_hour_of_the_clock_in_summer() -> None:
    rule = parse_rrule(
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=5",
        zone=LONDON,
        start=datetime.fromisoformat("2024-01-01T04:00"),
    )
    first = rule.next_after(datetime(2024, 1, 1, tzinfo=UTC))
    assert first == datetime(2024, 3, 31, 4, tzinfo=UTC)
    last = rule.previous_at(datetime(2025, 1, 1, tzinfo=UTC))
    assert last == datetime(2024, 10, 26, 4, tzinfo=UTC)


@pytest.mark.parametrize(("year", "day"), [(2024, 31), (2099, 29), (2101, 27), (2400, 26)])
def test_an_hour_of_the_clock_that_only_summer_has_is_met_in_every_century(
    year: int, day: int
) -> None:
    rule = parse_rrule(
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=10",
        zone=LONDON,
        start=datetime.fromisoformat("2024-01-01T09:00"),
    )
    found = rule.next_after(datetime(year, 1, 1, tzinfo=UTC))
    assert found == datetime(year, 3, day, 9, tzinfo=UTC)


def test_gap_and_fold_do_not_matter_to_elapsed_time() -> None:
    start = datetime(2024, 10, 26, 12, tzinfo=UTC)
    one = parse_rrule("FREQ=HOURLY", zone=LONDON, start=start, gap="skip", fold="both")
    other = parse_rrule("FREQ=HOURLY", zone=LONDON, start=start)
    assert list(one.between(start, start + DAY)) == list(other.between(start, start + DAY))


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("FREQ=MINUTELY;INTERVAL=5;COUNT=100", "2024-01-01T08:15:00+00:00"),
        ("FREQ=MINUTELY;BYHOUR=9,10;COUNT=100", "2024-01-01T10:39:00+00:00"),
        ("FREQ=HOURLY;BYMINUTE=0,30;BYHOUR=9;BYSETPOS=-1;COUNT=3", "2024-01-03T09:30:00+00:00"),
    ],
)
def test_count_ends_a_sub_daily_rule(text: str, last: str) -> None:
    rule = parse_rrule(text, zone=UTC, start=datetime.fromisoformat("2024-01-01"))
    found = rule.previous_at(datetime(2030, 1, 1, tzinfo=UTC))
    assert found is not None
    assert found.isoformat() == last
    assert rule.next_after(found) is None


def test_a_count_that_the_calendar_cannot_fill_limits_nothing() -> None:
    rule = parse_rrule(
        "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30;COUNT=2",
        zone=UTC,
        start=datetime.fromisoformat("2024-01-01"),
    )
    assert rule.next_after(datetime(2024, 1, 1, tzinfo=UTC)) is None


def test_a_count_too_dear_to_find_is_given_up() -> None:
    rule = parse_rrule(
        "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=0;COUNT=100000",
        zone=UTC,
        start=datetime.fromisoformat("2024-01-01"),
    )
    with (
        mock.patch("rota.triggers.rrule_parts.COUNT_STEPS", 5_000),
        pytest.raises(NoOccurrenceError, match=r"INTERVAL=86399.* after 5000 steps"),
    ):
        rule.next_after(datetime(9000, 1, 1, tzinfo=UTC))


def test_the_time_filter_gives_the_first_time_that_each_part_allows() -> None:
    times = TimeFilter(Parts(Frequency.SECONDLY, hours=(9, 17), minutes=(0, 30), seconds=(5, 50)))
    allowed = [
        hour * 3600 + minute * 60 + second
        for hour in (9, 17)
        for minute in (0, 30)
        for second in (5, 50)
    ]
    for time in range(0, 86_400, 7):
        expected = next((at for at in allowed if at >= time), None)
        assert times.first_from(time) == expected


def test_a_time_filter_is_open_if_it_allows_every_second_of_a_day() -> None:
    assert TimeFilter(Parts(Frequency.HOURLY)).is_open
    assert TimeFilter(Parts(Frequency.HOURLY, minutes=(0,))).is_open  # below the frequency
    assert not TimeFilter(Parts(Frequency.MINUTELY, minutes=(0,))).is_open
    assert not TimeFilter(Parts(Frequency.HOURLY, hours=tuple(range(23)))).is_open
    assert TimeFilter(Parts(Frequency.SECONDLY)).hours == tuple(range(24))


@pytest.mark.parametrize("modulus", [7, 12, 30])
def test_the_first_hit_is_the_first_one_of_all_steps(modulus: int) -> None:
    for step, low, length in product(range(1, 2 * modulus), range(modulus), range(modulus)):
        wanted = {(low + at) % modulus for at in range(length + 1)}
        hits = (k for k in range(modulus) if k * step % modulus in wanted)
        assert first_hit(step, modulus, low, low + length) == next(hits, None)


@pytest.mark.parametrize(
    "text",
    [
        f"FREQ=HOURLY;INTERVAL=5000011;BYMONTH={','.join(map(str, range(1, 13)))}",
        "FREQ=SECONDLY;INTERVAL=77440373;BYMINUTE=0,30;BYSECOND=0",
        "FREQ=SECONDLY;INTERVAL=604799;BYMONTH=2;BYMONTHDAY=29;BYSECOND=7,37",
    ],
)
def test_an_occurrence_more_than_a_century_away_is_found(text: str) -> None:
    """These steps repeat neither with the week nor with the calendar, so a search goes on."""
    start = datetime(2024, 2, 29, tzinfo=UTC)
    rule = parse_rrule(text, zone=UTC, start=start)
    step = rule.parts.interval * UNITS[rule.parts.frequency.name]
    expected = next(
        at
        for passed in range(step, 10**12, step)
        if _is_listed(at := start + timedelta(seconds=passed), rule.parts)
    )
    assert expected.year > 2200
    assert rule.next_after(start) == expected


def _is_listed(at: datetime, parts: Parts) -> bool:
    listed = [
        (at.month, parts.months),
        (at.day, parts.month_days),
        (at.minute, parts.minutes),
        (at.second, parts.seconds),
    ]
    return all(shown in numbers for shown, numbers in listed if numbers)


def test_hours_that_the_calendar_repeats_are_found_up_to_its_last_year() -> None:
    start = datetime(2024, 2, 29, tzinfo=UTC)
    rule = parse_rrule(
        "FREQ=HOURLY;INTERVAL=24;BYMONTH=2;BYMONTHDAY=29;BYDAY=TH", zone=UTC, start=start
    )
    assert rule.next_after(start) == datetime(2052, 2, 29, tzinfo=UTC)
    last = datetime(9996, 2, 29, tzinfo=UTC)
    assert rule.next_after(datetime(9988, 3, 1, tzinfo=UTC)) == last
    assert rule.previous_at(datetime(9998, 1, 1, tzinfo=UTC)) == last
    assert rule.next_after(last) is None


@pytest.mark.parametrize("change", ["2026-03-29T01:00", "2026-10-25T01:00"])
def test_a_change_of_the_clocks_two_days_ahead_is_seen_to_the_second(change: str) -> None:
    """A search looks 48 hours ahead at a time, so the change is put around the end of that."""
    at = datetime.fromisoformat(change).replace(tzinfo=UTC)
    hours = ",".join(str(hour) for hour in range(24) if hour not in {1, 2})
    rule = parse_rrule(
        f"FREQ=HOURLY;BYHOUR={hours};BYMINUTE=30",
        zone=LONDON,
        start=datetime(2026, 1, 1, tzinfo=UTC),
    )
    walk = Walk(f"FREQ=HOURLY;BYHOUR={hours};BYMINUTE=30", rule.start, LONDON)
    expected = walk.occurrences(at - 3 * DAY, at + DAY, 60)
    for seconds in range(-3, 4):
        instant = at - 2 * DAY + timedelta(seconds=seconds)
        assert list(rule.between(instant, at + DAY)) == [
            each for each in expected if each > instant
        ]


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=SECONDLY;BYSECOND=5;BYSETPOS=2",
        "FREQ=MINUTELY;BYSECOND=5;BYSETPOS=2",
        "FREQ=HOURLY;BYMINUTE=5;BYSETPOS=-2",
        "FREQ=HOURLY;BYMINUTE=5;BYSECOND=5;BYSETPOS=2",
        "FREQ=HOURLY;BYMINUTE=5,6;BYSECOND=5,6;BYSETPOS=5",
    ],
)
def test_a_position_that_no_period_can_fill_never_occurs(text: str) -> None:
    rule = parse_rrule(text, zone=UTC, start=datetime.fromisoformat("2024-01-01"))
    assert rule.next_after(datetime(2024, 1, 1, tzinfo=UTC)) is None
