"""What the service knows of a job beyond specification 5."""

from datetime import timedelta

import pytest
from tests.server.service import JOBS, START, Visit, field_of, serve

from rota.auth.tokens import TokenBook
from rota.jobs import Job
from rota.server.api.job_bodies import CHANGEABLE, JobUpdate, JobView, view_job
from rota.stores.memory import MemoryStore
from rota.stores.protocol import LeaseRequest
from rota.testing import VirtualClock, a_job

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BODY = {"name": "Report", "queue": "mail", "payload": {"a": 1}}


async def test_a_key_makes_a_job_the_only_one(service: Visit) -> None:
    key = {"Idempotency-Key": "order-7"}
    made = await service.client.post(JOBS, json=BODY, headers=key)
    again = await service.client.post(JOBS, json=BODY, headers=key)
    in_body = await service.client.post(JOBS, json={**BODY, "idempotency_key": "order-7"})
    assert (made.status_code, again.status_code, in_body.status_code) == (201, 200, 200)
    assert made.json() == again.json() == in_body.json()
    assert made.headers["location"] == again.headers["location"]
    assert made.json()["idempotency_key"] == "order-7"


async def test_a_key_with_another_payload_is_409(service: Visit) -> None:
    key = {"Idempotency-Key": "order-7"}
    made = await service.client.post(JOBS, json=BODY, headers=key)
    other = await service.client.post(JOBS, json={**BODY, "payload": {"a": 2}}, headers=key)
    assert other.status_code == 409
    assert other.json()["details"] == {"job_id": made.json()["id"]}


async def test_a_key_belongs_to_a_kind(service: Visit) -> None:
    key = {"Idempotency-Key": "order-7"}
    for kind in ("invoice", "receipt"):
        answer = await service.client.post(JOBS, json={**BODY, "kind": kind}, headers=key)
        assert answer.status_code == 201


async def test_two_keys_must_agree(service: Visit) -> None:
    body = {**BODY, "idempotency_key": "a"}
    answer = await service.client.post(JOBS, json=body, headers={"Idempotency-Key": "b"})
    assert field_of(answer) == "idempotency_key"
    same = await service.client.post(JOBS, json=body, headers={"Idempotency-Key": "a"})
    assert same.status_code == 201


async def test_jobs_without_a_key_are_never_the_same(service: Visit) -> None:
    assert (await service.make_job())["id"] != (await service.make_job())["id"]


async def test_kind_is_the_name_unless_said(service: Visit) -> None:
    assert (await service.make_job(name="Büro-Report!"))["kind"] == "Büro-Report!"
    assert (await service.make_job(kind="report.send"))["kind"] == "report.send"
    bad = await service.client.post(JOBS, json={**BODY, "kind": "two words"})
    assert field_of(bad) == "kind"


async def test_a_retry_policy_that_is_given_is_an_object(service: Visit) -> None:
    for wrong in (None, 3):
        bad = await service.client.post(JOBS, json={**BODY, "retry_policy": wrong})
        assert field_of(bad) == "retry_policy"
    made = await service.make_job(retry_policy={"max_attempts": 7})
    bad = await service.client.put(f"{JOBS}/{made['id']}", json={"retry_policy": None})
    assert field_of(bad) == "retry_policy"
    kept = (await service.client.get(f"{JOBS}/{made['id']}")).json()
    assert kept["retry_policy"]["max_attempts"] == 7
    assert (await service.make_job())["retry_policy"]["max_attempts"] == 3


async def test_a_job_runs_at_the_requested_time(service: Visit) -> None:
    job = await service.make_job(run_at="2026-05-01T15:00:00+02:00")
    assert job["run_at"] == "2026-05-01T13:00:00Z"
    moved = await service.client.put(f"{JOBS}/{job['id']}", json={"run_at": "2026-05-02T00:00:00Z"})
    assert moved.json()["run_at"] == "2026-05-02T00:00:00Z"
    for wrong in ("2026-05-01T12:00:00", "soon", "9999-12-31T23:59:59-01:00"):
        assert field_of(await service.client.post(JOBS, json={**BODY, "run_at": wrong})) == "run_at"


async def test_a_series_begins_with_its_first_occurrence(service: Visit) -> None:
    rule = {"rrule": "FREQ=WEEKLY;BYDAY=FR;BYHOUR=9;BYMINUTE=0", "zone": "Europe/Berlin"}
    job = await service.make_job(recurrence=rule)
    assert job["run_at"] == job["occurrence_at"] == "2026-05-08T07:00:00Z"
    assert job["origin"] == job["id"]
    assert job["recurrence"].items() >= rule.items()


