"""JobRequest -> Job, or the reason why not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import asdict

from rota.errors import (
    ConflictError,
    DependencyCycleError,
    InvalidInputError,
    InvalidJobError,
    UnknownDependencyError,
)
from rota.jobs import (
    Job,
    JobRequest,
    JobStatus,
    Recurrence,
    RetryPolicy,
    admit_job,
    place_job,
)
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
OTHER, THIRD = "01890a5d-ac96-774b-bcce-b302099a8058", "01890a5d-ac96-774b-bcce-b302099a8059"
P, Y, U, C, F, B = JobStatus


def admitted(request: JobRequest | None = None, **fields: Any) -> Job:
    asked = {"name": "Send", "queue": "mail"} | fields
    return admit_job(request or asked, job_id=JOB_ID, now=NOW)


def refused(**fields: Any) -> str:
    with pytest.raises(InvalidJobError) as refusal:
        admitted(**fields)
    return refusal.value.message


def test_a_job_of_two_fields_has_defaults_for_all_others() -> None:
    expected = Job(
        id=JOB_ID,
        tenant="default",
        queue="mail",
        name="Send",
        kind="Send",
        payload={},
        priority=5,
        due_at=NOW,
        status=Y,
        dependencies=(),
        retry_policy=RetryPolicy(),
        attempt_count=0,
        created_at=NOW,
        updated_at=NOW,
    )
    assert admitted() == expected
    assert admitted(JobRequest(name="Send", queue="mail")) == expected


def test_every_field_of_a_mapping_finds_its_place() -> None:
    fields: dict[str, Any] = {
        "kind": "mail.send",
        "payload": {"to": [1]},
        "priority": 9,
        "due_at": "2026-05-02T12:00:00Z",
        "dependencies": [OTHER],
        "retry_policy": {"max_attempts": 1},
        "idempotency_key": "key",
        "auto_remove": True,
    }
    job = admitted(**fields)
    kept = {name: getattr(job, name) for name in fields}
    assert kept == fields | {
        "due_at": NOW + timedelta(days=1),
        "dependencies": (OTHER,),
        "retry_policy": RetryPolicy(max_attempts=1),
    }


def test_a_program_may_name_what_a_mapping_may_not() -> None:
    request = JobRequest(name="Send", queue="mail", occurrence="monday", replaces=OTHER)
    job = admitted(request)
    assert (job.occurrence, job.replaces) == ("monday", OTHER)
    assert refused(occurrence="monday") == "occurrence is not a field of a job"
    assert refused(replaces=OTHER) == "replaces is not a field of a job"
    for field in ("tenant", "id", "status", "attempt_count", "created_at", "x" * 99):
        assert refused(**{field: "y"}) == f"{field[:40]} is not a field of a job"


def test_a_mapping_names_a_queue_as_specification_5_does_and_a_request_may_say_more() -> None:
    rule = "queue must be 1 to 64 of the characters a-z, A-Z, 0-9 and _, got 'a-b'"
    assert refused(queue="a-b") == rule
    job = admit_job(JobRequest(name="Send", queue="a-b.c:d"), job_id=JOB_ID, now=NOW)
    assert job.queue == "a-b.c:d"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "name must have 1 to 255 characters, got 0"),
        ({"name": None}, "name must be a text, got nothing"),
        ({"queue": 7}, "queue must be a text, got int"),
        ({"priority": 11}, "priority must be from 1 to 10, got 11"),
        ({"priority": None}, "priority must be an integer, got nothing"),
        ({"payload": "x" * 65_535}, "payload must not be larger than 65536 bytes of JSON"),
        ({"dependencies": "x"}, "dependencies must be a list, got str"),
        ({"dependencies": None}, "dependencies must be a list, got nothing"),
        (
            {"retry_policy": {"max_attempts": 11}},
            "retry_policy.max_attempts must be from 1 to 10, got 11",
        ),
        ({"auto_remove": "yes"}, "auto_remove must be true or false, got str"),
        ({"auto_remove": 0}, "auto_remove must be true or false, got int"),
        ({"idempotency_key": ""}, "idempotency_key must have 1 to 255 characters, got 0"),
        ({"idempotency_key": 5}, "idempotency_key must be a text, got int"),
    ],
)
def test_each_field_is_checked(fields: dict[str, Any], message: str) -> None:
    assert refused(**fields) == message
    request = JobRequest(**({"name": "Send", "queue": "mail"} | fields))
    with pytest.raises(InvalidJobError) as refusal:
        admitted(request)
    assert refusal.value.message == message


@pytest.mark.parametrize("field", ["name", "queue"])
def test_a_job_needs_a_name_and_a_queue(field: str) -> None:
    fields = {"name": "Send", "queue": "mail"}
    del fields[field]
    with pytest.raises(InvalidJobError, match=f"{field} is missing"):
        admit_job(fields, job_id=JOB_ID, now=NOW)


def test_a_value_that_is_not_an_object_is_refused() -> None:
    nothing: Any = [("name", "Send")]
    with pytest.raises(InvalidJobError, match="job must be an object, got list"):
        admit_job(nothing, job_id=JOB_ID, now=NOW)


def test_a_kind_that_is_given_is_a_word_but_one_taken_from_the_name_is_any_text() -> None:
    assert admitted(name="Send the report 🌍").kind == "Send the report 🌍"
    assert refused(kind="Send the report").startswith("kind must be 1 to 200 of")


def test_tenant_id_and_now_are_checked_too() -> None:
    request = JobRequest(name="Send", queue="mail")
    assert admit_job(request, job_id=JOB_ID, now=NOW, tenant="guild-7").tenant == "guild-7"
    with pytest.raises(InvalidJobError, match="tenant must be"):
        admit_job(request, job_id=JOB_ID, now=NOW, tenant="a b")
    with pytest.raises(InvalidJobError, match="id must be a UUID"):
        admit_job(request, job_id="17", now=NOW)
    with pytest.raises(InvalidInputError, match="now must be an aware datetime"):
        admit_job(request, job_id=JOB_ID, now=NOW.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [({C, C}, Y), ({C, U}, P), ({P, Y}, P), ({C, F}, B), ({U, B}, B)],
)
def test_the_dependencies_decide_the_first_status(
    statuses: set[JobStatus], expected: JobStatus
) -> None:
    known = dict(zip((OTHER, THIRD), [*statuses] * 2, strict=False))
    request = {"name": "Send", "queue": "mail", "dependencies": [OTHER, THIRD]}
    job = admit_job(request, job_id=JOB_ID, now=NOW, dependency_statuses=known)
    assert job.status is expected


def test_dependencies_must_exist_where_it_is_known() -> None:
    request = {"name": "Send", "queue": "mail", "dependencies": [OTHER, THIRD]}
    assert admit_job(request, job_id=JOB_ID, now=NOW).status is P
    with pytest.raises(UnknownDependencyError) as refusal:
        admit_job(request, job_id=JOB_ID, now=NOW, dependency_statuses={OTHER: C})
    assert refusal.value.missing == [THIRD]
    assert refusal.value.message == f"dependencies name jobs that do not exist: {THIRD}"
    assert isinstance(refusal.value, InvalidJobError)


def test_a_job_cannot_depend_on_itself_even_through_others() -> None:
    with pytest.raises(DependencyCycleError) as refusal:
        admitted(dependencies=[JOB_ID])
    assert refusal.value.cycle_path == [JOB_ID]
    assert isinstance(refusal.value, ConflictError)
    with pytest.raises(DependencyCycleError, match="Circular dependency: a -> b -> a"):
        place_job(a_job(id="a", dependencies=["b"]), {"b": P}, {"b": ["a"]})


SERIES = {"rrule": "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0", "zone": "Europe/London"}
MONDAY = datetime(2026, 5, 4, 8, tzinfo=UTC)


def test_a_series_begins_with_its_first_occurrence() -> None:
    job = admitted(kind="digest.send", recurrence=SERIES)
    assert job.due_at == job.occurrence_at == MONDAY
    assert job.origin == JOB_ID
    assert job.occurrence == f"digest.send:{SERIES['rrule']}:2026-05-04T08:00:00.000000Z"
    assert job.recurrence == Recurrence(start=NOW, **SERIES)  # type: ignore[arg-type] # all texts


def test_two_series_of_one_rule_are_two_and_a_key_makes_them_one() -> None:
    assert admitted(recurrence=SERIES).idempotency_key == JOB_ID
    assert admitted(recurrence=SERIES, idempotency_key="pair:7").idempotency_key == "pair:7"
    request = JobRequest(
        name="Send", queue="mail", recurrence=Recurrence(interval="1h", start=NOW), occurrence="x"
    )
    assert admitted(request).occurrence == "x"


def test_a_series_alone_says_when() -> None:
    assert refused(recurrence=SERIES, due_at=NOW) == (
        "due_at cannot be given beside a recurrence, which says when"
    )


def test_a_request_is_admitted_as_its_mapping_is() -> None:
    request = JobRequest(name="Send", queue="mail", priority=7, payload=[1], auto_remove=True)
    fields = asdict(request)
    del fields["occurrence"], fields["replaces"]
    assert admitted(**fields) == admitted(request)
