"""Random rules, and python-dateutil as their oracle: on wall time, and kept from spinning."""

import calendar
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from unittest import mock

import dateutil.rrule

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEIGHTS = (22, 20, 17, 17, 10, 9, 5)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
REACH = {
    "YEARLY": timedelta(days=30 * 365),
    "MONTHLY": timedelta(days=10 * 365),
    "WEEKLY": timedelta(days=5 * 365),
    "DAILY": timedelta(days=3 * 365),
    "HOURLY": timedelta(days=100),
    "MINUTELY": timedelta(days=10),
    "SECONDLY": timedelta(days=2),
}
"""How far ahead the oracle looks: it pays for every period on the way."""


@dataclass(frozen=True)
class RandomRule:
    """A rule as text, its wall-time start, and the wall time up to which the oracle is asked."""

    text: str
    start: datetime
    horizon: datetime


class _HorizonReached(Exception):  # noqa: N818 - a signal, not a fault
    pass


def random_rule(chance: random.Random) -> RandomRule:
    frequency = chance.choices(FREQUENCIES, WEIGHTS)[0]
    start = _random_start(chance)
    parts = [f"FREQ={frequency}"]
    if chance.random() < 0.5:
        parts.append(f"INTERVAL={_random_interval(chance)}")
    lists = [*_day_lists(chance, frequency, start), *_time_lists(chance)]
    parts += lists
    if lists and chance.random() < 0.25:
        positions = (1, -1) if frequency == "SECONDLY" else (1, 2, 3, 4, 5, 10, -1, -2, -3, -5)
        parts.append(f"BYSETPOS={_some(chance, positions, 3)}")
        if frequency == "WEEKLY":  # the oracle counts positions from DTSTART in the first week
            start -= timedelta(days=start.weekday())
    elif chance.random() < 0.3:
        parts.append(f"WKST={chance.choice(WEEKDAYS)}")
    parts += _limit(chance, start)
    chance.shuffle(parts)
    return RandomRule(";".join(parts), start, start + REACH[frequency])


def expected_occurrences(rule: RandomRule, limit: int) -> tuple[list[datetime], bool]:
    """What python-dateutil gives up to the horizon, and whether that is certainly all of it."""
    found: list[datetime] = []
    with _bounded_at(rule.horizon):
        try:
            text = re.sub(r"(?<=[0-9])Z", "", rule.text)  # its wall times are naive
            series = dateutil.rrule.rrulestr(text, dtstart=rule.start)
            found.extend(islice(iter(series), limit))
        except _HorizonReached:
            pass
        except ValueError as error:  # its way of saying that INTERVAL never meets a BY part
            if found or "Invalid" not in str(error):
                raise
    inside = [wall for wall in found if wall <= rule.horizon]
    return inside, len(found) < limit


@contextmanager
def _bounded_at(horizon: datetime) -> Iterator[None]:
    """Stops python-dateutil where it asks for a month or a year beyond the horizon."""

    def isleap(year: int) -> bool:
        if year > horizon.year + 1:
            raise _HorizonReached
        return calendar.isleap(year)

    def monthrange(year: int, month: int) -> tuple[int, int]:
        if (year, month) > (horizon.year, horizon.month):
            raise _HorizonReached
        return calendar.monthrange(year, month)

    bounded = SimpleNamespace(
        isleap=isleap, monthrange=monthrange, firstweekday=calendar.firstweekday
    )
    with mock.patch.object(dateutil.rrule, "calendar", bounded):
        yield


def _random_start(chance: random.Random) -> datetime:
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        seconds=chance.randrange(70 * 365 * 86_400)
    )
    if chance.random() < 0.1:  # the turn of the year, where weeks belong to the year beside
        start = start.replace(month=12, day=chance.randint(25, 31))
    return start.replace(tzinfo=None)


def _random_interval(chance: random.Random) -> int:
    usual = (1, 2, 3, 4, 5, 6, 7, 10, 12, 13, 15, 24, 30, 45, 60, 90, 100, 1000)
    return chance.choice(usual) if chance.random() < 0.8 else chance.randint(1, 400)


def _some(chance: random.Random, values: tuple[int, ...] | range, most: int) -> str:
    return ",".join(map(str, chance.sample(values, chance.randint(1, min(most, len(values))))))


def _day_lists(chance: random.Random, frequency: str, start: datetime) -> Iterator[str]:
    if frequency == "SECONDLY" and chance.random() < 0.7:
        # The oracle walks second by second through a day that does not match: let this one do.
        if chance.random() < 0.4:
            yield f"BYMONTHDAY={start.day},{chance.randint(1, 31)}"
        return
    if chance.random() < 0.25:
        yield f"BYMONTH={_some(chance, range(1, 13), 5)}"
    has_weeks = frequency == "YEARLY" and chance.random() < 0.15
    if has_weeks:  # 52 and 53 are where the oracle errs: see the documented differences
        yield f"BYWEEKNO={_some(chance, (*range(1, 52), *range(-51, 0)), 5)}"
    if frequency not in {"MONTHLY", "WEEKLY", "DAILY"} and chance.random() < 0.12:
        yield f"BYYEARDAY={_some(chance, (*range(1, 367), *range(-366, 0)), 20)}"
    if frequency != "WEEKLY" and chance.random() < 0.25:
        yield f"BYMONTHDAY={_some(chance, (*range(1, 32), *range(-31, 0)), 6)}"
    if chance.random() < 0.35:
        yield f"BYDAY={_weekday_list(chance, frequency, has_weeks)}"


def _weekday_list(chance: random.Random, frequency: str, has_weeks: bool) -> str:
    days = chance.sample(WEEKDAYS, chance.randint(1, 4))
    if frequency not in {"YEARLY", "MONTHLY"} or has_weeks or chance.random() < 0.5:
        return ",".join(days)
    most = 5 if frequency == "MONTHLY" or chance.random() < 0.5 else 7
    return ",".join(
        f"{chance.choice(('', '+', '-'))}{chance.randint(1, most)}{day}" for day in days
    )


def _time_lists(chance: random.Random) -> Iterator[str]:
    if chance.random() < 0.3:
        yield f"BYHOUR={_some(chance, range(24), 5)}"
    if chance.random() < 0.3:
        yield f"BYMINUTE={_some(chance, range(60), 5)}"
    if chance.random() < 0.25:
        yield f"BYSECOND={_some(chance, range(60), 4)}"


def _limit(chance: random.Random, start: datetime) -> Iterator[str]:
    kind = chance.random()
    if kind < 0.2:
        yield f"COUNT={chance.randint(1, 15)}"
    elif kind < 0.4:
        end = start + timedelta(seconds=chance.randint(0, 10 ** chance.randint(2, 9)))
        yield f"UNTIL={end:%Y%m%dT%H%M%S}{chance.choice(('', 'Z'))}"
