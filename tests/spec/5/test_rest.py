"""Sections 5 and 6 over HTTP: the five requests, what they answer, and how they refuse."""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.server.service import JOBS, NO_ID, Visit, field_of, serve

from rota.jobs import JobStatus, decide_complete
from rota.runtime.wiring import open_store
from rota.stores.protocol import LeaseRequest

SECOND = timedelta(seconds=1)
SPECIFIED = {
    "id", "name", "queue", "payload", "priority", "status", "dependencies", "retry_policy",
    "created_at", "updated_at", "attempt_count",
}  # fmt: skip


@pytest.fixture
async def service(store_url: str) -> AsyncIterator[Visit]:
    async with serve(await open_store(store_url)) as served:
        yield served


async def finish(service: Visit, job_id: str) -> None:
    """Let the job be COMPLETED."""
    request = LeaseRequest(worker="w", limit=100, lease_for=SECOND)
    leased = {job.id: job for job in await service.store.lease(request, service.clock.now())}
    now = service.clock.now()
    await service.store.apply([decide_complete(leased[job_id], now)], now)


async def search(service: Visit, **query: Any) -> dict[str, Any]:
    answer = await service.client.get(JOBS, params=query)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


async def test_a_job_is_created_with_201_and_all_its_fields(service: Visit) -> None:
    answer = await service.client.post(JOBS, json={"name": "Report", "queue": "mail"})
    job = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{JOBS}/{job['id']}"
    assert job.keys() >= SPECIFIED
    assert str(UUID(job["id"])) == job["id"]
    assert job["created_at"] == job["updated_at"] == "2026-05-01T12:00:00Z"
    assert (job["status"], job["attempt_count"]) == ("READY", 0)
    assert (job["priority"], job["payload"], job["dependencies"]) == (5, {}, [])
    assert (
        job["retry_policy"].items()
        >= {
            "max_attempts": 3,
            "backoff_strategy": "EXPONENTIAL",
            "base_delay_seconds": 10,
            "max_delay_seconds": 300,
        }.items()
    )


async def test_a_job_is_got_with_200_as_it_was_created(service: Visit) -> None:
    job = await service.make_job(payload={"a": [1, 2.5, None, "ü"]}, priority=10)
    answer = await service.client.get(f"{JOBS}/{job['id']}")
    assert answer.status_code == 200
    assert answer.json() == job


async def test_a_job_is_updated_with_200_in_the_fields_that_are_sent(service: Visit) -> None:
    job = await service.make_job(payload={"a": 1}, priority=3)
    await service.clock.advance(SECOND)
    answer = await service.client.put(f"{JOBS}/{job['id']}", json={"priority": 9})
    assert answer.status_code == 200
    assert answer.json() == {**job, "priority": 9, "updated_at": "2026-05-01T12:00:01Z"}


async def test_a_job_is_deleted_with_204_and_is_gone(service: Visit) -> None:
    job = await service.make_job()
    answer = await service.client.delete(f"{JOBS}/{job['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await service.client.get(f"{JOBS}/{job['id']}")).status_code == 404


async def test_a_running_job_may_be_deleted(service: Visit) -> None:
    job = await service.make_job()
    request = LeaseRequest(worker="w", limit=1, lease_for=SECOND)
    assert await service.store.lease(request, service.clock.now())
    assert (await service.client.delete(f"{JOBS}/{job['id']}")).status_code == 204


async def test_jobs_are_listed_with_200_newest_first_and_equals_by_id(service: Visit) -> None:
    for number in range(45):
        await service.make_job()
        if number % 3 == 0:
            await service.clock.advance(SECOND)
    seen: list[dict[str, Any]] = []
    page = await search(service)
    assert len(page["items"]) == 20
    while True:
        seen += page["items"]
        assert page["has_more"] is (page["next_cursor"] is not None)
        if not page["has_more"]:
            break
        last = page["items"][-1]
        plain = base64.b64decode(page["next_cursor"]).decode()
        assert plain.split("|")[1] == last["id"]
        page = await search(service, cursor=page["next_cursor"])
    expected = sorted(seen, key=lambda job: job["id"])
    expected.sort(key=lambda job: job["created_at"], reverse=True)
    assert len(seen) == 45
    assert seen == expected


async def test_a_full_last_page_says_that_it_is_the_last(service: Visit) -> None:
    for _ in range(3):
        await service.make_job()
    page = await search(service, limit=3)
    assert (len(page["items"]), page["has_more"], page["next_cursor"]) == (3, False, None)


async def test_every_filter_narrows_the_list(service: Visit) -> None:
    early = await service.make_job(queue="mail", priority=2)
    await service.clock.advance(SECOND)
    late = await service.make_job(queue="print", priority=8)
    waiting = await service.make_job(queue="print", priority=5, dependencies=[late["id"]])

    async def ids(**query: Any) -> set[str]:
        return {job["id"] for job in (await search(service, **query))["items"]}

    assert await ids(queue="mail") == {early["id"]}
    assert await ids(queue="nosuch-queue") == set()
    assert await ids(status="PENDING") == {waiting["id"]}
    assert await ids(priority_min=5) == {late["id"], waiting["id"]}
    assert await ids(priority_max=5) == {early["id"], waiting["id"]}
    assert await ids(priority_min=11) == set()
    assert await ids(created_after="2026-05-01T12:00:01Z") == {late["id"], waiting["id"]}
    assert await ids(created_before="2026-05-01T12:00:01Z") == {early["id"]}
    assert await ids(queue="print", status="READY", priority_min=8) == {late["id"]}


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "1.0", ""])
async def test_a_limit_outside_is_refused_and_not_cut(service: Visit, limit: str) -> None:
    assert field_of(await service.client.get(f"{JOBS}?limit={limit}")) == "limit"


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "bm90fGE=", "a" * 300])
async def test_a_cursor_that_is_none_is_refused(service: Visit, cursor: str) -> None:
    assert field_of(await service.client.get(JOBS, params={"cursor": cursor})) == "cursor"


