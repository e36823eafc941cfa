"""What the end of a job means for those that wait for it."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from rota.errors import IllegalMoveError
from rota.jobs import (
    Ending,
    Job,
    JobStatus,
    Recurrence,
    decide_block,
    decide_dependents,
    decide_release,
)
from rota.testing import a_job

P, Y, U, C, F, B = JobStatus
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def family() -> list[Job]:
    """``c`` waits for both ``a`` and ``b``, ``d`` for ``c``, and ``e`` for ``a`` alone."""
    return [
        a_job(id="a", status=U),
        a_job(id="b", status=C),
        a_job(id="c", dependencies=["a", "b"]),
        a_job(id="d", dependencies=["c"]),
        a_job(id="e", dependencies=["a"], status=B),
    ]


def test_an_end_reaches_the_jobs_it_concerns() -> None:
    def moves(status: JobStatus) -> dict[str, tuple[JobStatus, ...]]:
        changes = decide_dependents(a_job(id="a", status=status), family(), NOW)
        return {change.job_id: change.path for change in changes}

    assert moves(C) == {"c": (P, Y)}
    assert moves(F) == moves(B) == {"c": (P, B), "d": (P, B)}
    assert moves(U) == moves(Y) == moves(P) == {}


def test_a_released_job_starts_at_its_own_time() -> None:
    later = NOW.replace(year=2027)
    change = decide_release(a_job(status=P, due_at=later, last_token=3), NOW)
    assert (change.job.status, change.job.due_at, change.job.updated_at) == (Y, later, NOW)
    assert change.expected_token == 3


@pytest.mark.parametrize("status", [Y, U, C, F, B])
def test_only_a_waiting_job_is_released_or_blocked(status: JobStatus) -> None:
    with pytest.raises(IllegalMoveError):
        decide_release(a_job(status=status), NOW)
    with pytest.raises(IllegalMoveError):
        decide_block(a_job(status=status), NOW, "a")


def test_a_blocked_job_ends_its_series() -> None:
    recurring = a_job(status=P, recurrence=Recurrence(interval="1h", start=NOW))
    assert decide_block(recurring, NOW, "a").series_end == "a dependency of its job failed"
    assert decide_release(recurring, NOW).series_end is None
    assert decide_block(a_job(status=P), NOW, "a").series_end is None


def test_a_job_that_is_skipped_names_the_dependency_that_failed() -> None:
    waiting = a_job(status=P, dependencies=["a", "b"], on_parent_failure="skip")
    skipped = decide_block(waiting, NOW, "b").job
    assert (skipped.status, skipped.ending, skipped.updated_at) == (B, Ending.CANCELLED, NOW)
    assert skipped.last_error == "Skipped: its dependency b did not complete"
    blocked = decide_block(replace(waiting, on_parent_failure="block"), NOW, "b").job
    assert (blocked.status, blocked.ending, blocked.last_error) == (B, None, None)


def test_a_job_that_runs_whatever_its_dependencies_do_is_released_by_their_failure() -> None:
    jobs = [
        a_job(id="x", status=P, dependencies=["a"], on_parent_failure="run"),
        a_job(id="y", status=P, dependencies=["a", "b"], on_parent_failure="run"),
        a_job(id="z", status=P, dependencies=["c"], on_parent_failure="run"),
        a_job(id="b", status=U),
        a_job(id="c", status=C),
    ]
    changes = decide_dependents(a_job(id="a", status=F), jobs, NOW)
    assert [(change.job_id, change.path) for change in changes] == [("x", (P, Y))]
