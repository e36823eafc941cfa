"""Sections 1 and 3: the job, its limits, and what is checked when one is made or changed."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from rota.errors import ConflictError, InvalidJobError, JobEndedError
from rota.jobs import (
    BackoffStrategy,
    Job,
    JobStatus,
    RetryPolicy,
    admit_job,
    amend_job,
    check_deletion,
    find_dependents,
    make_job_id,
)
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def create(**fields: Any) -> Job:
    asked = {"name": "Send the weekly report", "queue": "reports_1", "priority": 5} | fields
    return admit_job(asked, job_id=make_job_id(NOW, 7), now=NOW)


def test_a_new_job_has_the_fields_of_the_table() -> None:
    job = create(payload={"week": 18}, priority=10)
    assert UUID(job.id).version == 7
    assert (job.name, job.queue) == ("Send the weekly report", "reports_1")
    assert (job.payload, job.priority, job.dependencies) == ({"week": 18}, 10, ())
    assert (job.status, job.attempt_count) == (JobStatus.READY, 0)
    assert job.created_at == job.updated_at == NOW


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x"},
        {"name": "x" * 255},
        {"name": "日" * 255},
        {"queue": "q"},
        {"queue": "Q_9" * 21},
        {"priority": 1},
        {"priority": 10},
        {"payload": "x" * 65_534},
        {"payload": None},
        {"dependencies": [str(UUID(int=number)) for number in range(50)]},
    ],
)
def test_the_outermost_values_are_accepted(fields: dict[str, Any]) -> None:
    job = create(**fields)
    for name, value in fields.items():
        assert getattr(job, name) == (tuple(value) if name == "dependencies" else value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 256),
        ("queue", ""),
        ("queue", "q" * 65),
        ("queue", "my-queue"),
        ("queue", "queue\n"),
        ("priority", 0),
        ("priority", 11),
        ("priority", True),
        ("priority", "5"),
        ("priority", 5.0),
        ("payload", "x" * 65_535),
        ("payload", "é" * 32_768),
        ("dependencies", [str(UUID(int=number)) for number in range(51)]),
        ("dependencies", ["no-uuid"]),
    ],
)
def test_the_values_just_outside_are_refused_by_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidJobError) as refusal:
        create(**{field: value})
    assert refusal.value.field.split("[")[0] == field
    assert refusal.value.message.startswith(field)


def test_a_policy_has_the_defaults_of_the_table() -> None:
    assert RetryPolicy() == RetryPolicy(
        max_attempts=3,
        backoff_strategy=BackoffStrategy.EXPONENTIAL,
        base_delay_seconds=10,
        max_delay_seconds=300,
    )
    assert create().retry_policy == create(retry_policy={}).retry_policy == RetryPolicy()


@pytest.mark.parametrize(
    ("policy", "is_valid"),
    [
        ({"max_attempts": 1}, True),
        ({"max_attempts": 10}, True),
        ({"max_attempts": 0}, False),
        ({"max_attempts": 11}, False),
        ({"max_attempts": 2.0}, False),
        ({"max_attempts": "2"}, False),
        ({"max_attempts": True}, False),
        ({"base_delay_seconds": 1}, True),
        ({"base_delay_seconds": 300}, True),
        ({"base_delay_seconds": 0}, False),
        ({"base_delay_seconds": 301, "max_delay_seconds": 3600}, False),
        ({"base_delay_seconds": 60, "max_delay_seconds": 60}, True),
        ({"base_delay_seconds": 60, "max_delay_seconds": 59}, False),
        ({"max_delay_seconds": 3600}, True),
        ({"max_delay_seconds": 3601}, False),
        ({"backoff_strategy": "FIXED"}, True),
        ({"backoff_strategy": "fixed"}, False),
    ],
)
def test_a_policy_keeps_to_its_limits(policy: dict[str, Any], is_valid: bool) -> None:
    if is_valid:
        create(retry_policy=policy)
    else:
        with pytest.raises(InvalidJobError, match=r"^retry_policy\."):
            create(retry_policy=policy)


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.BLOCKED])
def test_an_ended_job_cannot_be_updated(status: JobStatus) -> None:
    with pytest.raises(JobEndedError) as refusal:
        amend_job(a_job(status=status), {"priority": 1}, NOW)
    assert isinstance(refusal.value, ConflictError)


@pytest.mark.parametrize("field", ["id", "created_at", "status", "attempt_count"])
def test_four_fields_cannot_be_updated(field: str) -> None:
    other: dict[str, Any] = {
        "id": str(UUID(int=1)),
        "created_at": "1999-01-01T00:00:00Z",
        "status": "COMPLETED",
        "attempt_count": 9,
    }
    with pytest.raises(InvalidJobError, match=f"^{field} never changes$"):
        amend_job(a_job(), {field: other[field]}, NOW)


def test_updated_fields_obey_the_rules_of_creation() -> None:
    job = a_job(priority=3)
    assert amend_job(job, {"priority": 4}, NOW).priority == 4
    with pytest.raises(InvalidJobError, match="priority must be from 1 to 10"):
        amend_job(job, {"priority": 0}, NOW)


@pytest.mark.parametrize("status", JobStatus)
def test_any_dependent_at_all_prevents_a_deletion(status: JobStatus) -> None:
    parent = a_job()
    child = a_job(dependencies=[parent.id], status=status)
    check_deletion(child.id, find_dependents(child.id, [parent, child]))
    with pytest.raises(ConflictError, match="cannot be deleted"):
        check_deletion(parent.id, find_dependents(parent.id, [parent, child]))
