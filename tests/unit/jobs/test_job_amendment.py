"""What may be changed about a job, and when it may be deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from tests.unit.jobs.arbitrary import always, jobs

from rota.errors import (
    DependenciesFixedError,
    DependencyCycleError,
    HasDependentsError,
    InvalidJobError,
    JobChangedError,
    JobEndedError,
    UnknownDependencyError,
)
from rota.jobs import (
    Ending,
    Job,
    JobStatus,
    RetryPolicy,
    amend_job,
    check_deletion,
    encode_job,
)
from rota.testing import a_job

P, Y, U, C, F, B = JobStatus
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PARENT, OTHER = "01890a5d-ac96-774b-bcce-b302099a8058", "01890a5d-ac96-774b-bcce-b302099a8059"


def refused(job: Job, fields: Any) -> str:
    with pytest.raises(InvalidJobError) as refusal:
        amend_job(job, fields, NOW)
    return refusal.value.message


def test_a_job_that_was_changed_since_it_was_read_is_not_changed() -> None:
    job = a_job()
    assert amend_job(job, {"updated_at": job.updated_at, "priority": 9}, NOW).priority == 9
    for read_at in (job.updated_at - timedelta(seconds=1), "2027-01-01T00:00:00Z"):
        with pytest.raises(JobChangedError, match="was changed at"):
            amend_job(job, {"priority": 11, "updated_at": read_at}, NOW)


def test_named_fields_change_and_others_stay() -> None:
    job = a_job(payload={"a": 1}, attempt_count=1)
    fields: dict[str, Any] = {
        "name": "Other",
        "queue": "other",
        "kind": "other.kind",
        "payload": [2],
        "priority": 1,
        "due_at": "2026-06-01T00:00:00Z",
        "retry_policy": {"max_attempts": 9},
        "is_paused": True,
        "auto_remove": True,
    }
    amended = amend_job(job, fields, NOW)
    assert amended.updated_at == NOW
    assert encode_job(amended) == encode_job(job) | fields | {
        "due_at": "2026-06-01T00:00:00.000000Z",
        "updated_at": "2026-05-01T12:00:00.000000Z",
        "retry_policy": encode_job(a_job(retry_policy=RetryPolicy(max_attempts=9)))["retry_policy"],
    }


@always
@given(jobs(P, Y, U))
def test_a_job_can_be_sent_back_as_it_came(job: Job) -> None:
    record = encode_job(job)
    after = encode_job(amend_job(job, record, NOW))
    assert after | {"updated_at": None} == encode_job(job) | {"updated_at": None}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": PARENT}, "id never changes"),
        ({"status": "RUNNING"}, "status never changes"),
        ({"status": JobStatus.RUNNING}, "status never changes"),
        ({"attempt_count": 2}, "attempt_count never changes"),
        ({"attempt_count": True}, "attempt_count never changes"),
        ({"created_at": "2026-01-01T00:00:01Z"}, "created_at never changes"),
        ({"created_at": 5}, "created_at must be an instant, got int"),
        ({"updated_at": 5}, "updated_at must be an instant, got int"),
        ({"tenant": "other"}, "tenant never changes"),
        ({"colour": "green"}, "colour is not a field of a job"),
        ({"x" * 41: "green"}, f"{'x' * 40} is not a field of a job"),
        ({5: "green"}, "5 is not a field of a job"),
        ({"priority": 11}, "priority must be from 1 to 10, got 11"),
        (
            {"queue": "a b"},
            "queue must be 1 to 64 of the characters a-z, A-Z, 0-9 and _, got 'a b'",
        ),
        (
            {"kind": "a b"},
            "kind must be 1 to 200 of the characters a-z, A-Z, 0-9, _, ., : and -, got 'a b'",
        ),
    ],
)
def test_a_fixed_field_cannot_be_amended(fields: dict[Any, Any], message: str) -> None:
    assert refused(a_job(attempt_count=1), fields) == message


def test_a_fixed_field_may_be_given_with_its_own_value() -> None:
    job = a_job(attempt_count=1, occurrence_at=NOW)
    same = {
        "id": job.id,
        "status": JobStatus.READY,
        "attempt_count": 1,
        "created_at": job.created_at.astimezone(),
        "occurrence_at": NOW.isoformat(),
        "tenant": "default",
    }
    assert amend_job(job, same, job.updated_at) == job
    assert amend_job(job, {"status": "READY", "lease": None}, job.updated_at) == job
    unset = a_job()
    assert amend_job(unset, {"occurrence_at": None}, unset.updated_at) == unset


@pytest.mark.parametrize("status", [C, F, B])
def test_an_ended_job_is_refused_before_anything_is_looked_at(status: JobStatus) -> None:
    with pytest.raises(JobEndedError, match=f"is {status}, which is final"):
        amend_job(a_job(status=status), {"colour": "green"}, NOW)


@pytest.mark.parametrize("status", [F, B])
def test_an_error_says_that_an_ended_job_was_cancelled(status: JobStatus) -> None:
    job = a_job(status=status, ending=Ending.CANCELLED)
    with pytest.raises(JobEndedError) as caught:
        amend_job(job, {"priority": 1}, NOW)
    assert caught.value.message == f"Job {job.id} is cancelled ({status}), which is final"
    assert caught.value.details == {"jobId": job.id, "status": status}


@pytest.mark.parametrize(("statuses", "expected"), [(C, Y), (U, P), (F, B)])
def test_new_dependencies_decide_the_status_anew(statuses: JobStatus, expected: JobStatus) -> None:
    job = a_job(dependencies=[PARENT])
    fields = {"dependencies": [OTHER]}
    amended = amend_job(job, fields, NOW, dependency_statuses={OTHER: statuses})
    assert (amended.status, amended.dependencies) == (expected, (OTHER,))
    assert amend_job(job, {"dependencies": []}, NOW).status is Y


def test_new_dependencies_must_exist_and_lead_nowhere_back() -> None:
    job = a_job(dependencies=[PARENT])
    with pytest.raises(UnknownDependencyError):
        amend_job(job, {"dependencies": [OTHER]}, NOW, dependency_statuses={PARENT: C})
    with pytest.raises(DependencyCycleError) as refusal:
        amend_job(job, {"dependencies": [OTHER]}, NOW, existing_jobs={OTHER: [job.id]})
    assert refusal.value.cycle_path == [job.id, OTHER]


@pytest.mark.parametrize("status", [Y, U])
def test_dependencies_change_only_while_they_are_waited_for(status: JobStatus) -> None:
    job = a_job(dependencies=[PARENT], status=status)
    with pytest.raises(DependenciesFixedError, match=f"it is {status}, no longer PENDING"):
        amend_job(job, {"dependencies": [OTHER]}, NOW)
    assert amend_job(job, {"dependencies": [PARENT]}, NOW).status is status


def test_a_job_that_others_depend_on_stays() -> None:
    check_deletion("a", [])
    with pytest.raises(HasDependentsError, match="2 depend on it, such as b") as refusal:
        check_deletion("a", iter(["c", "b"]))
    assert refusal.value.details == {"jobId": "a", "dependents": ["b", "c"]}


def test_time_passes_when_a_job_is_amended() -> None:
    job = a_job()
    assert amend_job(job, {}, job.updated_at + timedelta(days=1)).updated_at > job.updated_at
