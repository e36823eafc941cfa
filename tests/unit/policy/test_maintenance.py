"""Times in which nothing is to run."""

# ruff: noqa: DTZ001 - a naive datetime is what is refused

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.policy.gates import LONGEST_REASON, Closed, Maintenance, Open
from rota.testing import a_job

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
JOB = a_job()


@pytest.mark.parametrize("notifies", [True, False])
def test_maintenance_holds_every_job_back_until_it_ends(notifies: bool) -> None:
    window = Maintenance(from_at=NOON, until=NOON + HOUR, reason="new disks", who="ops")
    held = Closed(NOON + HOUR, "maintenance: new disks")
    last = NOON + HOUR - timedelta(microseconds=1)
    assert window.judge(JOB, NOON, notifies=notifies) == held
    assert window.judge(JOB, last, notifies=notifies) == held


def test_before_and_after_it_jobs_pass() -> None:
    window = Maintenance(from_at=NOON, until=NOON + HOUR)
    assert window.judge(JOB, NOON - timedelta(microseconds=1), notifies=False) == Open()
    assert window.judge(JOB, NOON + HOUR, notifies=False) == Open()


def test_without_an_end_jobs_look_again_every_five_minutes() -> None:
    held = Maintenance(reason="investigating").judge(JOB, NOON, notifies=False)
    assert held == Closed(
        NOON + timedelta(minutes=5), "maintenance: investigating", is_recheck=True
    )


def test_without_a_reason_it_is_just_maintenance() -> None:
    held = Maintenance().judge(JOB, NOON, notifies=False)
    assert isinstance(held, Closed)
    assert held.reason == "maintenance"


def test_there_is_no_later_poll_at_the_end_of_the_calendar() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    held = Maintenance().judge(JOB, last, notifies=False)
    assert isinstance(held, Closed)
    assert held.reopens_at == last


def test_instants_are_kept_in_utc() -> None:
    elsewhere = NOON.astimezone(timezone(HOUR))
    assert Maintenance(until=elsewhere) == Maintenance(until=NOON)
    kept = Maintenance(from_at=elsewhere).from_at
    assert kept is not None
    assert kept.tzinfo is UTC


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"until": datetime(2026, 1, 1)}, "until"),
        ({"until": "2026-01-01"}, "until"),
        ({"from_at": datetime.min.replace(tzinfo=timezone(HOUR))}, "from_at"),
        ({"from_at": NOON, "until": NOON}, "until"),
        ({"reason": None}, "reason"),
        ({"reason": "x" * (LONGEST_REASON + 1)}, "reason"),
        ({"reason": "two\nlines"}, "reason"),
        ({"who": 7}, "who"),
    ],
)
def test_wrong_parts_are_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{field} must") as refused:
        Maintenance(**fields)
    assert refused.value.details["field"] == field
