from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from rota.cli.options import choose_zone, read_instant
from rota.errors import InvalidInputError, InvalidZoneError

LONDON = ZoneInfo("Europe/London")


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2027-07-01T09:00", datetime(2027, 7, 1, 8, tzinfo=UTC)),
        ("2027-07-01 09:00:30", datetime(2027, 7, 1, 8, 0, 30, tzinfo=UTC)),
        ("2027-07-01", datetime(2027, 6, 30, 23, tzinfo=UTC)),
        ("2027-07-01T09:00Z", datetime(2027, 7, 1, 9, tzinfo=UTC)),
        ("2027-07-01T09:00+05:30", datetime(2027, 7, 1, 3, 30, tzinfo=UTC)),
        ("20270701T090000Z", datetime(2027, 7, 1, 9, tzinfo=UTC)),
    ],
)
def test_an_instant_is_wall_time_unless_it_has_an_offset(text: str, instant: datetime) -> None:
    assert read_instant(text, LONDON, "--from") == instant


def test_a_wall_time_shown_twice_means_its_first_showing() -> None:
    first = datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
    assert read_instant("2027-10-31T01:30", LONDON, "--from") == first


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2027-03-28T01:30", "does not exist in Europe/London: clocks go forward 01:00 → 02:00"),
        (
            "tomorrow",
            "is not an ISO 8601 date and time, such as 2027-03-28T09:00 or 2027-03-28T08:00Z",
        ),
        ("0001-01-01T00:00+10:00", "is beyond the calendar"),
    ],
)
def test_an_invalid_instant_is_refused_with_the_option_name(text: str, reason: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        read_instant(text, LONDON, "--from")
    assert refusal.value.message == f'--from "{text}" {reason}'
    assert refusal.value.details == {"field": "--from", "value": text, "reason": reason}


@pytest.mark.parametrize(("text", "zone"), [("9999-12-31T23:00", "America/New_York")])
def test_a_wall_time_beyond_the_calendar_is_refused(text: str, zone: str) -> None:
    with pytest.raises(InvalidInputError, match="beyond the calendar"):
        read_instant(text, ZoneInfo(zone), "--start")


def test_a_named_zone_is_taken() -> None:
    chosen = choose_zone("Asia/Tokyo")
    assert (chosen.name, chosen.source) == ("Asia/Tokyo", "given")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InvalidZoneError):
        choose_zone("Europe/Londn")


def test_without_a_name_it_is_the_hosts_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Asia/Tokyo")
    chosen = choose_zone(None)
    assert (chosen.name, chosen.source) == ("Asia/Tokyo", "host")


def test_a_host_whose_zone_has_no_name_means_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    def conflicting() -> str:
        raise ZoneInfoNotFoundError("two names")

    for get_name in (conflicting, lambda: None, lambda: "Mars/Olympus"):
        monkeypatch.setattr("tzlocal.get_localzone_name", get_name)
        chosen = choose_zone(None)
        assert (chosen.name, chosen.source) == ("UTC", "fallback")
