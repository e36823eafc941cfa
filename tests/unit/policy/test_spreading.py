"""What was held back together is not let go in the same second."""

from collections import Counter
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.policy.gates import Chain, Closed, Maintenance, Open, Spread, share_of, spread_out
from rota.policy.quiet_hours import QuietHours
from rota.testing import a_job

NIGHT = QuietHours(time(22), time(7), UTC)
MIDNIGHT = datetime(2026, 1, 6, tzinfo=UTC)
SEVEN = MIDNIGHT + timedelta(hours=7)
MINUTES = timedelta(minutes=1)
HELD = Closed(SEVEN, "quiet hours")
JOBS = [a_job() for _ in range(1000)]


def starts(gate: Any = NIGHT, *, now: datetime = MIDNIGHT, over: int = 5) -> list[datetime]:
    return [
        spread_out(gate, job, HELD, now, notifies=True, over_for=over * MINUTES).reopens_at
        for job in JOBS
    ]


def test_a_burst_is_spread_evenly_and_never_before_the_reopening() -> None:
    found = starts()
    assert min(found) >= SEVEN
    assert max(found) < SEVEN + 5 * MINUTES
    per_minute = Counter((instant - SEVEN) // MINUTES for instant in found)
    assert all(150 < per_minute[minute] < 250 for minute in range(5))
    assert max(Counter(instant.replace(microsecond=0) for instant in found).values()) < 20


def test_a_job_is_given_the_same_instant_every_time() -> None:
    assert starts() == starts(now=MIDNIGHT + timedelta(hours=2))
    assert share_of(JOBS[0].id) == share_of(str(JOBS[0].id))
    assert all(0 <= share_of(job.id) < 1 for job in JOBS)


def test_no_job_waits_for_longer_than_it_was_held_back() -> None:
    found = starts(now=SEVEN - MINUTES)
    assert SEVEN + 0.9 * MINUTES < max(found) < SEVEN + MINUTES


def test_no_job_is_sent_into_a_window_that_is_closed() -> None:
    soon = Maintenance(from_at=SEVEN + MINUTES, until=SEVEN + timedelta(hours=1))
    gate = Chain([NIGHT, soon])
    found = starts(gate)
    assert all(gate.judge(JOBS[0], instant, notifies=True) == Open() for instant in found)
    assert min(found) >= SEVEN
    assert max(found) < SEVEN + MINUTES
    assert len(set(found)) > 900


def test_without_room_to_spread_jobs_start_at_the_reopening() -> None:
    at_once = Maintenance(from_at=SEVEN + timedelta(microseconds=1))
    assert set(starts(Chain([NIGHT, at_once]))) == {SEVEN}


def test_the_reason_stays() -> None:
    held = spread_out(NIGHT, JOBS[0], HELD, MIDNIGHT, notifies=True, over_for=MINUTES)
    assert held.reason == "quiet hours"
    assert not held.is_recheck


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"over_for": 5}, "over_for"),
        ({"over_for": -MINUTES}, "over_for"),
        ({"exact_count": -1}, "exact_count"),
        ({"exact_count": "10"}, "exact_count"),
    ],
)
def test_wrong_parts_are_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{field} must") as refused:
        Spread(**fields)
    assert refused.value.details["field"] == field


def test_spreading_may_begin_with_the_first_job() -> None:
    assert Spread(exact_count=0).exact_count == 0


def test_a_gate_that_soon_closes_again_is_asked_eight_times() -> None:
    asked: list[datetime] = []

    class NeverOpen:
        def judge(self, job: Any, now: datetime, *, notifies: bool) -> Closed:  # noqa: ARG002 - the protocol
            asked.append(now)
            return HELD

    spread = spread_out(
        NeverOpen(), JOBS[0], HELD, MIDNIGHT, notifies=True, over_for=timedelta(minutes=5)
    )
    assert spread == HELD
    assert len(asked) == 8
    assert asked == sorted(asked, reverse=True)
