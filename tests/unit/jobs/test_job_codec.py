"""Jobs and attempts as plain values, and back."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.arbitrary import INSTANTS, TEXTS, always, jobs

from rota.errors import DamagedJobError, InvalidInputError
from rota.jobs import (
    Attempt,
    Job,
    JobStatus,
    decode_attempt,
    decode_job,
    encode_attempt,
    encode_job,
    format_instant,
    parse_instant,
)
from rota.testing import a_job

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@always
@given(jobs())
def test_a_job_survives_a_journey_through_json(job: Job) -> None:
    written = json.dumps(encode_job(job), allow_nan=False)
    assert decode_job(json.loads(written)) == job


@always
@given(
    st.builds(
        Attempt,
        job_id=TEXTS,
        number=st.integers(1, 10),
        token=st.integers(1),
        worker=TEXTS,
        started_at=INSTANTS,
        ended_at=INSTANTS,
        outcome=TEXTS,
        error=TEXTS,
    )
)
def test_an_attempt_survives_it_too(attempt: Attempt) -> None:
    assert decode_attempt(json.loads(json.dumps(encode_attempt(attempt)))) == attempt
    assert attempt.lasted_for == attempt.ended_at - attempt.started_at


def test_every_field_is_written_in_the_words_of_the_record() -> None:
    record = encode_job(a_job(status=JobStatus.RUNNING, created_at=NOON, payload={"at": [1]}))
    assert list(record) == list(Job.__struct_fields__)
    assert record["status"] == "RUNNING"
    assert record["payload"] == {"at": [1]}
    assert record["created_at"] == "2026-05-01T12:00:00.000000Z"
    assert record["lease"] == {
        "token": 1,
        "worker": "a worker",
        "taken_at": "2026-05-01T12:00:00.000000Z",
        "until": "2026-05-01T12:01:00.000000Z",
    }
    assert record["retry_policy"] == {
        "max_attempts": 3,
        "backoff_strategy": "EXPONENTIAL",
        "base_delay_seconds": 10,
        "max_delay_seconds": 300,
        "ladder_seconds": [60, 300, 900, 3600],
    }


def test_a_payload_may_look_like_a_record() -> None:
    payload = {"lease": {"until": "2026"}, "created_at": 5}
    assert encode_job(a_job(payload=payload))["payload"] == payload


def test_fields_of_a_later_version_are_passed_over() -> None:
    job = a_job()
    assert decode_job(encode_job(job) | {"colour": "green"}) == job


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "Stored job without an id cannot be read: Expected `object`"),
        ({"id": 5}, "Stored job without an id cannot be read: "),
        ({"id": "a", "status": "DONE"}, "Stored job a cannot be read: "),
    ],
)
def test_a_damaged_record_is_refused_by_its_id(record: Any, message: str) -> None:
    with pytest.raises(DamagedJobError) as refusal:
        decode_job(record)
    assert refusal.value.message.startswith(message)


def test_an_instant_without_a_zone_is_damage() -> None:
    record = encode_job(a_job(id="a")) | {"due_at": "2026-05-01T12:00:00"}
    with pytest.raises(DamagedJobError, match="due_at"):
        decode_job(record)


@always
@given(INSTANTS, INSTANTS)
def test_instants_as_text_sort_as_they_do_in_time(one: datetime, other: datetime) -> None:
    assert (format_instant(one) < format_instant(other)) is (one < other)
    assert parse_instant(format_instant(one)) == one


def test_an_instant_is_always_written_at_full_length_in_utc() -> None:
    assert format_instant(NOON) == "2026-05-01T12:00:00.000000Z"
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    assert format_instant(tokyo + timedelta(microseconds=1)) == "2026-05-01T12:00:00.000001Z"
    with pytest.raises(InvalidInputError, match="instant must be an aware datetime"):
        format_instant(NOON.replace(tzinfo=None))


@pytest.mark.parametrize("text", ["2026-05-01T14:00+02:00", "20260501T120000Z", "2026-05-01 12Z"])
def test_any_iso_text_with_an_offset_is_read(text: str) -> None:
    found = parse_instant(text)
    assert found == NOON
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "noon",
        "2026-05-01T12:00:00Z\x00",
        "2026-05-01T12:00:00Z\x00junk",
        "2026-05-01T12:00:00",
        "2026-05-01",
        "0001-01-01T00:00:00+05:00",
    ],
)
def test_other_texts_are_refused_in_the_name_of_the_field(text: str) -> None:
    with pytest.raises(InvalidInputError, match="due_at must be an ISO 8601 time") as refusal:
        parse_instant(text, "due_at")
    assert refusal.value.details == {"field": "due_at"}


@pytest.mark.parametrize("field", ["depend\ud800ncies", "\udfff"])
def test_half_a_character_in_the_name_of_a_field_is_damage(field: str) -> None:
    """JSON can spell it, and no text of ours holds it."""
    record = {**encode_job(a_job()), field: 1}
    with pytest.raises(DamagedJobError) as refusal:
        decode_job(json.loads(json.dumps(record)))
    assert "surrogates not allowed" in str(refusal.value)


def test_of_a_long_text_that_is_no_instant_the_beginning_is_shown() -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_instant("y" * 99, "due_at")
    assert str(caught.value).endswith(f'with an offset, got "{"y" * 40}"')
