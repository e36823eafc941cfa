"""Who may be what kills its workers."""

from datetime import UTC, datetime

import pytest

from rota.jobs import (
    JobStatus,
    Lease,
    RetryPolicy,
    Suspicion,
    decide_complete,
    decide_fail,
    decide_hand_back,
    decide_lost,
    judge_suspicion,
)
from rota.testing import a_job

NOW = datetime(2026, 5, 1, tzinfo=UTC)
LEASE = Lease(token=1, worker="w", taken_at=NOW, until=NOW)


@pytest.mark.parametrize(
    ("losses", "attempts", "most", "suspicion"),
    [
        (0, 0, 3, Suspicion.NONE),
        (0, 2, 3, Suspicion.NONE),
        (1, 1, 5, Suspicion.SLIGHT),
        (1, 1, 3, Suspicion.SLIGHT),
        (1, 1, 2, Suspicion.GRAVE),
        (1, 2, 3, Suspicion.GRAVE),
        (1, 3, 5, Suspicion.SLIGHT),
        (2, 2, 5, Suspicion.GRAVE),
        (2, 2, 10, Suspicion.GRAVE),
    ],
)
def test_suspicion_is_grave_when_one_more_loss_would_be_the_end(
    losses: int, attempts: int, most: int, suspicion: Suspicion
) -> None:
    policy = RetryPolicy(max_attempts=most)
    job = a_job(loss_count=losses, attempt_count=attempts, retry_policy=policy)
    assert judge_suspicion(job) is suspicion


@pytest.mark.parametrize(("losses", "most"), [(1, 5), (1, 2), (2, 5)])
def test_grave_means_that_a_loss_ends_the_job_and_slight_that_it_does_not(
    losses: int, most: int
) -> None:
    policy = RetryPolicy(max_attempts=most)
    job = a_job(
        loss_count=losses,
        attempt_count=losses,
        retry_policy=policy,
        status=JobStatus.RUNNING,
        lease=LEASE,
    )
    is_dead = decide_lost(job, NOW).job.status is JobStatus.FAILED
    assert (judge_suspicion(job) is Suspicion.GRAVE) is is_dead


def test_any_other_end_clears_a_suspect_and_being_handed_back_does_not() -> None:
    suspect = a_job(loss_count=1, attempt_count=1, status=JobStatus.RUNNING, lease=LEASE)
    assert judge_suspicion(decide_fail(suspect, "an error", NOW).job) is Suspicion.NONE
    assert judge_suspicion(decide_complete(suspect, NOW).job) is Suspicion.NONE
    assert judge_suspicion(decide_hand_back(suspect, NOW).job) is Suspicion.SLIGHT
