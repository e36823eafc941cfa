"""Kinds with their schemas, payloads checked against them, and results over REST."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

import pytest
from tests.server.service import JOBS, Visit, field_of, serve

from rota import Rota
from rota.server import ServerSettings
from rota.worker import Worker

app = Rota("memory://")


class Address(NamedTuple):
    city: str
    number: int


@app.task(name="welcome", queue="mail", notifies=True)
async def welcome(user_id: int, address: Address | None = None) -> str:
    """Welcome a user."""
    return f"welcome {user_id}" if address is None else f"welcome to {address.city}"


@app.task(name="broken", retry=1)
async def broken() -> None:
    raise KeyError("missing")


class Stage(NamedTuple):
    """The service that serves the app, and a worker that is not running yet."""

    visit: Visit
    worker: Worker


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with (
        serve(settings=ServerSettings(checks=app.list_checks())) as visit,
        app.serving(visit.store, visit.clock),
    ):
        yield Stage(visit, app.worker(store=visit.store, clock=visit.clock))


async def test_kinds_are_listed_with_their_schemas(stage: Stage) -> None:
    listed = (await stage.visit.client.get("/api/v1/kinds")).json()["items"]
    found = {kind["kind"]: kind for kind in listed}
    assert found["welcome"]["queue"] == "mail"
    assert found["welcome"]["notifies"] is True
    assert found["welcome"]["doc"] == "Welcome a user."
    assert found["welcome"]["is_checked"] is True
    assert found["welcome"]["is_served"] is False
    assert "user_id" in str(found["welcome"]["payload_schema"])


async def test_a_kind_notifies_as_an_operator_says_and_else_as_its_worker(stage: Stage) -> None:
    visit = stage.visit
    worker = Worker(
        visit.store, {"page.oncall": print}, notifies={"page.oncall"}, clock=visit.clock
    )
    working = asyncio.create_task(worker.run())
    await visit.clock.advance(timedelta(seconds=10))

    async def read() -> dict[str, bool]:
        listed = (await visit.client.get("/api/v1/kinds")).json()["items"]
        return {it["kind"]: it["notifies"] for it in listed}

    assert await read() == {"broken": False, "page.oncall": True, "welcome": True}
    for kind in ("welcome", "page.oncall"):
        body = {"kind": kind, "notifies": False}
        await visit.client.put("/api/v1/kinds/notifies", json=body)
    assert set((await read()).values()) == {False}
    worker.stop()
    await visit.clock.run(working)


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"user_id": "seven"}, "payload.user_id"),
        ({}, "payload.user_id"),
        ({"user_id": 7, "address": ["Oslo", "1"]}, "payload.address[1]"),
        ({"user_id": 7, "extra": 1}, "payload.extra"),
    ],
)
async def test_a_payload_that_does_not_fit_is_refused(
    stage: Stage, payload: object, field: str
) -> None:
    body = {"name": "hello", "queue": "mail", "kind": "welcome", "payload": payload}
    answer = await stage.visit.client.post(JOBS, json=body)
    assert field_of(answer) == field
    assert await stage.visit.store.count("default") == 0


async def test_a_new_payload_is_checked_too(stage: Stage) -> None:
    job = await stage.visit.make_job(kind="welcome", payload={"user_id": 7})
    answer = await stage.visit.client.put(f"{JOBS}/{job['id']}", json={"payload": {"user_id": ""}})
    assert field_of(answer) == "payload.user_id"


async def test_a_kind_without_a_worker_is_accepted_with_a_warning(stage: Stage) -> None:
    body = {"name": "a job", "queue": "mail", "kind": "unknown", "payload": {"anything": 1}}
    answer = await stage.visit.client.post(JOBS, json=body)
    assert answer.status_code == 201
    assert answer.headers["warning"] == (
        "299 rota \"No running worker serves kind 'unknown': the job waits until one does.\""
    )
    why = await stage.visit.client.get(f"{JOBS}/{answer.json()['id']}/why")
    assert "worker" in why.text


async def test_a_kind_that_a_worker_serves_gets_no_warning(stage: Stage) -> None:
    working = asyncio.create_task(stage.worker.run())
    await stage.visit.clock.advance(timedelta(seconds=10))
    body = {"name": "a job", "queue": "mail", "kind": "welcome", "payload": {"user_id": 7}}
    answer = await stage.visit.client.post(JOBS, json=body)
    assert answer.status_code == 201
    assert "warning" not in answer.headers
    stage.worker.stop()
    await stage.visit.clock.advance(timedelta(seconds=60))
    await working


async def test_a_result_is_awaited(stage: Stage) -> None:
    job = await stage.visit.make_job(kind="welcome", payload={"user_id": 7})
    place = f"{JOBS}/{job['id']}/result"
    early = (await stage.visit.client.get(place)).json()
    assert (early["status"], early["has_ended"], early["result"]) == ("READY", False, None)
    waiting = asyncio.create_task(stage.visit.client.get(f"{place}?wait=30"))
    await stage.visit.clock.advance(timedelta(seconds=1))
    assert not waiting.done()
    await stage.worker.run_once()
    shown = (await waiting).json()
    assert (shown["status"], shown["result"]) == ("COMPLETED", "welcome 7")


async def test_a_wait_ends_in_time(stage: Stage) -> None:
    job = await stage.visit.make_job(kind="welcome", payload={"user_id": 7})
    waiting = asyncio.create_task(stage.visit.client.get(f"{JOBS}/{job['id']}/result?wait=5"))
    await stage.visit.clock.advance(timedelta(seconds=6))
    assert (await waiting).json()["has_ended"] is False


async def test_a_failure_has_its_traceback(stage: Stage) -> None:
    job = await stage.visit.make_job(kind="broken", retry_policy={"max_attempts": 1})
    await stage.worker.run_once()
    shown = (await stage.visit.client.get(f"{JOBS}/{job['id']}/result")).json()
    assert shown["status"] == "FAILED"
    assert shown["error"] == "KeyError: 'missing'"
    assert 'raise KeyError("missing")' in shown["traceback"]
    (attempt,) = (await stage.visit.client.get(f"{JOBS}/{job['id']}/attempts")).json()["items"]
    assert attempt["traceback"] == shown["traceback"]
