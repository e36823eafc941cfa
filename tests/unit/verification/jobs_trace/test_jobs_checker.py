"""Each invariant can be broken, and is then named."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.verification.jobs_trace.story import BEGINS_AT, Story, play_story
from tests.verification.jobs_trace import check_liveness
from tests.verification.jobs_trace.records import (
    ApplyAnswered,
    ApplyCalled,
    AttemptStarted,
    ExtendAnswered,
    ExtendCalled,
    InsertAnswered,
    InsertCalled,
    LeaseAnswered,
    LeaseCalled,
    Move,
    MoveAnswer,
    PruneAnswered,
    PruneCalled,
)

from rota.jobs import JobStatus, make_job_id

LATER = timedelta(seconds=1)


@pytest.fixture
async def story() -> Story:
    return await play_story()


def kinds(story: Story) -> set[str]:
    return {job.kind for job in story.snapshot.jobs.values()}


def settled(story: Story, target: JobStatus) -> tuple[ApplyCalled, ApplyAnswered, Move]:
    """The first call that moves a job so, its answer, and the move."""
    call = story.find(ApplyCalled, lambda one: any(m.target is target for m in one.moves))
    answer = story.find(ApplyAnswered, lambda one: one.call == call.call)
    return call, answer, next(move for move in call.moves if move.target is target)


async def test_a_story_in_which_nothing_went_wrong_breaks_nothing(story: Story) -> None:
    assert kinds(story) == {"plain", "failing", "snoozing", "recurring"}
    assert {job.status for job in story.snapshot.jobs.values()} == {JobStatus.COMPLETED}
    assert len(story.snapshot.jobs) == 7
    assert story.judge().breaches == ()
    assert story.judge().entry_count == len(story.history)


async def test_i1_a_job_that_disappears_is_missed(story: Story) -> None:
    story.snapshot.jobs.popitem()
    assert "I1" in story.judge().invariants


async def test_i1_a_job_that_was_pruned_is_not_missed(story: Story) -> None:
    last = story.history[-1]
    pruned = PruneCalled(at=last.at, call=99_999, limit=5)
    story.history += [pruned, PruneAnswered(at=last.at, call=99_999, count=1)]
    gone = story.snapshot.jobs.popitem()[1]
    story.snapshot.attempts.pop(gone.id, None)
    story.snapshot.counts[gone.status] -= 1
    assert story.judge().breaches == ()


async def test_i1_an_insert_without_an_answer_promises_nothing(story: Story) -> None:
    call = story.find(InsertCalled)
    extra = replace(call, call=99_999, jobs=(replace(call.jobs[0], id=make_job_id(BEGINS_AT, 77)),))
    story.insert_after(call, extra)
    assert story.judge().breaches == ()
    story.insert_after(extra, replace(story.find(InsertAnswered), call=99_999))
    assert story.judge().breaches == ()


async def test_i2_a_job_that_ends_twice_is_noticed(story: Story) -> None:
    call, answer, _ = settled(story, JobStatus.COMPLETED)
    story.insert_after(answer, replace(call, call=99_999), replace(answer, call=99_999))
    assert {"I2", "I5"} <= story.judge().invariants


async def test_i2_another_end_than_was_written_is_noticed(story: Story) -> None:
    _, _, move = settled(story, JobStatus.COMPLETED)
    story.keep(replace(story.snapshot.jobs[move.job_id], status=JobStatus.FAILED))
    assert story.judge().invariants == {"I2"}


async def test_i2_a_lease_after_the_end_is_noticed(story: Story) -> None:
    _, answer, move = settled(story, JobStatus.COMPLETED)
    lease = story.find(
        LeaseAnswered, lambda one: any(grant.job_id == move.job_id for grant in one.grants)
    )
    grant = next(grant for grant in lease.grants if grant.job_id == move.job_id)
    at = answer.at + LATER
    story.history += [
        LeaseCalled(at=at, call=99_999, worker="late", now=at),
        LeaseAnswered(at=at, call=99_999, grants=(replace(grant, token=grant.token + 1),)),
    ]
    assert "I2" in story.judge().invariants


async def test_i3_attempts_that_are_not_counted_one_by_one_are_noticed(story: Story) -> None:
    job_id = next(job_id for job_id, kept in story.snapshot.attempts.items() if kept)
    first, *others = story.snapshot.attempts[job_id]
    story.snapshot.attempts[job_id] = [replace(first, number=2), *others]
    assert story.judge().invariants == {"I3"}


async def test_i1_a_job_that_is_lost_is_noticed_though_its_attempts_are_kept(story: Story) -> None:
    job_id = next(job_id for job_id, kept in story.snapshot.attempts.items() if kept)
    del story.snapshot.jobs[job_id]
    assert "I1" in story.judge().invariants


async def test_i3_a_number_given_to_a_handler_twice_is_noticed(story: Story) -> None:
    story.change(story.find(AttemptStarted, lambda one: one.number == 2), number=1)
    assert story.judge().invariants == {"I3"}


async def test_i4_a_lease_with_two_holders_is_noticed(story: Story) -> None:
    call, answer = story.find(LeaseCalled), story.find(LeaseAnswered, lambda one: bool(one.grants))
    story.insert_after(answer, replace(call, call=99_999), replace(answer, call=99_999))
    assert "I4" in story.judge().invariants


async def test_i4_a_lease_that_is_given_before_the_last_one_ended_is_noticed(story: Story) -> None:
    call, answer, move = settled(story, JobStatus.READY)
    story.change(call, moves=tuple(one for one in call.moves if one != move))
    kept = tuple(one for one, of in zip(answer.answers, call.moves, strict=True) if of != move)
    story.change(answer, answers=kept)
    assert "I4" in story.judge().invariants


async def test_i4_a_lease_that_is_taken_away_too_early_is_noticed(story: Story) -> None:
    call, _, move = settled(story, JobStatus.READY)
    lost = replace(move, outcome="lost")
    story.change(call, moves=tuple(lost if one == move else one for one in call.moves))
    assert story.judge().invariants == {"I4"}
    granted = [one for one in story.history if isinstance(one, LeaseAnswered)]
    for lease in granted:
        short = tuple(replace(grant, until=lease.at) for grant in lease.grants)
        story.change(lease, grants=short)
    assert story.judge().breaches == ()
    held, until = ((move.job_id, move.token),), call.now + LATER
    extended = ExtendCalled(at=BEGINS_AT, call=99_998, held=held, until=until, now=BEGINS_AT)
    story.insert_after(story.find(InsertAnswered), extended)
    assert story.judge().breaches == ()
    story.insert_after(extended, ExtendAnswered(at=BEGINS_AT, call=99_998, kept=(True,)))
    assert story.judge().invariants == {"I4"}


async def test_i5_a_zombie_that_settles_is_noticed(story: Story) -> None:
    _, _, move = settled(story, JobStatus.READY)
    last = story.history[-1]
    zombie = ApplyCalled(at=last.at, call=99_999, moves=(move,), now=last.at)
    story.history.append(zombie)
    assert story.judge().breaches == (), "without an answer it may have been refused"
    story.history.append(ApplyAnswered(at=last.at, call=99_999, answers=(MoveAnswer(False),)))
    assert story.judge().breaches == ()
    story.change(story.history[-1], answers=(MoveAnswer(is_applied=True),))
    assert "I5" in story.judge().invariants


async def test_i5_work_without_a_lease_is_noticed(story: Story) -> None:
    story.change(story.find(AttemptStarted), worker="another")
    assert story.judge().invariants == {"I5"}


async def test_i5_an_end_without_work_is_noticed(story: Story) -> None:
    _, _, move = settled(story, JobStatus.COMPLETED)
    story.history.remove(
        story.find(AttemptStarted, lambda one: (one.job_id, one.token) == (move.job_id, move.token))
    )
    assert story.judge().invariants == {"I5"}


async def test_i5_an_invented_lease_is_noticed(story: Story) -> None:
    lease = story.find(LeaseAnswered, lambda one: bool(one.grants))
    story.history.remove(lease)
    assert story.judge().invariants == {"I5"}, "who ran them had no right to"
    story.history[:] = [one for one in story.history if not isinstance(one, AttemptStarted)]
    assert story.judge().breaches == (), "they may have been leased in a call that was cut off"
    story.history.remove(story.find(LeaseCalled, lambda one: one.call == lease.call))
    assert story.judge().invariants == {"I5"}


async def test_i6_two_jobs_with_one_key_are_noticed(story: Story) -> None:
    keyed = next(job for job in story.snapshot.jobs.values() if job.idempotency_key == "once")
    story.keep(replace(keyed, id=make_job_id(BEGINS_AT, 77)))
    assert "I6" in story.judge().invariants


async def test_i7_two_jobs_of_one_occurrence_are_noticed(story: Story) -> None:
    recurring = next(job for job in story.snapshot.jobs.values() if job.origin)
    story.keep(replace(recurring, id=make_job_id(BEGINS_AT, 77), idempotency_key="another"))
    assert "I7" in story.judge().invariants


async def test_i8_a_job_from_nowhere_is_noticed(story: Story) -> None:
    job = next(iter(story.snapshot.jobs.values()))
    story.keep(replace(job, id=make_job_id(BEGINS_AT, 77), idempotency_key=None, origin=None))
    story.snapshot.counts[job.status] += 1
    assert story.judge().invariants == {"I8"}


async def test_i8_a_count_that_is_wrong_is_noticed(story: Story) -> None:
    story.snapshot.counts[JobStatus.READY] += 1
    assert story.judge().invariants == {"I8"}


async def test_i8_more_pruned_than_is_gone_is_noticed(story: Story) -> None:
    last = story.history[-1]
    story.history += [
        PruneCalled(at=last.at, call=99_999, limit=5),
        PruneAnswered(at=last.at, call=99_999, count=1),
    ]
    assert story.judge().invariants == {"I8"}


async def test_i11_a_lease_before_the_time_is_noticed(story: Story) -> None:
    call, _, move = settled(story, JobStatus.READY)
    later = replace(move, due_at=move.due_at + timedelta(hours=1))
    story.change(call, moves=tuple(later if one == move else one for one in call.moves))
    assert story.judge().invariants == {"I11"}


async def test_i12_a_job_that_waits_too_long_is_noticed(story: Story) -> None:
    def judge(since: timedelta, within: timedelta) -> frozenset[str]:
        verdict = check_liveness(
            story.history, story.snapshot, since=BEGINS_AT + since, within=within
        )
        return frozenset(verdict.invariants)

    assert judge(timedelta(0), timedelta(seconds=2)) == frozenset()
    lease = story.find(LeaseCalled)
    story.change(lease, now=lease.now + timedelta(minutes=3))
    assert judge(timedelta(0), timedelta(seconds=2)) == {"I12"}
    assert judge(timedelta(minutes=5), timedelta(seconds=2)) == frozenset()
    left = next(iter(story.snapshot.jobs.values()))
    story.keep(replace(left, status=JobStatus.READY))
    assert judge(timedelta(minutes=5), timedelta(seconds=2)) == {"I12"}


async def test_a_verdict_names_the_violation(story: Story) -> None:
    story.snapshot.counts[JobStatus.READY] += 1
    with pytest.raises(AssertionError, match="the store counts 8 jobs and lists 7"):
        story.judge().assert_ok()
