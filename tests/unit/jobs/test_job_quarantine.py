"""Who may be what kills its workers."""

from datetime import UTC, datetime

import pytest

from rota.jobs import (
    JobStatus,
    Lease,
    Quarantine,
    RetryPolicy,
    assess_quarantine,
    decide_complete,
    decide_fail,
    decide_hand_back,
    decide_lost,
)
from rota.testing import a_job

NOW = datetime(2026, 5, 1, tzinfo=UTC)
LEASE = Lease(token=1, worker="w", taken_at=NOW, until=NOW)


@pytest.mark.parametrize(
    ("losses", "attempts", "most", "quarantine"),
    [
        (0, 0, 3, Quarantine.NONE),
        (0, 2, 3, Quarantine.NONE),
        (1, 1, 5, Quarantine.SLIGHT),
        (1, 1, 3, Quarantine.SLIGHT),
        (1, 1, 2, Quarantine.SEVERE),
        (1, 2, 3, Quarantine.SEVERE),
        (1, 3, 5, Quarantine.SLIGHT),
        (2, 2, 5, Quarantine.SEVERE),
        (2, 2, 10, Quarantine.SEVERE),
    ],
)
def test_quarantine_is_severe_when_one_more_loss_would_be_the_end(
    losses: int, attempts: int, most: int, quarantine: Quarantine
) -> None:
    policy = RetryPolicy(max_attempts=most)
    job = a_job(loss_count=losses, attempt_count=attempts, retry_policy=policy)
    assert assess_quarantine(job) is quarantine


@pytest.mark.parametrize(("losses", "most"), [(1, 5), (1, 2), (2, 5)])
def test_severe_means_that_the_next_loss_ends_the_job(losses: int, most: int) -> None:
    policy = RetryPolicy(max_attempts=most)
    job = a_job(
        loss_count=losses,
        attempt_count=losses,
        retry_policy=policy,
        status=JobStatus.RUNNING,
        lease=LEASE,
    )
    is_dead = decide_lost(job, NOW).job.status is JobStatus.FAILED
    assert (assess_quarantine(job) is Quarantine.SEVERE) is is_dead


def test_any_outcome_but_a_return_ends_quarantine() -> None:
    suspect = a_job(loss_count=1, attempt_count=1, status=JobStatus.RUNNING, lease=LEASE)
    assert assess_quarantine(decide_fail(suspect, "an error", NOW).job) is Quarantine.NONE
    assert assess_quarantine(decide_complete(suspect, NOW).job) is Quarantine.NONE
    assert assess_quarantine(decide_hand_back(suspect, NOW).job) is Quarantine.SLIGHT
