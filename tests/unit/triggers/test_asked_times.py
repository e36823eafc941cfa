from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.triggers.cron import parse_cron
from rota.triggers.dst_notes import AskedFor, annotate, asked_by_cron, asked_by_rule
from rota.triggers.rrule import RecurrenceRule, parse_rrule
from rota.triggers.zone import Gap

LONDON = ZoneInfo("Europe/London")
HOUR = timedelta(hours=1)


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


GAP_FROM, GAP_TO = wall("2027-03-28T01:00"), wall("2027-03-28T02:00")


def rule(text: str, start: str = "2027-01-01T01:30", gap: Gap = "skip") -> RecurrenceRule:
    return parse_rrule(text, zone=LONDON, start=wall(start), gap=gap)


def asked(
    asked_for: AskedFor | None, start: datetime = GAP_FROM, end: datetime = GAP_TO
) -> list[str]:
    assert asked_for is not None
    return [f"{each:%H:%M:%S}" for each in asked_for(start, end)]


def test_an_expression_is_asked_for_what_never_happens() -> None:
    assert asked(asked_by_cron(parse_cron("15,45 * * * *"))) == ["01:15:00", "01:45:00"]


def test_the_stretch_is_half_open() -> None:
    asked_for = asked_by_cron(parse_cron("0 * * * *"))
    assert asked(asked_for) == ["01:00:00"]
    assert asked(asked_for, GAP_FROM, GAP_FROM + timedelta.resolution) == ["01:00:00"]
    assert asked(asked_for, GAP_FROM + timedelta.resolution, GAP_TO) == []


def test_seconds_are_asked_for_too() -> None:
    cron = parse_cron("*/30 59 1 * * *", "extended")
    assert asked(asked_by_cron(cron)) == ["01:59:00", "01:59:30"]


def test_elapsed_time_asks_for_no_wall_time() -> None:
    assert asked_by_cron(parse_cron("@every 90m", "extended")) is None
    assert asked_by_rule(rule("FREQ=HOURLY")) is None


def test_a_rule_is_asked_for_what_never_happens() -> None:
    asked_for = asked_by_rule(rule("FREQ=DAILY;BYHOUR=1,2;BYMINUTE=0,30"))
    assert asked(asked_for) == ["01:00:00", "01:30:00"]
    assert asked(asked_for, GAP_FROM, GAP_FROM + timedelta.resolution) == ["01:00:00"]


def test_the_phase_of_a_rule_is_that_of_its_start_on_the_wall() -> None:
    on_the_day = rule("FREQ=WEEKLY;INTERVAL=2", start="2027-03-14T01:30")
    off_the_day = rule("FREQ=WEEKLY;INTERVAL=2", start="2027-03-07T01:30")
    assert asked(asked_by_rule(on_the_day)) == ["01:30:00"]
    assert asked(asked_by_rule(off_the_day)) == []


@pytest.mark.parametrize(
    ("until", "times"),
    [
        ("20270328T002959Z", []),
        ("20270328", ["01:30:00"]),
        ("20270327", []),
        ("20270328T013000", ["01:30:00"]),
        ("20270328T010000Z", ["01:30:00"]),
        ("20270401T000000Z", ["01:30:00"]),
    ],
)
def test_a_rule_asks_for_nothing_after_its_end(until: str, times: list[str]) -> None:
    assert asked(asked_by_rule(rule(f"FREQ=DAILY;UNTIL={until}"))) == times


def test_a_day_that_is_left_out_is_not_asked_for() -> None:
    text = "RRULE:FREQ=DAILY\nEXDATE;VALUE=DATE:20270328"
    assert asked(asked_by_rule(rule(text))) == []


def test_dates_beside_the_rule_are_not_asked_for_by_it() -> None:
    text = "RRULE:FREQ=YEARLY\nRDATE:20270328T011500"
    assert asked(asked_by_rule(rule(text))) == []


@pytest.mark.parametrize("gap", ["skip", "shift"])
def test_cron_and_rule_agree_over_a_year(gap: Gap) -> None:
    """Both say every half hour of the night; the clocks must do the same to both."""
    start, end = datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
    cron = parse_cron("0,30 0-3 * * *")
    by_rule = parse_rrule(
        "FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=0,30;BYSECOND=0",
        zone=LONDON,
        start=start,
        gap=gap,
        fold="both",
    )
    first = list(cron.between(start, end, LONDON, gap=gap, fold="both"))
    second = list(by_rule.between(start, end))
    assert first == second
    notes = [
        annotate(first, LONDON, asked_for, after=start, gap=gap, fold="both")
        for asked_for in (asked_by_cron(cron), asked_by_rule(by_rule))
    ]
    assert notes[0] == notes[1]
    kinds = [note.kind for note in notes[0].notes.values()]
    assert kinds == ["merged"] * 2 * (gap == "shift") + ["first"] * 2 + ["second"] * 2
    assert [len(each.walls) for each in notes[0].skipped] == [2] * (gap == "skip")
