"""All the windows that are kept, as one gate."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.policy.gate_settings import (
    EVERYTHING,
    Scope,
    ScopedMaintenance,
    TenantQuietHours,
    make_gate_settings,
)
from rota.policy.gates import Closed, Maintenance, Open
from rota.policy.quiet_hours import QuietHours
from rota.testing import a_job

NIGHT = QuietHours(time(22), time(7), UTC)
LATE = datetime(2026, 1, 5, 23, tzinfo=UTC)
SEVEN = datetime(2026, 1, 6, 7, tzinfo=UTC)
HOUR = timedelta(hours=1)
WINDOW = Maintenance(until=LATE + HOUR, reason="disks")
ACME_MAIL = a_job(tenant="acme", queue="mail")
OTHER_MAIL = a_job(tenant="other", queue="mail")
OTHER_FILES = a_job(tenant="other", queue="files")
JOBS = (ACME_MAIL, OTHER_MAIL, OTHER_FILES)


def held_by(scope: Scope) -> list[bool]:
    board = make_gate_settings([ScopedMaintenance(scope, (WINDOW,))])
    return [board.judge(job, LATE, notifies=False) != Open() for job in JOBS]


def test_an_empty_board_is_open() -> None:
    assert make_gate_settings([]).judge(ACME_MAIL, LATE, notifies=True) == Open()


def test_maintenance_concerns_everything_a_tenant_or_a_queue() -> None:
    assert held_by(EVERYTHING) == [True, True, True]
    assert held_by(Scope(tenant="acme")) == [True, False, False]
    assert held_by(Scope(queue="mail")) == [True, True, False]


def test_quiet_hours_concern_their_tenant_and_what_notifies() -> None:
    board = make_gate_settings([TenantQuietHours("acme", NIGHT)])
    assert board.judge(ACME_MAIL, LATE, notifies=True) == Closed(SEVEN, "quiet hours")
    assert board.judge(ACME_MAIL, LATE, notifies=False) == Open()
    assert board.judge(OTHER_MAIL, LATE, notifies=True) == Open()


def test_a_job_waits_for_all_that_concern_it() -> None:
    early = Maintenance(from_at=SEVEN - HOUR, until=SEVEN + HOUR, reason="disks")
    board = make_gate_settings(
        [TenantQuietHours("acme", NIGHT), ScopedMaintenance(Scope(queue="mail"), (WINDOW, early))]
    )
    assert board.judge(ACME_MAIL, LATE, notifies=True) == Closed(
        SEVEN + HOUR, "maintenance: disks; quiet hours"
    )
    assert board.judge(OTHER_MAIL, LATE, notifies=True) == Closed(LATE + HOUR, "maintenance: disks")


def test_of_two_entries_for_the_same_the_last_holds() -> None:
    entries = [ScopedMaintenance(EVERYTHING, (WINDOW,)), ScopedMaintenance(EVERYTHING, ())]
    assert make_gate_settings(entries).judge(ACME_MAIL, LATE, notifies=False) == Open()


def test_a_scope_says_what_it_is() -> None:
    told = [str(scope) for scope in (EVERYTHING, Scope(tenant="acme"), Scope(queue="mail"))]
    assert told == ["everything", "tenant acme", "queue mail"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tenant": "a", "queue": "b"}, "queue"),
        ({"tenant": ""}, "tenant"),
        ({"tenant": "a/b"}, "tenant"),
        ({"queue": "b c"}, "queue"),
    ],
)
def test_a_wrong_scope_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        Scope(**fields)
    assert refused.value.details["field"] == field


@pytest.mark.parametrize(
    ("tenant", "hours", "field"), [("a b", NIGHT, "tenant"), ("acme", None, "hours")]
)
def test_wrong_quiet_hours_are_refused_by_name(tenant: str, hours: Any, field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        TenantQuietHours(tenant, hours)
    assert refused.value.details["field"] == field