@pytest.mark.parametrize(
    ("recurrence", "field"),
    [
        ({}, "recurrence"),
        ({"cron": "* * * * *", "interval": "1h"}, "recurrence"),
        ({"cron": "61 * * * *"}, "recurrence.cron"),
        ({"interval": "1 fortnight"}, "recurrence.interval"),
        ({"cron": "* * * * *", "zone": "Mars/Olympus"}, "recurrence.zone"),
        ({"cron": "* * * * *", "count": 0}, "recurrence.count"),
        ({"cron": "* * * * *", "every": "day"}, "recurrence.every"),
        ({"cron": "* * * * *", "until": "2020-01-01T00:00:00Z"}, "recurrence"),
    ],
)
async def test_a_series_that_cannot_be_is_refused(
    service: Visit, recurrence: dict[str, object], field: str
) -> None:
    answer = await service.client.post(JOBS, json={**BODY, "recurrence": recurrence})
    assert field_of(answer) == field


async def test_a_series_says_itself_when_it_runs(service: Visit) -> None:
    body = {**BODY, "recurrence": {"interval": "1h"}, "run_at": "2026-05-02T00:00:00Z"}
    assert field_of(await service.client.post(JOBS, json=body)) == "run_at"


async def test_a_job_remembers_the_trace_it_was_asked_for_in(service: Visit) -> None:
    traced = await service.client.post(JOBS, json=BODY, headers={"traceparent": TRACE})
    assert traced.json()["trace"] == TRACE
    odd = await service.client.post(JOBS, json=BODY, headers={"traceparent": "00-zz"})
    assert (odd.status_code, odd.json()["trace"]) == (201, None)


async def test_the_worker_of_a_running_job_is_shown(service: Visit) -> None:
    job = await service.make_job(auto_remove=True)
    request = LeaseRequest(worker="w-1", limit=1, lease_for=timedelta(minutes=1))
    await service.store.lease(request, service.clock.now())
    shown = (await service.client.get(f"{JOBS}/{job['id']}")).json()
    assert shown["status"] == "RUNNING"
    assert shown["auto_remove"] is True
    assert shown["lease"] == {
        "token": 1,
        "worker": "w-1",
        "taken_at": "2026-05-01T12:00:00Z",
        "until": "2026-05-01T12:01:00Z",
    }


async def test_a_tenant_sees_its_own_jobs_and_no_others() -> None:
    store, clock = MemoryStore(), VirtualClock(START)
    book = TokenBook(store, clock)
    tokens = [(await book.issue(tenant, ["read", "write"], "t")).secret.reveal()
              for tenant in ("ours", "theirs")]  # fmt: skip
    async with serve(store, book) as service:
        ours, theirs = ({"authorization": f"Bearer {token}"} for token in tokens)
        made = (await service.client.post(JOBS, json=BODY, headers=ours)).json()
        assert made["tenant"] == "ours"
        url = f"{JOBS}/{made['id']}"
        for answer in (
            await service.client.get(url, headers=theirs),
            await service.client.put(url, json={"priority": 1}, headers=theirs),
            await service.client.put(url, json={"id": made["id"]}, headers=theirs),
            await service.client.delete(url, headers=theirs),
        ):
            assert answer.status_code == 404
        assert (await service.client.get(JOBS, headers=theirs)).json()["items"] == []
        dependent = {**BODY, "dependencies": [made["id"]]}
        refused = await service.client.post(JOBS, json=dependent, headers=theirs)
        assert field_of(refused) == "dependencies"
        assert (await service.client.get(url, headers=ours)).json() == made


def test_the_view_shows_everything_but_what_is_only_for_stores() -> None:
    hidden = set(Job.__struct_fields__) - set(JobView.__struct_fields__)
    assert hidden == {"last_token", "occurrence"}
    job = a_job(payload=[1], last_error="oh")
    shown = view_job(job)
    assert all(getattr(shown, name) == getattr(job, name) for name in JobView.__struct_fields__)


def test_an_update_knows_every_field_that_is_shown() -> None:
    assert set(JobUpdate.__struct_fields__) == set(JobView.__struct_encode_fields__)
    assert "status" not in CHANGEABLE
