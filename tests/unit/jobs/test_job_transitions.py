"""The transitions between the states of a job."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.jobs.arbitrary import CHANCES, INSTANTS, OUTCOMES, START, TEXTS, always, jobs

from rota.errors import IllegalMoveError, InvalidInputError
from rota.jobs import (
    RAIL_RETRIES,
    Cancelled,
    Change,
    Deferral,
    Ending,
    Interrupted,
    Job,
    JobStatus,
    Lease,
    Lost,
    Outcome,
    RetryPolicy,
    can_transition,
    decide_cancel,
    decide_complete,
    decide_defer,
    decide_discard,
    decide_fail,
    decide_hand_back,
    decide_lease,
    decide_lost,
    decide_outcome,
    decide_snooze,
    encode_job,
    retry_after,
)
from rota.jobs.transitions import LONGEST_ERROR
from rota.testing import a_job

P, Y, U, C, F, B = JobStatus
NOW = START + timedelta(seconds=30)
MINUTE = timedelta(minutes=1)

Decision = Callable[[Job, datetime], Change]
DECISIONS: dict[str, Decision] = {
    "lease": lambda job, now: decide_lease(job, "w", MINUTE, now),
    "complete": decide_complete,
    "fail": lambda job, now: decide_fail(job, "boom", now),
    "lost": decide_lost,
    "discard": lambda job, now: decide_discard(job, "bad", now),
    "snooze": lambda job, now: decide_snooze(job, MINUTE, now),
    "defer": lambda job, now: decide_defer(job, now + MINUTE, "quiet hours", now),
    "hand back": decide_hand_back,
    "cancel": lambda job, now: decide_cancel(job, "enough", now),
}
SOURCES = {"lease": {Y}, "cancel": {P, Y, U}}


def running(**fields: object) -> Job:
    return a_job(status=U, created_at=START, **fields)


@always
@given(st.sampled_from(sorted(DECISIONS)), jobs(), INSTANTS)
def test_no_decision_leaves_the_table_of_moves(name: str, job: Job, now: datetime) -> None:
    assume(name != "lease" or job.due_at <= now)
    if job.status not in SOURCES.get(name, {U}):
        with pytest.raises(IllegalMoveError) as refusal:
            DECISIONS[name](job, now)
        assert refusal.value.current is job.status
        return
    change = DECISIONS[name](job, now)
    assert change.path[0] is change.expected_status is job.status
    assert change.path[-1] is change.job.status
    assert all(can_transition(here, there) for here, there in pairwise(change.path))


@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.parametrize("status", [C, F, B])
def test_an_ended_job_stays_ended(name: str, status: JobStatus) -> None:
    with pytest.raises(IllegalMoveError, match=f"cannot move from {status} to"):
        DECISIONS[name](a_job(status=status), NOW)


@always
@given(jobs(U), OUTCOMES, INSTANTS, CHANCES)
def test_every_outcome_ends_the_lease_and_keeps_the_token(
    job: Job, outcome: Outcome, now: datetime, chance: float
) -> None:
    change = decide_outcome(job, outcome, now, chance)
    assert change.job.lease is None
    assert change.expected_token == job.last_token == change.job.last_token
    assert change.job.updated_at == now
    assert change.job_id == job.id
    assert (change.job.ending is not None) is (change.job.status is F)


@always
@given(jobs(U), OUTCOMES, INSTANTS, CHANCES)
def test_only_what_failed_counts_and_never_more_than_once(
    job: Job, outcome: Outcome, now: datetime, chance: float
) -> None:
    after = decide_outcome(job, outcome, now, chance).job
    spent = after.attempt_count - job.attempt_count
    assert spent == (type(outcome).__name__ in {"Failed", "Lost", "Discarded"})
    assert after.attempt_count <= job.retry_policy.max_attempts
    fixed = {"id", "tenant", "queue", "name", "kind", "payload", "priority", "dependencies"}
    fixed |= {"retry_policy", "recurrence", "occurrence", "occurrence_at", "created_at"}
    assert all(getattr(after, name) == getattr(job, name) for name in fixed)


@always
@given(jobs(U), TEXTS, INSTANTS, CHANCES)
def test_a_failure_is_retried_by_the_policy_or_is_the_last(
    job: Job, error: str, now: datetime, chance: float
) -> None:
    change = decide_fail(job, error, now, chance)
    count = job.attempt_count + 1
    assert change.job.attempt_count == count
    assert change.job.last_error == error
    if count < job.retry_policy.max_attempts:
        assert change.path == (U, Y)
        assert change.job.due_at == now + retry_after(job.retry_policy, count, chance)
        assert change.successor is None
    else:
        assert change.path == (U, F)
        assert change.job.ending is Ending.EXHAUSTED


def test_the_fifth_failure_is_the_last_of_five_attempts() -> None:
    job = running(retry_policy=RAIL_RETRIES)
    waits = []
    while True:
        change = decide_fail(job, "boom", NOW)
        if change.job.status is F:
            break
        waits.append((change.job.due_at - NOW).total_seconds())
        job = decide_lease(change.job, "w", MINUTE, change.job.due_at).job
    assert waits == [60, 300, 900, 3600]
    assert change.job.attempt_count == 5


def test_an_attempt_that_failed_is_kept_with_its_error() -> None:
    job = running(attempt_count=1, id="j")
    lost = decide_lost(job, NOW).attempt
    failed = decide_fail(job, "boom", NOW).attempt
    assert failed is not None
    assert lost is not None
    assert (failed.job_id, failed.number, failed.token, failed.worker) == ("j", 2, 1, "a worker")
    assert (failed.started_at, failed.ended_at) == (START, NOW)
    assert (failed.outcome, failed.error) == ("failed", "boom")
    assert (lost.outcome, lost.error) == (
        "lost",
        "Lost: worker a worker let its lease run out at 2026-01-01T00:01:00.000000Z",
    )
    unspent = [decide_complete, decide_hand_back]
    assert [decide(job, NOW).attempt for decide in unspent] == [None, None]


def test_a_lost_attempt_is_spent_and_waits_like_a_failed_one() -> None:
    change = decide_lost(running(), NOW)
    assert (change.job.status, change.job.attempt_count, change.job.loss_count) == (Y, 1, 1)
    assert change.job.due_at == NOW + timedelta(seconds=10)
    last = running(retry_policy=RetryPolicy(max_attempts=1))
    assert decide_lost(last, NOW).job.ending is Ending.EXHAUSTED


def test_the_third_loss_in_a_row_sets_the_job_aside() -> None:
    patient = RetryPolicy(max_attempts=10)
    change = decide_lost(running(loss_count=2, retry_policy=patient), NOW)
    assert (change.job.status, change.job.ending) == (F, Ending.LOST)
    assert change.job.last_error is not None
    assert change.job.last_error.endswith("; set aside after 3 losses in a row")
    assert decide_lost(running(loss_count=1, retry_policy=patient), NOW).job.status is Y


def test_losses_are_in_a_row_only_while_nothing_else_happens() -> None:
    job = running(loss_count=2)
    counts = {
        name: decide(job, NOW).job.loss_count
        for name, decide in DECISIONS.items()
        if name not in {"lease", "lost"}
    }
    assert counts == {
        "complete": 0,
        "fail": 0,
        "discard": 0,
        "snooze": 0,
        "defer": 2,
        "hand back": 2,
        "cancel": 2,
    }


def test_a_snooze_spends_nothing_and_may_last_forever() -> None:
    change = decide_snooze(running(attempt_count=2), timedelta(hours=3), NOW)
    assert (change.job.status, change.job.attempt_count) == (Y, 2)
    assert change.job.due_at == NOW + timedelta(hours=3)
    forever = decide_snooze(running(), timedelta.max, NOW).job.due_at
    assert forever == datetime.max.replace(tzinfo=UTC)
    assert decide_snooze(running(), timedelta(0), NOW).job.due_at == NOW
    with pytest.raises(InvalidInputError, match="cannot be snoozed for -1 day"):
        decide_snooze(running(), timedelta(microseconds=-1), NOW)


def test_a_discarded_job_has_failed_for_good() -> None:
    change = decide_discard(running(), "no such user", NOW)
    assert (change.job.status, change.job.ending) == (F, Ending.DISCARDED)
    assert (change.job.attempt_count, change.job.last_error) == (1, "no such user")


def test_a_deferral_spends_nothing_and_says_until_when_and_why() -> None:
    until = NOW + timedelta(hours=9)
    change = decide_defer(running(attempt_count=1), until, "quiet hours", NOW)
    assert (change.job.status, change.job.attempt_count, change.job.due_at) == (Y, 1, until)
    assert change.job.deferral == Deferral(until=until, reason="quiet hours", count=1)
    again = replace(change.job, status=U, lease=running().lease)
    assert decide_defer(again, until, "maintenance", NOW).job.deferral == Deferral(
        until=until, reason="maintenance", count=2
    )


def test_a_returned_job_can_be_leased_at_once_and_has_spent_nothing() -> None:
    job = running(attempt_count=1, due_at=START)
    change = decide_hand_back(job, NOW)
    assert encode_job(change.job) == encode_job(replace(job, status=Y, lease=None, updated_at=NOW))
    assert decide_outcome(job, Interrupted(), NOW) == change


def test_a_lease_has_a_greater_token_than_any_before() -> None:
    change = decide_lease(a_job(last_token=7, due_at=NOW), "w-1", MINUTE, NOW)
    lease = Lease(token=8, worker="w-1", taken_at=NOW, until=NOW + MINUTE)
    assert (change.job.status, change.job.lease, change.job.last_token) == (U, lease, 8)
    assert change.expected_token == 7


def test_a_job_cannot_be_taken_before_it_is_due() -> None:
    with pytest.raises(IllegalMoveError, match="it is due at 2026-01-01T00:01:00"):
        decide_lease(a_job(due_at=START + MINUTE), "w", MINUTE, NOW)


@pytest.mark.parametrize("name", [name for name in DECISIONS if name != "lease"])
def test_a_job_without_a_lease_cannot_be_settled(name: str) -> None:
    with pytest.raises(IllegalMoveError, match="it has no lease"):
        DECISIONS[name](running(lease=None), NOW)


@pytest.mark.parametrize(
    ("status", "path", "token"), [(P, (P, B), 0), (Y, (Y, U, F), 1), (U, (U, F), 1)]
)
def test_a_job_can_be_cancelled_in_any_state(
    status: JobStatus, path: tuple[JobStatus, ...], token: int
) -> None:
    job = a_job(status=status, created_at=START)
    change = decide_cancel(job, "enough", NOW)
    assert change.path == path
    assert (change.job.ending, change.job.last_error) == (Ending.CANCELLED, "enough")
    assert change.job.attempt_count == 0
    assert (change.expected_token, change.job.last_token) == (job.last_token, token)
    assert (change.attempt is not None) is (status is U)
    if status is U:
        assert decide_outcome(job, Cancelled("enough"), NOW) == change


def test_a_job_that_asks_for_it_is_removed_when_it_completes_and_only_then() -> None:
    job = running(auto_remove=True, retry_policy=RetryPolicy(max_attempts=1))
    assert decide_complete(job, NOW).is_removed
    assert not decide_complete(running(), NOW).is_removed
    assert not decide_fail(job, "boom", NOW).is_removed


@pytest.mark.parametrize("error", ["\ud800 half", "nul \x00 inside", "x" * 20_000])
def test_any_error_can_be_kept(error: str) -> None:
    kept = decide_fail(running(), error, NOW).job.last_error
    assert kept is not None
    assert kept.encode().decode() == kept
    assert "\x00" not in kept
    assert len(kept) <= LONGEST_ERROR


def test_a_long_error_keeps_its_beginning_and_shows_that_it_was_cut() -> None:
    kept = decide_fail(running(), "a" + "b" * LONGEST_ERROR, NOW).job.last_error
    assert kept == "a" + "b" * (LONGEST_ERROR - 2) + "…"
    assert decide_fail(running(), "c" * LONGEST_ERROR, NOW).job.last_error == "c" * LONGEST_ERROR


@always
@given(jobs(U), INSTANTS, CHANCES)
def test_a_rescue_decides_as_the_outcome_lost_does(job: Job, now: datetime, chance: float) -> None:
    assert decide_outcome(job, Lost(), now, chance) == decide_lost(job, now, chance)
