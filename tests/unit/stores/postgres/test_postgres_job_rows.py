"""Jobs as rows: what is usual is not written, and everything comes back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.jobs import BackoffStrategy, Deferral, Ending, JobFilter, Recurrence, RetryPolicy
from rota.stores.kernel.identity import identity_of
from rota.stores.postgres.rows import (
    BETWEEN_BODIES,
    digest_identity,
    encode_body,
    encode_jobs,
    known_ids,
)
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def test_every_field_comes_back_beside_jobs_that_are_as_usual(store: PostgresStore) -> None:
    odd = a_job(
        payload={"z": 1, "a": [1 << 63, 1e300, "\x00ä"], "": None},
        due_at=NOW + HOUR,
        updated_at=NOW,
        retry_policy=RetryPolicy(max_attempts=9, backoff_strategy=BackoffStrategy.FIXED),
        attempt_count=2,
        loss_count=1,
        last_error="it's {broken}",
        ending=Ending.LOST,
        last_token=7,
        deferral=Deferral(until=NOW, reason="closed", count=3),
        idempotency_key="key",
        occurrence="1",
        occurrence_at=NOW,
        origin=a_job().id,
        recurrence=Recurrence(cron="* * * * *", start=NOW, until=NOW + HOUR, count=5),
        auto_remove=True,
        replaces=a_job().id,
    )
    jobs = [a_job(), odd, a_job(priority=1, tenant="default")]
    await store.insert(jobs, NOW)
    kept = await store.get("default", [job.id for job in jobs])
    assert kept == {job.id: job for job in jobs}
    assert list(kept[odd.id].payload) == ["z", "a", ""]


def test_columns_in_which_all_is_as_usual_stay_empty_and_what_is_the_same_is_said_once() -> None:
    jobs = [a_job(), a_job(queue="x")]
    columns = encode_jobs(jobs, ["{}", "{}"], ())
    assert columns[:2] == [f"{jobs[0].id},{jobs[1].id}", f"{{}}{BETWEEN_BODIES}{{}}"]
    assert [len(column) for column in columns[2:]] == [*[0] * 15, 1, 2, 1, 1]
    assert encode_jobs(jobs, ["{}", "{}"], {jobs[1].id})[3] == [False, True]


ODDITIES: list[dict[str, Any]] = [
    {"tenant": "x"},
    {"queue": "x"},
    {"priority": 9},
    {"created_at": NOW - HOUR, "updated_at": NOW - HOUR, "due_at": NOW - HOUR},
    {"due_at": NOW + HOUR},
    {"updated_at": NOW + HOUR},
    {"attempt_count": 1},
    {"loss_count": 1},
    {"last_token": 1},
    {"last_error": "x"},
    {"ending": Ending.LOST},
    {"deferral": Deferral(until=NOW, reason="closed", count=1)},
    {"recurrence": Recurrence(cron="* * * * *", start=NOW)},
]


@pytest.mark.parametrize("fields", ODDITIES, ids=lambda fields: next(iter(fields)))
async def test_jobs_that_differ_from_the_usual_are_stored_beside_usual_ones(
    store: PostgresStore, fields: dict[str, Any]
) -> None:
    usual = {"created_at": NOW, "updated_at": NOW, "due_at": NOW}
    alike = [a_job(**usual, payload=number) for number in range(3)]
    odd = a_job(**{**usual, **fields})
    await store.insert(alike, NOW)
    await store.insert([odd, a_job(**{**usual, **fields})], NOW)
    assert await store.get("default", [job.id for job in alike]) == {job.id: job for job in alike}
    assert await store.get(odd.tenant, [odd.id]) == {odd.id: odd}


async def test_new_jobs_that_are_stored_together_may_differ_in_every_column(
    store: PostgresStore,
) -> None:
    usual = {"created_at": NOW, "updated_at": NOW, "due_at": NOW}
    places: list[dict[str, Any]] = [
        {},
        {"queue": "x"},
        {"tenant": "x"},
        {"priority": 9},
        {"due_at": NOW + HOUR},
        {"created_at": NOW - HOUR, "updated_at": NOW - HOUR},
        {"label": "new", "payload": {"a": [1, "\x1e,"]}},
    ]
    jobs = [a_job(**{**usual, **place}) for place in places]
    await store.insert(jobs, NOW)
    for job in jobs:
        assert await store.get(job.tenant, [job.id]) == {job.id: job}
    due = await store.lease(LeaseRequest(worker="w", limit=10, lease_for=HOUR), NOW)
    assert {job.id for job in due} == {job.id for job in jobs if job.due_at <= NOW}


async def test_of_jobs_that_are_alike_none_is_kept_when_one_exists(store: PostgresStore) -> None:
    jobs = [a_job(created_at=NOW, updated_at=NOW, due_at=NOW) for _ in range(3)]
    await store.insert(jobs[1:2], NOW)
    answers = await store.insert(jobs, NOW)
    assert [answer.is_existing for answer in answers] == [False, True, False]
    assert await store.count("default", JobFilter()) == 3


async def test_similar_jobs_keep_any_text(store: PostgresStore) -> None:
    texts = [BETWEEN_BODIES, f"a{BETWEEN_BODIES}b", "\\u001e", "", "NULL", '"', ","]
    jobs = [a_job(created_at=NOW, updated_at=NOW, due_at=NOW, payload=text) for text in texts]
    await store.insert(jobs, NOW)
    assert await store.get("default", [job.id for job in jobs]) == {job.id: job for job in jobs}


def test_a_body_holds_only_what_is_not_usual() -> None:
    plain = a_job(name="a", kind="b", retry_policy=RetryPolicy(max_attempts=3))
    assert encode_body(plain) == '{"name":"a","kind":"b"}'


def test_the_digest_distinguishes_distinct_values() -> None:
    jobs = [
        a_job(idempotency_key="k"),
        a_job(idempotency_key="k", occurrence=""),
        a_job(idempotency_key="k", kind="x"),
        a_job(idempotency_key="k", tenant="x"),
        a_job(idempotency_key="kk"),
    ]
    assert len({digest_identity(identity_of(job)) for job in jobs}) == len(jobs)
    same = a_job(idempotency_key="k")
    assert digest_identity(identity_of(jobs[0])) == digest_identity(identity_of(same))
    assert digest_identity(identity_of(a_job(occurrence="1"))) is None


def test_only_uuids_in_lower_case_are_ids() -> None:
    job_id = a_job().id
    assert known_ids([job_id, job_id.upper() + "A", "1", "", job_id]) == [job_id]
