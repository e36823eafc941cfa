"""Jobs for tests: valid unless told otherwise."""

from datetime import UTC, datetime

import pytest

from rota.jobs import (
    Ending,
    JobStatus,
    decide_complete,
    decode_job,
    encode_job,
    normalize_job_id,
)
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_each_job_has_an_id_of_its_own_in_order() -> None:
    ids = [a_job().id for _ in range(3)]
    assert ids == sorted(set(ids))
    assert [normalize_job_id(each) for each in ids] == ids


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_can_be_stored_in_any_status(status: JobStatus) -> None:
    job = a_job(status=status)
    assert decode_job(encode_job(job)) == job
    assert (job.lease is not None) is (status is JobStatus.RUNNING)
    assert job.ending is (Ending.EXHAUSTED if status is JobStatus.FAILED else None)


def test_omitted_values_follow_from_given_ones() -> None:
    job = a_job(name="reminder.send", created_at=NOW, dependencies=["a"])
    assert (job.kind, job.due_at, job.updated_at) == ("reminder.send", NOW, NOW)
    assert (job.status, job.dependencies) == (JobStatus.PENDING, ("a",))
    assert a_job().status is JobStatus.READY


def test_given_values_are_accepted_unchanged() -> None:
    odd = a_job(id="x", status=JobStatus.RUNNING, lease=None, priority=99, kind="other")
    assert (odd.id, odd.lease, odd.priority, odd.kind) == ("x", None, 99, "other")
    with pytest.raises(TypeError, match="colour"):
        a_job(colour="green")


def test_a_running_job_can_be_settled() -> None:
    assert decide_complete(a_job(status=JobStatus.RUNNING), NOW).job.status is JobStatus.COMPLETED
