"""Random rules against python-dateutil, on wall time; its known errors are kept out of them.

20 chunks of 525 rules; ``RRULE_CHUNKS=200`` makes it ten times as long.
"""

import os
import random
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.triggers.random_rules import RandomRule, expected_occurrences, random_rule

from rota.triggers.rrule import RecurrenceRule, parse_rrule

CHUNKS = int(os.environ.get("RRULE_CHUNKS", "20"))
RULES_PER_CHUNK = 525
SECOND = timedelta(seconds=1)


def _compare(drawn: RandomRule, chance: random.Random) -> None:
    limit = 10 if chance.random() < 0.9 else 60
    expected, is_all = expected_occurrences(drawn, limit)
    rule = parse_rrule(drawn.text, zone=UTC, start=drawn.start)
    last = drawn.horizon if is_all else expected[-1] if expected else drawn.start
    found = list(rule.between(_utc(drawn.start) - SECOND, _utc(last)))
    assert found == [_utc(wall) for wall in expected], drawn
    for _ in range(2 if len(found) > 1 else 0):
        index = chance.randrange(len(found) - 1)
        _compare_from_a_point_between(rule, found[index], found[index + 1], chance)


def _compare_from_a_point_between(
    rule: RecurrenceRule, earlier: datetime, later: datetime, chance: random.Random
) -> None:
    """A fresh rule is asked, so that no answer leans on an earlier one."""
    seconds = int((later - earlier).total_seconds())
    point = earlier + timedelta(seconds=chance.randrange(seconds))
    fresh = parse_rrule(rule.text, zone=UTC, start=rule.start)
    assert fresh.next_after(point) == later, rule
    assert fresh.previous_at(point) == earlier, rule


def _utc(wall: datetime) -> datetime:
    return wall.replace(tzinfo=UTC)


@pytest.mark.parametrize("seed", range(CHUNKS))
def test_random_rules_occur_when_python_dateutil_says(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(RULES_PER_CHUNK):
        _compare(random_rule(chance), chance)


def test_at_least_ten_thousand_rules_are_compared() -> None:
    assert CHUNKS * RULES_PER_CHUNK >= 10_000


def test_the_random_rules_have_every_part_and_mostly_occur() -> None:
    chance = random.Random(0)
    drawn = [random_rule(chance) for _ in range(1_000)]
    names = {part.partition("=")[0] for rule in drawn for part in rule.text.split(";")}
    assert names == {
        *("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYSETPOS"),
        *("BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY"),
        *("BYHOUR", "BYMINUTE", "BYSECOND"),
    }
    assert sum(bool(expected_occurrences(rule, 1)[0]) for rule in drawn) > 700
