"""Jobs in rows: nothing is lost, and what is damaged is told."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import fields

from rota.errors import DamagedJobError
from rota.jobs import Completion, Deferral, Ending, Job, JobStatus, Lease, Recurrence, RetryPolicy
from rota.stores.rows import (
    EPOCH,
    decode_job,
    encode_job,
    to_instant,
    to_micros,
)
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, 30, 15, 123_456, tzinfo=UTC)
BODY = -1
UNREAD = {7, 10, 23, 24, 25, 26}
"""Columns that are written and not read."""


def read_back(row: tuple[Any, ...]) -> Job:
    kept = [value for column, value in enumerate(row) if column not in UNREAD]
    return decode_job(tuple(kept))


def a_full_job() -> Job:
    """One in which no field has its usual value."""
    other = a_job().id
    return Job(
        id=a_job().id,
        tenant="acme",
        queue="mail",
        name="a name",
        kind="a kind",
        payload={"z": 1, "a": [1.0, -(2**63), 2**63 - 1, "ä🌍", None, True]},
        priority=9,
        due_at=NOW + timedelta(days=1),
        status=JobStatus.FAILED,
        dependencies=(other,),
        retry_policy=RetryPolicy(max_attempts=7, ladder_seconds=(1,)),
        attempt_count=3,
        loss_count=2,
        last_error="no",
        ending=Ending.LOST,
        lease=Lease(token=4, worker="w", taken_at=NOW, until=NOW + timedelta(minutes=1)),
        last_token=5,
        deferral=Deferral(until=NOW, reason="closed", count=2),
        idempotency_key="key",
        occurrence="occurrence",
        occurrence_at=NOW,
        origin=other,
        recurrence=Recurrence(interval="1h", start=NOW, until=NOW, count=3),
        missed_count=4,
        is_paused=True,
        auto_remove=True,
        replaces=other,
        trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        on_parent_failure="skip",
        notifies=True,
        label="v2",
        created_at=NOW - timedelta(days=1),
        updated_at=NOW - timedelta(hours=1),
    )


def test_every_field_comes_back() -> None:
    job = a_full_job()
    usual = a_job()
    same = [
        each.name for each in fields(Job) if getattr(job, each.name) == getattr(usual, each.name)
    ]
    # Only a job without a lease has a completion.
    assert same == ["completion"], "give these fields another value, so that it is seen to be kept"
    assert read_back(encode_job(job, NOW)) == job


def test_a_completion_comes_back() -> None:
    completion = Completion(worker="w", started_at=NOW, ended_at=NOW + timedelta(minutes=1))
    job = a_job(status=JobStatus.COMPLETED, completion=completion, updated_at=completion.ended_at)
    assert read_back(encode_job(job, NOW)) == job


@pytest.mark.parametrize("payload", [{}, [], 0, "", None, False, {"b": {}, "a": []}])
def test_an_empty_payload_is_still_that_payload(payload: Any) -> None:
    kept = read_back(encode_job(a_job(payload=payload), NOW)).payload
    assert (kept, type(kept)) == (payload, type(payload))
    if isinstance(payload, dict):
        assert list(kept) == list(payload)


def test_a_usual_policy_takes_no_room() -> None:
    plain = encode_job(a_job(payload=1, retry_policy=RetryPolicy()), NOW)
    assert plain[BODY] == b'{"name":"a job","payload":1}'


@pytest.mark.parametrize(
    "instant",
    [
        EPOCH,
        EPOCH - timedelta(microseconds=1),
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        NOW,
    ],
)
def test_instants_are_exact(instant: datetime) -> None:
    assert to_instant(to_micros(instant)) == instant


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (5, "UNHEARD OF"),
        (6, 1 << 62),
        (14, "unheard of"),
        (20, "{"),
        (BODY, b""),
        (BODY, b"{}"),
        (BODY, b"\xff"),
        (BODY, b'{"name":1}'),
        (BODY, b'{"name":"a","retry_policy":[]}'),
        (BODY, b'{"name":"a","id":"b"}'),
    ],
)
def test_an_invalid_job_is_reported_with_its_id(column: int, value: Any) -> None:
    job = a_job()
    row = list(encode_job(job, NOW))
    row[column] = value
    if value == b'{"name":"a","id":"b"}':  # a field of a later version: passed over
        assert read_back(tuple(row)).id == job.id
        return
    with pytest.raises(DamagedJobError) as caught:
        read_back(tuple(row))
    assert caught.value.job_id == job.id
