"""The host's zone may be named or described by TZ."""

from datetime import UTC, datetime, timedelta

import pytest
import tzlocal.unix

from rota import Scheduler
from rota.clock.host_zone import read_host_zone
from rota.errors import InvalidInputError
from rota.stores.memory import MemoryStore

WINTER = datetime(2026, 1, 15, 12, tzinfo=UTC)
SUMMER = datetime(2026, 7, 15, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tzlocal.unix, "_cache_tz", None)


@pytest.mark.parametrize(
    ("rule", "winter", "summer"),
    [
        ("UTC0", 0, 0),
        ("EST5EDT,M3.2.0,M11.1.0", -5, -4),
        ("<+0330>-3:30", 3.5, 3.5),
        ("CET-1CEST,M3.5.0,M10.5.0/3", 1, 2),
        ("Europe/London", 0, 1),
    ],
)
def test_a_rule_of_posix_is_a_zone(
    monkeypatch: pytest.MonkeyPatch, rule: str, winter: float, summer: float
) -> None:
    monkeypatch.setenv("TZ", rule)
    zone = read_host_zone()
    for instant, hours in ((WINTER, winter), (SUMMER, summer)):
        assert instant.astimezone(zone).utcoffset() == timedelta(hours=hours)


def test_a_scheduler_uses_a_rule_of_posix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    Scheduler(MemoryStore())


@pytest.mark.parametrize("rule", ["Nowhere/City", "CET-1CEST", "EST5EDT,M13.2.0,M11.1.0"])
def test_another_text_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    monkeypatch.setenv("TZ", rule)
    with pytest.raises(InvalidInputError, match=f'TZ="{rule}"; pass zone='):
        Scheduler(MemoryStore())