async def test_a_status_that_is_none_is_refused(service: Visit) -> None:
    assert field_of(await service.client.get(f"{JOBS}?status=DONE")) == "status"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": None}, "name"),
        ({"queue": "a-b"}, "queue"),
        ({"queue": "a" * 65}, "queue"),
        ({"queue": "a\n"}, "queue"),
        ({"priority": 0}, "priority"),
        ({"priority": 11}, "priority"),
        ({"priority": True}, "priority"),
        ({"payload": "x" * 65_535}, "payload"),
        ({"dependencies": [NO_ID]}, "dependencies"),
        ({"dependencies": ["x"]}, "dependencies[0]"),
        ({"dependencies": [NO_ID] * 51}, "dependencies"),
        ({"retry_policy": {"max_attempts": 11}}, "retry_policy.max_attempts"),
        ({"retry_policy": {"base_delay_seconds": 301}}, "retry_policy.base_delay_seconds"),
        ({"retry_policy": {"max_delay_seconds": 9}}, "retry_policy.max_delay_seconds"),
        ({"retry_policy": {"backoff_strategy": "NONE"}}, "retry_policy.backoff_strategy"),
        ({"status": "READY"}, "status"),
        ({"id": NO_ID}, "id"),
    ],
)
async def test_a_job_that_cannot_be_is_refused_with_400(
    service: Visit, fields: dict[str, Any], named: str
) -> None:
    answer = await service.client.post(JOBS, json={"name": "a", "queue": "q", **fields})
    assert field_of(answer) == named
    assert (await search(service))["items"] == []


async def test_the_outermost_values_are_accepted(service: Visit) -> None:
    dependency = await service.make_job()
    job = await service.make_job(
        name="ü" * 255,
        queue="q" * 64,
        payload="x" * 65_534,
        priority=1,
        dependencies=[dependency["id"].upper()],
        retry_policy={"max_attempts": 10, "base_delay_seconds": 300, "max_delay_seconds": 3600},
    )
    assert job["dependencies"] == [dependency["id"]]
    assert job["status"] == "PENDING"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_job_that_does_not_exist_is_404(service: Visit, method: str) -> None:
    body = {"priority": 99} if method == "PUT" else None
    answer = await service.client.request(method, f"{JOBS}/{NO_ID}", json=body)
    assert answer.status_code == 404
    assert answer.json()["code"] == "NOT_FOUND"
    assert NO_ID in answer.json()["message"]


async def test_a_circle_of_dependencies_is_409(service: Visit) -> None:
    first = await service.make_job()
    second = await service.make_job(dependencies=[first["id"]])
    third = await service.make_job(dependencies=[second["id"]])
    answer = await service.client.put(
        f"{JOBS}/{second['id']}", json={"dependencies": [first["id"], third["id"]]}
    )
    assert answer.status_code == 409
    assert answer.json()["code"] == "CONFLICT"
    assert set(answer.json()["details"]["cycle_path"]) == {second["id"], third["id"]}
    itself = await service.client.put(
        f"{JOBS}/{second['id']}", json={"dependencies": [second["id"]]}
    )
    assert itself.status_code == 409


async def test_a_job_with_dependents_is_not_deleted_but_409(service: Visit) -> None:
    first = await service.make_job()
    second = await service.make_job(dependencies=[first["id"]])
    answer = await service.client.delete(f"{JOBS}/{first['id']}")
    assert answer.status_code == 409
    assert answer.json()["code"] == "CONFLICT"
    assert second["id"] in answer.json()["message"]


