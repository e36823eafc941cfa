"""Which jobs go, and from where a caller goes on."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.stores.kernel.stored import StoredJobs

from rota.errors import DuplicateJobError, JobNotFoundError
from rota.jobs import Job, JobId, JobStatus
from rota.jobs.fields import LOWEST_ID
from rota.jobs.retention import Expiry, Keep, Retention
from rota.stores.kernel.edits import (
    Amendment,
    Pruning,
    amend,
    check_insertion,
    delete,
    erase,
    insert,
    prune,
)
from rota.stores.kernel.unit import run
from rota.stores.protocol import EndedPlace, Pruned
from rota.testing import a_job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def ended(minutes: int, dependencies: tuple[JobId, ...] = (), kind: str = "mail") -> Job:
    """A job that completed that many minutes before now."""
    return a_job(
        kind=kind,
        status=JobStatus.COMPLETED,
        dependencies=dependencies,
        updated_at=NOW - minutes * MINUTE,
    )


def expiry(keep: Keep, *, is_preview: bool = False) -> Expiry:
    return Expiry(Retention(keep), NOW, is_preview)


def test_jobs_of_another_tenant_are_not_erased() -> None:
    mine, other = a_job(), a_job(tenant="other")
    writes, stayed = StoredJobs(mine, other).decide(erase("default", [mine.id, other.id], NOW))
    assert writes.removed == {mine.id}
    assert stayed == []


def test_ancestors_of_a_job_that_stays_are_not_erased() -> None:
    first = a_job()
    second = a_job(dependencies=[first.id])
    third = a_job(dependencies=[second.id])
    writes, stayed = StoredJobs(first, second, third).decide(
        erase("default", [second.id, first.id], NOW)
    )
    assert writes.removed == set()
    assert stayed == [first.id, second.id]


def test_a_deleted_job_has_the_tenant_that_was_named() -> None:
    job = a_job()
    writes, gone = StoredJobs(job).decide(delete("default", job.id))
    assert (writes.removed, gone) == ({job.id}, job)
    with pytest.raises(JobNotFoundError):
        StoredJobs(job).decide(delete("other", job.id))


def test_a_page_of_ended_jobs_that_is_full_names_where_to_go_on() -> None:
    old, young = ended(9), ended(8)
    writes, answer = StoredJobs(old, young, ended(7)).decide(prune(Pruning(NOW, 2)))
    assert writes.removed == {old.id, young.id}
    assert answer == Pruned(2, 2, EndedPlace(young.updated_at, young.id))


def test_after_the_last_ended_job_there_is_no_place_to_go_on() -> None:
    job = ended(9)
    stored = StoredJobs(job, ended(0))
    assert stored.decide(prune(Pruning(NOW, 2))).answer == Pruned(1, 1, None)
    place = EndedPlace(job.updated_at, job.id)
    assert stored.decide(prune(Pruning(NOW, 2, after=place))).answer == Pruned(0, 0, None)


def test_a_parent_goes_with_its_last_dependent_if_it_is_old_enough() -> None:
    old, young = ended(9), ended(0)
    child = ended(5, (old.id, young.id))
    writes, _ = StoredJobs(old, young, child).decide(prune(Pruning(NOW, 5)))
    assert writes.removed == {old.id, child.id}


def test_a_parent_stays_while_another_job_depends_on_it() -> None:
    parent = ended(9)
    child, waiting = ended(5, (parent.id,)), a_job(dependencies=[parent.id])
    writes, _ = StoredJobs(parent, child, waiting).decide(prune(Pruning(NOW, 5)))
    assert writes.removed == {child.id}


def test_a_parent_that_is_still_open_stays() -> None:
    """Its dependent was cancelled before it could start."""
    parent = a_job(status=JobStatus.READY, updated_at=NOW - 9 * MINUTE)
    child = a_job(status=JobStatus.BLOCKED, dependencies=[parent.id], updated_at=NOW - 5 * MINUTE)
    writes, _ = StoredJobs(parent, child).decide(prune(Pruning(NOW, 5)))
    assert writes.removed == {child.id}


def test_grandparents_go_in_the_same_call() -> None:
    first = ended(9)
    second = ended(8, (first.id,))
    third = ended(7, (second.id,))
    writes, answer = StoredJobs(first, second, third).decide(prune(Pruning(NOW, 5)))
    assert writes.removed == {first.id, second.id, third.id}
    assert answer == Pruned(3, 1, None)


def test_a_freed_parent_without_room_is_where_the_next_call_begins() -> None:
    parent = ended(9)
    child, later = ended(5, (parent.id,)), ended(4)
    writes, answer = StoredJobs(parent, child, later).decide(prune(Pruning(NOW, 1)))
    assert writes.removed == {child.id}
    assert answer == Pruned(1, 1, EndedPlace(parent.updated_at, LOWEST_ID))


def test_what_has_expired_is_removed_and_the_rest_loses_results_or_attempts() -> None:
    old, middle, young = ended(9), ended(5), ended(1)
    keep = Keep(ended=8 * MINUTE, results=3 * MINUTE, attempts=4 * MINUTE)
    writes, answer = StoredJobs(old, middle, young).decide(prune(Pruning(NOW, 9, expiry(keep))))
    assert writes.removed == {old.id}
    assert writes.without_results == {middle.id}
    assert writes.without_attempts == {middle.id}
    assert answer == Pruned(1, 3, None)


def test_a_preview_counts_all_that_would_go_and_writes_nothing() -> None:
    parent = ended(9)
    stored = StoredJobs(parent, ended(8, (parent.id,)), ended(7))
    writes, answer = stored.decide(
        prune(Pruning(NOW, 2, expiry(Keep(ended=MINUTE), is_preview=True)))
    )
    assert answer.removed == 3
    assert writes.removed == set()
    removed = stored.decide(prune(Pruning(NOW, 2, expiry(Keep(ended=MINUTE))))).writes.removed
    assert len(removed) == 2


def test_a_new_job_counts_the_dependencies_for_which_it_waits() -> None:
    done, waiting = ended(5), a_job()
    dead = a_job(status=JobStatus.FAILED)
    first = a_job(dependencies=[done.id, waiting.id])
    second = a_job(dependencies=[first.id, dead.id], on_parent_failure="run")
    writes, _ = StoredJobs(done, waiting, dead).decide(insert([first, second], NOW))
    assert [(each.open_count, each.is_awaited) for each in writes.new.values()] == [
        (1, True),
        (1, False),
    ]
    assert writes.awaited == {done.id, waiting.id, dead.id}


def test_an_amended_job_may_not_take_the_key_of_another() -> None:
    job = a_job(idempotency_key="mine")
    twin = a_job(idempotency_key="mine", kind="other")
    stored = StoredJobs(job, twin)
    renamed = stored.decide(amend(Amendment("default", job.id, {"name": "n"}, NOW))).answer
    assert renamed.name == "n"
    with pytest.raises(DuplicateJobError, match="with the same idempotency key under that kind"):
        stored.decide(amend(Amendment("default", job.id, {"kind": "other"}, NOW)))


def test_an_amendment_counts_dependencies_only_if_they_change() -> None:
    old, new = a_job(), a_job()
    job = a_job(dependencies=[old.id])
    stored = StoredJobs(old, new, job)

    def amended(fields: dict[str, object]) -> tuple[int | None, set[JobId]]:
        writes = stored.decide(amend(Amendment("default", job.id, fields, NOW))).writes
        return writes.amended[job.id].open_count, writes.awaited

    assert amended({"name": "n"}) == (None, set())
    assert amended({"dependencies": [old.id, new.id]}) == (2, {old.id, new.id})
    assert amended({"dependencies": []}) == (0, set())


def test_a_job_that_cannot_be_read_is_not_erased_and_does_not_hinder_others() -> None:
    job, damaged = a_job(), a_job()
    stored = StoredJobs(job, damaged, damaged=[damaged.id])
    writes, stayed = stored.decide(erase("default", [job.id, damaged.id], NOW))
    assert (writes.removed, stayed) == ({job.id}, [])


def test_those_that_ended_first_go_first_in_whatever_order_a_store_reads_them() -> None:
    parent = ended(9)
    child, later = ended(5, (parent.id,)), ended(4)
    stored = StoredJobs(parent, child, later)

    def answer_backwards(query: object) -> object:
        found = stored.answer(query)
        return dict(reversed(found.items())) if isinstance(found, dict) else found

    asked = Pruning(NOW, 2, expiry(Keep(ended=MINUTE)))
    writes = run(prune(asked), answer_backwards).writes
    assert writes.removed == {child.id, parent.id}


def test_an_insertion_is_checked_as_it_would_be_made_and_nothing_is_written() -> None:
    job = a_job(payload={"a": 1})
    stored = StoredJobs(job)
    writes, answer = stored.decide(check_insertion([job, a_job()], NOW))
    assert (writes.new, answer) == ({}, None)
    with pytest.raises(DuplicateJobError, match="with another payload"):
        stored.decide(check_insertion([a_job(id=job.id)], NOW))
