"""The entries of a board as documents."""

import json
import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidInputError, InvalidZoneError
from rota.policy.gate_settings import (
    EVERYTHING,
    Damage,
    Entry,
    KindNotifies,
    Scope,
    ScopedMaintenance,
    TenantQuietHours,
    decode_entry,
    encode_entry,
    key_of,
    parse_quiet_hours,
)
from rota.policy.gates import Maintenance
from rota.policy.quiet_hours import QuietHours, QuietWindow

LONDON = ZoneInfo("Europe/London")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
WINDOW = Maintenance(from_at=NOON, until=NOON + timedelta(hours=1), reason="disks", who="ops")
RICH = QuietHours(
    time(22),
    time(7, 0, 30),
    LONDON,
    {0, 4},
    more=(QuietWindow(time(12), time(13), {5}),),
    rest_days={6},
    holidays={date(2026, 12, 25), date(2026, 1, 1)},
)
ENTRIES: list[tuple[str, Entry]] = [
    ("quiet_hours/acme", TenantQuietHours("acme", RICH)),
    ("quiet_hours/acme", TenantQuietHours("acme", QuietHours(time(22), time(7), UTC))),
    ("maintenance", ScopedMaintenance(EVERYTHING, (WINDOW, Maintenance()))),
    ("maintenance/tenant/acme", ScopedMaintenance(Scope(tenant="acme"), (WINDOW,))),
    ("maintenance/queue/mail", ScopedMaintenance(Scope(queue="mail"), ())),
    ("kind/mail", KindNotifies("mail", notifies=True)),
    ("kind/mail", KindNotifies("mail", notifies=False)),
]


@pytest.mark.parametrize(("key", "entry"), ENTRIES)
def test_an_entry_can_be_written_and_read_again(key: str, entry: Entry) -> None:
    assert key_of(entry) == key
    again = decode_entry(key, encode_entry(entry))
    if isinstance(entry, TenantQuietHours):
        assert isinstance(again, TenantQuietHours)
        assert again.hours.windows == entry.hours.windows
        assert again.hours.holidays == entry.hours.holidays
        assert again.hours.rest_days == entry.hours.rest_days
        assert str(again.hours.zone) == str(entry.hours.zone)
    else:
        assert again == entry


def test_quiet_hours_without_a_window_keep_their_holidays() -> None:
    hours = QuietHours(time(9), time(9), LONDON, holidays={date(2026, 12, 25)})
    again = decode_entry("quiet_hours/acme", encode_entry(TenantQuietHours("acme", hours)))
    assert isinstance(again, TenantQuietHours)
    assert again.hours == QuietHours(time(0), time(0), LONDON, holidays=hours.holidays)


def test_a_document_can_be_read_by_a_person() -> None:
    assert json.loads(encode_entry(ENTRIES[0][1])) == {
        "zone": "Europe/London",
        "windows": [
            {"start": "22:00", "end": "07:00:30", "weekdays": ["mon", "fri"]},
            {"start": "12:00", "end": "13:00", "weekdays": ["sat"]},
        ],
        "rest_days": ["sun"],
        "holidays": ["2026-01-01", "2026-12-25"],
    }


@pytest.mark.parametrize(
    ("key", "body", "reason"),
    [
        ("quiet_hours/acme", b"", "truncated"),
        ("quiet_hours/acme", b"\xff", "malformed"),
        ("quiet_hours/acme", b"[]", "object"),
        ("quiet_hours/acme", b"{}", "zone"),
        ("quiet_hours/a b", b'{"zone":"UTC"}', "tenant must be"),
        ("quiet_hours/acme", b'{"zone":"Mars/Base"}', "Mars/Base"),
        ("quiet_hours/acme", b'{"zone":"UTC\xff"}', "utf-8"),
        (
            "quiet_hours/acme",
            b'{"zone":"UTC","windows":[{"start":"25:00","end":"07:00"}]}',
            r"windows\[0\].start must be",
        ),
        (
            "quiet_hours/acme",
            b'{"zone":"UTC","windows":[{"start":"22:00","end":"07:00","weekdays":["x"]}]}',
            r"windows\[0\].weekdays must be",
        ),
        ("quiet_hours/acme", b'{"zone":"UTC","holidays":["soon"]}', "date"),
        ("maintenance", b'{"windows":[{"until":"2026-05-01T12:00:00"}]}', "timezone"),
        ("maintenance/tenant/acme", b'{"windows":[{"reason":"\\n"}]}', "reason must not"),
        ("maintenance/planet/mars", b'{"windows":[]}', "key does not name a gate"),
        ("", b"{}", "key does not name a gate"),
    ],
)
def test_a_damaged_document_is_recognised(key: str, body: bytes, reason: str) -> None:
    found = decode_entry(key, body)
    assert isinstance(found, Damage)
    assert found.key == key
    assert re.search(reason, found.reason), found.reason


def test_fields_of_a_later_version_are_passed_over() -> None:
    found = decode_entry("maintenance", b'{"windows":[],"severity":3}')
    assert found == ScopedMaintenance(EVERYTHING, ())


def test_a_zone_without_a_name_cannot_be_kept() -> None:
    nameless = QuietHours(time(22), time(7), timezone(timedelta(hours=1)))
    with pytest.raises(InvalidInputError, match="zone must be a zone with an IANA name"):
        encode_entry(TenantQuietHours("acme", nameless))


def test_quiet_hours_are_read_as_people_write_them() -> None:
    assert parse_quiet_hours("22:00", "07:00", "Europe/London") == QuietHours(
        time(22), time(7), LONDON
    )
    assert parse_quiet_hours(time(22), time(7, 0, 30), LONDON, weekdays=["mon", "fri"]) == (
        QuietHours(time(22), time(7, 0, 30), LONDON, {0, 4})
    )
    full = parse_quiet_hours(
        "22:00",
        "07:00:30",
        "Europe/London",
        weekdays=["mon", "fri"],
        more=[QuietWindow(time(12), time(13), {5})],
        rest_days=["sun"],
        holidays=["2026-12-25", date(2026, 1, 1)],
    )
    assert full == RICH


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"start": "10pm"}, "start"),
        ({"end": None}, "end"),
        ({"weekdays": ["someday"]}, "weekdays"),
        ({"rest_days": 6}, "rest_days"),
        ({"holidays": ["2026-02-30"]}, "holidays"),
        ({"holidays": 7}, "holidays"),
        ({"more": 7}, "more"),
    ],
)
def test_wrong_parts_are_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_quiet_hours(**{"start": "22:00", "end": "07:00", "tz": "UTC", **fields})
    assert refused.value.details["field"] == field


@pytest.mark.parametrize("tz", ["Mars/Base", "", None, 7])
def test_an_unknown_zone_is_refused(tz: Any) -> None:
    with pytest.raises(InvalidZoneError):
        parse_quiet_hours("22:00", "07:00", tz)
