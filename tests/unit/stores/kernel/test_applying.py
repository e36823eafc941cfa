"""What a call with several changes writes."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from tests.unit.stores.kernel.stored import StoredJobs

from rota.errors import IllegalMoveError, InvalidInputError
from rota.jobs import (
    PAUSED_UNTIL,
    Change,
    Ending,
    Failed,
    Job,
    JobStatus,
    Recurrence,
    RetryPolicy,
    Succeeded,
    decide_cancel,
    decide_complete,
    decide_fail,
    decide_outcome,
)
from rota.jobs.recurrence import begin_beside
from rota.stores.kernel.settlement import (
    apply,
    check_path,
    check_paths,
    find_plain,
    make_successor,
    merge_answers,
)
from rota.stores.kernel.unit import Decision
from rota.stores.protocol import STALE, Applied
from rota.testing import a_job

NOW = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
HOURLY = Recurrence(interval="1h", start=datetime(2026, 1, 1, tzinfo=UTC))


def running(**fields: object) -> Job:
    return a_job(status=JobStatus.RUNNING, **fields)


def apply_to(stored: StoredJobs, *changes: Change) -> Decision[list[Applied]]:
    return stored.decide(apply(changes, NOW))


def test_two_jobs_with_the_same_next_occurrence_create_it_once() -> None:
    one, other = (
        running(idempotency_key="key", occurrence=name, recurrence=HOURLY) for name in "ab"
    )
    writes, answers = apply_to(
        StoredJobs(one, other), decide_complete(one, NOW), decide_complete(other, NOW)
    )
    assert [each.successor is not None for each in answers] == [True, False]
    assert len(writes.new) == 1


def test_a_next_occurrence_whose_key_exists_is_not_created() -> None:
    job = running(idempotency_key="key", occurrence="a", recurrence=HOURLY)
    change = decide_complete(job, NOW)
    assert change.successor is not None
    twin = a_job(idempotency_key="key", occurrence=change.successor.occurrence)
    writes, (answer,) = apply_to(StoredJobs(job, twin), change)
    assert answer.successor is None
    assert writes.new == {}


def test_a_next_job_that_exists_is_not_created_again() -> None:
    job = running(recurrence=HOURLY)
    change = decide_complete(job, NOW)
    assert change.successor is not None
    writes, (answer,) = apply_to(StoredJobs(job, change.successor), change)
    assert answer.successor is None
    assert writes.new == {}


def test_a_failure_that_an_amended_policy_makes_the_last_finds_a_next_job_that_exists() -> None:
    """The change names no successor, so its id is read only after the policy is followed."""
    job = running(recurrence=HOURLY, retry_policy=RetryPolicy(max_attempts=3))
    amended = replace(job, retry_policy=RetryPolicy(max_attempts=1))
    change = decide_fail(job, "no", NOW)
    assert change.successor is None
    following = decide_fail(amended, "no", NOW).successor
    assert following is not None
    writes, (answer,) = apply_to(StoredJobs(amended), change)
    assert answer.successor == following
    assert set(writes.new) == {following.id}
    writes, (answer,) = apply_to(StoredJobs(amended, following), change)
    assert answer.successor is None
    assert writes.new == {}
    assert writes.moved[job.id].status is JobStatus.FAILED
    unreadable = StoredJobs(amended, following, damaged=[following.id])
    assert apply_to(unreadable, change).writes.moved[job.id].status is JobStatus.FAILED


def test_a_waiting_job_that_is_cancelled_in_the_same_call_is_written_once() -> None:
    parent, other = running(), a_job()
    child = a_job(dependencies=[parent.id, other.id])
    writes, _ = apply_to(
        StoredJobs(parent, other, child),
        decide_complete(parent, NOW),
        decide_cancel(child, "no", NOW),
    )
    assert writes.placed == {}
    assert writes.moved[child.id].status is JobStatus.BLOCKED
    assert writes.moved[child.id].ending is Ending.CANCELLED


def test_a_job_that_ends_after_its_parent_did_no_longer_waits() -> None:
    parent = running()
    child = a_job(dependencies=[parent.id])
    writes, answers = apply_to(
        StoredJobs(parent, child), decide_cancel(child, "no", NOW), decide_complete(parent, NOW)
    )
    assert writes.placed == {}
    assert [each.released for each in answers] == [(), ()]


def test_a_next_job_that_is_cancelled_in_the_same_call_is_created_as_cancelled() -> None:
    job = running(recurrence=HOURLY)
    change = decide_complete(job, NOW)
    assert change.successor is not None
    writes, answers = apply_to(StoredJobs(job), change, decide_cancel(change.successor, "no", NOW))
    assert not any(each.is_stale for each in answers)
    assert writes.new[change.successor.id].job.status is JobStatus.FAILED
    assert set(writes.moved) == {job.id}


def test_a_removed_parent_needs_no_place_for_its_attempt_and_result() -> None:
    parent = running(auto_remove=True)
    child = a_job(dependencies=[parent.id])
    change = decide_outcome(parent, Succeeded(b"1", "a log"), NOW)
    writes, (answer,) = apply_to(StoredJobs(parent), change)
    assert answer.is_removed
    assert (writes.removed, writes.moved) == ({parent.id}, {})
    assert (writes.attempts, writes.results) == ([], {})
    writes, (answer,) = apply_to(StoredJobs(parent, child), change)
    assert not answer.is_removed
    assert writes.results == {parent.id: b"1"}
    assert [each.log for each in writes.attempts] == ["a log"]


def test_a_chain_that_ends_in_one_call_is_removed_as_a_whole() -> None:
    parent = running(auto_remove=True)
    child = running(auto_remove=True, dependencies=[parent.id])
    writes, answers = apply_to(
        StoredJobs(parent, child), decide_complete(child, NOW), decide_complete(parent, NOW)
    )
    assert writes.removed == {parent.id, child.id}
    assert [each.is_removed for each in answers] == [True, True]


def test_a_next_job_that_is_removed_in_the_same_call_is_never_written() -> None:
    job = running(recurrence=HOURLY)
    change = decide_complete(job, NOW)
    assert change.successor is not None
    gone = replace(decide_cancel(change.successor, "no", NOW), is_removed=True)
    writes, answers = apply_to(StoredJobs(job), change, gone)
    assert answers[1].is_removed
    assert writes.new == {}
    assert writes.removed == set()


def test_a_result_is_kept_only_of_a_job_that_completed() -> None:
    job = running()
    change = replace(decide_outcome(job, Failed("no"), NOW), result=b"1")
    assert apply_to(StoredJobs(job), change).writes.results == {}


def test_one_change_sees_what_another_did_to_the_same_job() -> None:
    job = running()
    change = decide_complete(job, NOW)
    writes, answers = apply_to(StoredJobs(job), change, change)
    assert answers[1] == STALE
    assert set(writes.moved) == {job.id}


def test_dependents_are_reached_level_by_level_and_a_run_policy_releases() -> None:
    parent = running(retry_policy=RetryPolicy(max_attempts=1))
    blocked = a_job(dependencies=[parent.id])
    skipped = a_job(dependencies=[parent.id], on_parent_failure="skip")
    released = a_job(dependencies=[parent.id], on_parent_failure="run")
    half = a_job(dependencies=[parent.id, released.id], on_parent_failure="run")
    deep = a_job(dependencies=[blocked.id])
    stored = StoredJobs(parent, blocked, skipped, released, half, deep)
    writes, (answer,) = apply_to(stored, decide_fail(parent, "no", NOW))
    assert answer.released == (released.id,)
    assert answer.blocked == (blocked.id, skipped.id, deep.id)
    assert writes.placed[skipped.id].ending is Ending.CANCELLED
    assert parent.id in (writes.placed[skipped.id].error or "")
    assert writes.placed[blocked.id].ending is None
    assert (writes.placed[half.id].status, writes.placed[half.id].open_count) == (
        JobStatus.PENDING,
        1,
    )


def test_a_job_that_runs_beside_its_successor_notes_that_its_series_goes_on() -> None:
    job = running(recurrence=replace(HOURLY, overlap="allow"))
    change = begin_beside(job, NOW)
    assert change is not None
    writes, (answer,) = apply_to(StoredJobs(job), change)
    assert answer.successor == change.successor
    noted = writes.amended[job.id].job.recurrence
    assert noted is not None
    assert noted.is_continued
    assert writes.moved == {}
    other_rule = replace(job, recurrence=replace(HOURLY, overlap="allow", interval="2h"))
    assert apply_to(StoredJobs(other_rule), change).writes.amended == {}
    with pytest.raises(InvalidInputError, match="changes in one call"):
        apply_to(StoredJobs(job), change, decide_complete(job, NOW))


def test_a_successor_takes_amendments_and_the_new_rule() -> None:
    job = running(recurrence=HOURLY)
    change = decide_complete(job, NOW)
    renamed = make_successor(change, replace(job, name="new", priority=9))
    assert renamed is not None
    assert (renamed.name, renamed.priority) == ("new", 9)
    assert renamed.due_at == NOW.replace(second=0, hour=1)
    paused = make_successor(change, replace(job, is_paused=True))
    assert paused is not None
    assert paused.due_at == PAUSED_UNTIL
    slower = make_successor(change, replace(job, recurrence=replace(HOURLY, interval="3h")))
    assert slower is not None
    assert slower.due_at == NOW.replace(second=0, hour=3)
    assert make_successor(change, replace(job, recurrence=None)) is None


def test_a_new_rule_does_not_revive_a_cancelled_series_nor_continue_an_open_job() -> None:
    job = running(recurrence=HOURLY, retry_policy=RetryPolicy(max_attempts=3))
    amended = replace(job, recurrence=replace(HOURLY, interval="3h"))
    assert make_successor(decide_cancel(job, "no", NOW), amended) is None
    assert make_successor(decide_fail(job, "no", NOW), amended) is None
    ended_alone = decide_cancel(job, "no", NOW, ends_series=False)
    assert make_successor(ended_alone, amended) is not None
    last = replace(job, recurrence=replace(HOURLY, count=1))
    assert make_successor(decide_complete(last, NOW), amended) is not None


def test_a_new_rule_counts_since_when_its_series_has_not_succeeded() -> None:
    job = running(recurrence=HOURLY)
    rule = replace(HOURLY, interval="3h", alert_after="1h")
    amended = replace(job, recurrence=rule)
    succeeded = make_successor(decide_complete(job, NOW), amended)
    assert succeeded is not None
    assert succeeded.recurrence is not None
    assert succeeded.recurrence.unmet_since is None
    once = replace(job, retry_policy=RetryPolicy(max_attempts=1))
    failed = make_successor(decide_fail(once, "no", NOW), replace(once, recurrence=rule))
    assert failed is not None
    assert failed.recurrence is not None
    assert failed.recurrence.unmet_since == job.due_at


def test_only_completions_without_consequences_are_plain() -> None:
    job, recurring, removed, failed = (
        running(),
        running(recurrence=HOURLY),
        running(auto_remove=True),
        running(),
    )
    plain = decide_complete(job, NOW)
    others = [
        decide_complete(recurring, NOW),
        decide_complete(removed, NOW),
        decide_fail(failed, "no", NOW),
    ]
    assert find_plain([plain, *others]) == [plain]
    assert find_plain([plain, plain]) == []
    answers = merge_answers([others[0], plain, others[1]], {job.id}, [STALE, Applied(removed)])
    assert answers == [STALE, Applied(plain.job), Applied(removed)]


def test_a_path_that_no_job_can_take_is_refused() -> None:
    job = running()
    good = decide_complete(job, NOW)
    check_path(good)
    check_paths([good])
    bad = replace(good, path=(JobStatus.COMPLETED, JobStatus.RUNNING))
    with pytest.raises(IllegalMoveError):
        check_path(bad)
    with pytest.raises(IllegalMoveError):
        check_paths([good, bad])


def test_a_change_sees_that_a_dependency_ended_earlier_in_the_same_call() -> None:
    parent = running()
    child = a_job(dependencies=[parent.id])
    ready = replace(child, status=JobStatus.READY)
    writes, answers = apply_to(
        StoredJobs(parent, child), decide_complete(parent, NOW), decide_cancel(ready, "no", NOW)
    )
    assert (answers[0].released, answers[1].is_stale) == ((child.id,), False)
    assert writes.moved[child.id].status is JobStatus.FAILED
    assert apply_to(StoredJobs(child), decide_cancel(ready, "no", NOW)).answer == [STALE]


def test_a_job_that_cannot_be_read_or_is_gone_makes_only_its_own_change_stale() -> None:
    good, damaged, gone = running(), running(), running()
    stored = StoredJobs(good, damaged, damaged=[damaged.id])
    writes, answers = apply_to(stored, *(decide_complete(it, NOW) for it in (damaged, good, gone)))
    assert [each.is_stale for each in answers] == [True, False, True]
    assert set(writes.moved) == {good.id}


def test_a_next_job_waits_for_nothing_and_nothing_waits_for_it() -> None:
    job = running(recurrence=HOURLY)
    change = decide_complete(job, NOW)
    assert change.successor is not None
    (new,) = apply_to(StoredJobs(job), change).writes.new.values()
    assert (new.job, new.open_count, new.is_awaited) == (change.successor, 0, False)
    assert new.unreadable is None


def test_those_who_listen_where_jobs_became_ready_or_ended_are_woken() -> None:
    parent, other = running(queue="first"), running()
    child = a_job(queue="second", dependencies=[parent.id])
    blocked = a_job(queue="third", dependencies=[other.id])
    once = replace(other, retry_policy=RetryPolicy(max_attempts=1))
    writes, _ = apply_to(
        StoredJobs(parent, once, child, blocked),
        decide_complete(parent, NOW),
        decide_fail(once, "no", NOW),
    )
    assert writes.ready_partitions() == {("default", "second")}
    assert writes.ended_jobs() == {parent.id, other.id, blocked.id}
    retried = apply_to(StoredJobs(other), decide_fail(other, "no", NOW)).writes
    assert retried.ready_partitions() == {("default", other.queue)}
    assert retried.ended_jobs() == set()
    series = running(queue="series", recurrence=HOURLY)
    continued = apply_to(StoredJobs(series), decide_complete(series, NOW)).writes
    assert continued.ready_partitions() == {("default", "series")}
    assert continued.ended_jobs() == {series.id}
