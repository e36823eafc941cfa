"""Why jobs that have ended ended as they did."""

from datetime import UTC, datetime, timedelta

from rota.jobs import (
    Job,
    RetryPolicy,
    decide_complete,
    decide_discard,
    decide_fail,
)
from rota.ops.explain import explain_job
from rota.ops.explanation import Explanation, Reason
from rota.rail import DeadLetters, Rail
from rota.stores.memory import MemoryStore
from rota.stores.protocol import LeaseRequest
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ONCE = RetryPolicy(max_attempts=1)


async def ask(store: MemoryStore, clock: VirtualClock, job_id: str) -> Explanation:
    return await explain_job(store, clock, "default", job_id)


def only(explanation: Explanation, code: str) -> Reason:
    (found,) = [reason for reason in explanation.reasons if reason.code == code]
    return found


async def lease(store: MemoryStore) -> list[Job]:
    request = LeaseRequest(worker="anna", limit=10, lease_for=timedelta(minutes=1))
    return await store.lease(request, NOW)


async def fail(store: MemoryStore, job: Job) -> None:
    await store.insert([job], NOW)
    (leased,) = await lease(store)
    await store.apply([decide_fail(leased, "KeyError: 'x'", NOW)], NOW)


async def test_a_completed_job_ran(store: MemoryStore, clock: VirtualClock) -> None:
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    (leased,) = await lease(store)
    await store.apply([decide_complete(leased, NOW)], NOW)
    found = await ask(store, clock, job.id)
    assert (found.answer, only(found, "succeeded").at) == ("ran", NOW)


async def test_the_attempt_that_succeeded_has_its_worker_start_end_and_duration(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job, ended_at = a_job(due_at=NOW), NOW + timedelta(milliseconds=250)
    await store.insert([job], NOW)
    (leased,) = await lease(store)
    await store.apply([decide_complete(leased, ended_at, NOW)], ended_at)
    attempt = only(await ask(store, clock, job.id), "attempt")
    assert (attempt.who, attempt.at, attempt.until) == ("anna", NOW, ended_at)
    assert attempt.text.endswith("succeeded at Fri 2026-05-01 12:00:00 UTC, after 250 ms.")


async def test_a_dead_letter_has_its_error_and_every_attempt(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(due_at=NOW, retry_policy=ONCE)
    await fail(store, job)
    found = await ask(store, clock, job.id)
    assert found.answer == "failed"
    assert (
        found.sentence
        == "It failed for good at Fri 2026-05-01 12:00:00 UTC: its only attempt has failed."
    )
    assert only(found, "exhausted").text == "The last error was: KeyError: 'x'."
    assert only(found, "attempt").who == "anna"


async def test_a_retried_job_and_its_replacement_name_each_other(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(due_at=NOW, retry_policy=ONCE)
    await fail(store, job)
    retried = await DeadLetters(store, clock=clock).retry(job.id)
    new_id = retried.replacements[job.id]
    assert only(await ask(store, clock, job.id), "replaced_by").job_id == new_id
    assert only(await ask(store, clock, new_id), "replaces").job_id == job.id


async def test_a_discard_differs_from_exhaustion(store: MemoryStore, clock: VirtualClock) -> None:
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    (leased,) = await lease(store)
    await store.apply([decide_discard(leased, "no such user", NOW)], NOW)
    found = await ask(store, clock, job.id)
    assert "its handler discarded it" in found.sentence
    assert "no such user" in only(found, "discarded").text


async def test_a_cancelled_job_names_who_and_why(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    job_id = await rail.schedule_once("send", {}, run_at=NOW)
    await rail.cancel(job_id, who="ada", why="not any more")
    found = await ask(store, clock, job_id)
    cancelled = only(found, "cancelled")
    assert (found.answer, cancelled.who) == ("cancelled", "ada")
    assert "not any more" in cancelled.text


async def test_a_blocked_job_names_a_distant_failure(
    store: MemoryStore, clock: VirtualClock
) -> None:
    root = a_job(name="extract", due_at=NOW, retry_policy=ONCE)
    middle = a_job(dependencies=[root.id])
    leaf = a_job(dependencies=[middle.id])
    await store.insert([root, middle, leaf], NOW)
    (leased,) = await lease(store)
    await store.apply([decide_fail(leased, "KeyError: 'x'", NOW)], NOW)
    found = await ask(store, clock, leaf.id)
    assert found.answer == "will not run"
    assert only(found, "blocked").job_id == root.id
    assert "extract" in only(found, "blocked").text


async def test_the_end_of_a_series_has_its_reason(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    await rail.schedule_recurring("digest", {}, interval="1h", count=1)
    (leased,) = await lease(store)
    await store.apply([decide_complete(leased, NOW)], NOW)
    found = await ask(store, clock, leased.id)
    assert "as often as its count says" in only(found, "series_end").text


async def test_a_series_that_goes_on_names_the_next_job(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    await rail.schedule_recurring("digest", {}, interval="1h")
    (leased,) = await lease(store)
    (applied,) = await store.apply([decide_complete(leased, NOW)], NOW)
    found = await ask(store, clock, leased.id)
    assert applied.successor is not None
    following = only(found, "next_occurrence")
    assert (following.job_id, following.at) == (
        applied.successor.id,
        NOW + timedelta(hours=1),
    )