async def test_an_ended_job_is_not_updated_but_409_before_its_fields_are_looked_at(
    service: Visit,
) -> None:
    job = await service.make_job()
    await finish(service, job["id"])
    for body in ({"priority": 2}, {"priority": 99}, {"priority": "x"}, {"status": "READY"}, {}):
        answer = await service.client.put(f"{JOBS}/{job['id']}", json=body)
        assert answer.status_code == 409, body
        assert answer.json()["code"] == "CONFLICT"
        assert JobStatus.COMPLETED in answer.json()["message"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", NO_ID),
        ("created_at", "2020-01-01T00:00:00Z"),
        ("created_at", None),
        ("status", "RUNNING"),
        ("attempt_count", 1),
        ("attempt_count", False),
        ("tenant", "other"),
        ("is_paused", True),
        ("lease", {}),
    ],
)
async def test_a_field_that_never_changes_is_refused_by_name(
    service: Visit, name: str, value: Any
) -> None:
    job = await service.make_job()
    answer = await service.client.put(f"{JOBS}/{job['id']}", json={name: value, "priority": 1})
    assert field_of(answer) == name
    assert (await service.client.get(f"{JOBS}/{job['id']}")).json() == job


async def test_a_job_can_be_sent_back_as_it_was_got(service: Visit) -> None:
    first = await service.make_job()
    fields = {"recurrence": {"cron": "0 9 * * *", "zone": "Europe/Paris"}, "kind": "report.send"}
    for job in (first, await service.make_job(dependencies=[first["id"]]),
                await service.make_job(**fields)):  # fmt: skip
        answer = await service.client.put(f"{JOBS}/{job['id']}", json={**job, "name": "new"})
        assert answer.status_code == 200, answer.text
        assert answer.json() == {**job, "name": "new"}


async def test_a_job_that_was_changed_since_it_was_got_is_409(service: Visit) -> None:
    job = await service.make_job()
    await service.clock.advance(SECOND)
    assert (await service.client.put(f"{JOBS}/{job['id']}", json={})).status_code == 200
    answer = await service.client.put(f"{JOBS}/{job['id']}", json={**job, "priority": 7})
    assert answer.status_code == 409
    assert answer.json()["details"]["field"] == "updated_at"


async def test_of_concurrent_changes_to_one_version_one_wins(service: Visit) -> None:
    job = await service.make_job()
    await service.clock.advance(SECOND)
    answers = await asyncio.gather(
        *(
            service.client.put(f"{JOBS}/{job['id']}", json={**job, "priority": priority})
            for priority in (1, 2, 3, 4)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]


async def test_two_concurrent_amendments_cannot_close_a_cycle(service: Visit) -> None:
    first = await service.make_job()
    one, other = [await service.make_job(dependencies=[first["id"]]) for _ in range(2)]
    answers = await asyncio.gather(
        *(
            service.client.put(f"{JOBS}/{job['id']}", json={"dependencies": [on["id"]]})
            for job, on in ((one, other), (other, one))
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]


async def test_concurrent_requests_with_one_key_create_one_job(service: Visit) -> None:
    asked = {"name": "Invoice", "queue": "mail", "kind": "invoice.send"}
    key = {"Idempotency-Key": "invoice-7"}
    answers = await asyncio.gather(
        *(service.client.post(JOBS, json=asked, headers=key) for _ in range(20))
    )
    assert sorted(answer.status_code for answer in answers) == [*[200] * 19, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1


async def test_dependencies_change_only_while_they_are_waited_for(service: Visit) -> None:
    first, ready = await service.make_job(), await service.make_job()
    url = f"{JOBS}/{ready['id']}"
    answer = await service.client.put(url, json={"dependencies": [first["id"]]})
    assert answer.status_code == 409
    pending = await service.make_job(dependencies=[first["id"]])
    url = f"{JOBS}/{pending['id']}"
    assert (await service.client.put(url, json={"dependencies": []})).json()["status"] == "READY"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", ""),
        ("name", None),
        ("queue", "a b"),
        ("priority", 11),
        ("priority", "1"),
        ("run_at", "tomorrow"),
        ("run_at", None),
        ("retry_policy.max_attempts", 0),
        ("dependencies", "x"),
        ("auto_remove", "yes"),
        ("color", "red"),
    ],
)
async def test_updated_fields_obey_the_rules_of_creation(
    service: Visit, name: str, value: Any
) -> None:
    job = await service.make_job()
    outer, _, inner = name.partition(".")
    body = {outer: {inner: value} if inner else value}
    assert field_of(await service.client.put(f"{JOBS}/{job['id']}", json=body)) == name


async def test_an_error_is_a_code_and_a_message(service: Visit) -> None:
    answer = await service.client.get(f"{JOBS}/{NO_ID}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() <= {"code", "message", "details"}
    assert isinstance(answer.json()["message"], str)
