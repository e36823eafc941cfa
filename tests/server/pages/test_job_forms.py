"""Forms for jobs: built from a schema, filled, sent, refused and carried out."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import httpx2
import msgspec
import pytest
from tests.browser.stage.story import MINUTE, Story
from tests.server.pages.conftest import START, Knock, sign_in

from rota import Rota
from rota.auth.masking import restore_secrets
from rota.clock.host_zone import read_host_zone
from rota.errors import InvalidJobError
from rota.jobs import Job, JobStatus
from rota.kinds.http_request import HttpRequest
from rota.ops.kinds import publish_kinds
from rota.policy.audit import read_audit
from rota.server.pages.schema_form import Group, build_form
from rota.stores.opened import OpenStore

app = Rota("memory://")


class Size(Enum):
    SMALL = 1
    LARGE = 2


@dataclass
class Address:
    city: str
    floor: int | None = None


@app.task(name="parcel.send", queue="mail")
async def send(  # noqa: PLR0917 - one parameter for each control
    order: int,
    to: Address,
    weight: float = 1.5,
    speed: Literal["slow", "fast"] = "slow",
    size: Size = Size.SMALL,
    signed: bool = False,
    note: str | None = None,
    tags: list[str] = [],  # noqa: B006 - never changed
    api_token: str = "",
) -> None:
    """Send a parcel."""


def a_form() -> Group:
    form = build_form(send.describe().schema)
    assert form is not None
    return form


@pytest.fixture
async def kinds(store: OpenStore) -> None:
    await publish_kinds(store, {"parcel.send": send.describe()})


async def list_jobs(store: OpenStore, kind: str = "parcel.send") -> list[Job]:
    found = (await store.find("default", limit=100)).items
    return [job for job in found if job.kind == kind]


def test_a_form_has_a_control_for_each_parameter_in_the_order_of_the_signature() -> None:
    looks = {field.path: (field.look, field.is_required) for field in a_form().list_fields()}
    assert list(looks.items()) == [
        ("payload.order", ("number", True)),
        ("payload.to.city", ("text", True)),
        ("payload.to.floor", ("number", False)),
        ("payload.weight", ("number", False)),
        ("payload.speed", ("choice", False)),
        ("payload.size", ("choice", False)),
        ("payload.signed", ("choice", False)),
        ("payload.note", ("text", False)),
        ("payload.tags", ("json", False)),
        ("payload.api_token", ("text", False)),
    ]


@pytest.mark.parametrize(
    "payload",
    [
        {"order": 7, "to": {"city": "Ghent"}},
        {"order": 7, "to": {"city": "", "floor": 3}, "weight": 2.0, "tags": ["a", "b"]},
        {"order": -1, "to": {"city": "x\ny"}, "speed": "fast", "size": 2, "signed": False},
    ],
)
def test_form_sends_back_the_payload_it_shows(payload: dict[str, Any]) -> None:
    form = a_form()
    assert form.holds(payload)
    assert form.read(form.show(payload)) == payload


@pytest.mark.parametrize(
    "payload",
    [
        {"order": 7},
        {"order": 7, "to": {"city": "Ghent"}, "more": 1},
        {"order": "7", "to": {"city": "Ghent"}},
        {"order": 7, "to": {"city": "Ghent"}, "note": ""},
        {"order": 7, "to": {"city": "Ghent"}, "speed": "none"},
        [1],
    ],
)
def test_a_payload_that_the_form_cannot_hold_is_not_forced_into_it(payload: Any) -> None:
    assert not a_form().holds(payload)


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("payload.order", "", "is missing"),
        ("payload.order", "7.5", "must be an integer, got 7.5"),
        ("payload.weight", "heavy", "must be a number, got heavy"),
        ("payload.weight", "true", "must be a number, got true"),
        ("payload.speed", "fastest", "must be one of fast, slow"),
        ("payload.tags", "[1", "must be JSON"),
    ],
)
def test_a_text_that_does_not_fit_is_refused_with_its_field(
    path: str, text: str, reason: str
) -> None:
    form = a_form()
    texts = form.show({"order": 7, "to": {"city": "Ghent"}}) | {path: text}
    with pytest.raises(InvalidJobError, match=reason) as refusal:
        form.read(texts)
    assert refusal.value.field == path


def test_an_optional_object_without_any_text_is_left_out() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    form = build_form({"type": "object", "properties": {"part": inner}})
    assert form is not None
    assert form.read({}) == {}
    assert form.read({"payload.part.a": "x"}) == {"part": {"a": "x"}}


def test_built_in_kinds_have_forms_and_other_schemas_take_json() -> None:
    form = build_form(msgspec.json.schema(HttpRequest))
    assert form is not None
    assert next(form.list_fields()).path == "payload.url"
    assert build_form({}) is None
    assert build_form({"type": "array"}) is None


def test_masked_secrets_come_back_unless_they_were_replaced() -> None:
    stored = {"api_token": "s3cr3t", "deep": [{"password": {"a": 1}}], "n": 1}
    shown = {"api_token": "(hidden)", "deep": [{"password": "(hidden)"}, 2], "n": True}
    restored = restore_secrets(shown, stored)
    assert restored == {"api_token": "s3cr3t", "deep": [{"password": {"a": 1}}, 2], "n": True}
    assert restored["n"] is True
    assert restore_secrets({"api_token": "new"}, stored) == {"api_token": "new"}


@pytest.mark.usefixtures("kinds")
async def test_a_job_is_created_from_the_form_of_its_kind(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    assert "/admin/jobs/new?kind=parcel.send" in (await pages.get("/admin/jobs/new")).text
    form = (await pages.get("/admin/jobs/new?kind=parcel.send")).text
    assert "Send a parcel." in form
    assert "<legend>to" in form
    assert 'name="queue" type="text" value="mail"' in form
    sent = {"kind": "parcel.send", "as": "fields", "name": "Parcel", "queue": "mail"}
    sent |= {"priority": "8", "max_attempts": "2", "run_at": "2026-10-24T08:30", "key": "p-7"}
    deep = await pages.post("/admin/jobs/new", data=sent | {"payload.order": "[" * 2_000})
    assert (deep.status_code, "payload.order must be" in deep.text) == (400, True)
    wrong = sent | {"payload.order": "seven", "payload.to.city": "Ghent", "why": "lost one"}
    refused = await pages.post("/admin/jobs/new", data=wrong)
    assert refused.status_code == 400
    assert "payload.order must be an integer, got seven" in refused.text
    assert 'value="Ghent"' in refused.text
    assert 'name="payload.order" aria-invalid="true"' in refused.text
    done = await pages.post("/admin/jobs/new", data=wrong | {"payload.order": "7"})
    (job,) = await list_jobs(store)
    assert done.headers["location"] == f"/admin/jobs/{job.id}?done=created"
    assert job.payload == {"order": 7, "to": {"city": "Ghent"}}
    assert (job.name, job.priority, job.retry_policy.max_attempts) == ("Parcel", 8, 2)
    local = job.due_at.astimezone(read_host_zone())
    assert (job.idempotency_key, f"{local:%d %H:%M}") == ("p-7", "24 08:30")
    (entry,) = [it async for it in read_audit(store, "default")]
    assert (entry.action, entry.why, entry.job_ids) == ("create", "lost one", (job.id,))


async def test_a_kind_without_a_schema_takes_json(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    form = (await pages.get("/admin/jobs/new?kind=other")).text
    assert "No running worker serves the kind other" in form
    sent = {"kind": "other", "as": "json", "name": "Other", "queue": "default", "priority": "5"}
    sent |= {"max_attempts": "3", "payload": '{"a": 1'}
    refused = await pages.post("/admin/jobs/new", data=sent)
    assert "payload must be JSON" in refused.text
    deep = await pages.post("/admin/jobs/new", data=sent | {"payload": '{"a":' * 2_000})
    assert (deep.status_code, "payload must be JSON" in deep.text) == (400, True)
    await pages.post("/admin/jobs/new", data=sent | {"payload": '{"a": [1]}'})
    (job,) = await list_jobs(store, "other")
    assert job.payload == {"a": [1]}


async def ask_parcel(story: Story, **fields: Any) -> Job:
    payload = {"order": 7, "to": {"city": "Ghent"}, "api_token": "s3cr3t"}
    retries = {"max_attempts": 1}
    return await story.ask(
        "Parcel", "mail", kind="parcel.send", payload=payload, retry_policy=retries, **fields
    )


@pytest.mark.usefixtures("kinds")
async def test_a_dead_job_is_retried_with_a_changed_payload_and_its_secret(
    store: OpenStore, story: Story, pages: httpx2.AsyncClient
) -> None:
    job = await story.die(await ask_parcel(story, ago=10 * MINUTE), MINUTE)
    path = f"/admin/jobs/{job.id}/retry"
    form = (await pages.get(path)).text
    assert "s3cr3t" not in form
    sent = {"as": "fields", "name": "Parcel", "queue": "mail", "priority": "5", "run_at": ""}
    sent |= {"max_attempts": "1", "payload.order": "8", "payload.to.city": "Ghent"}
    sent |= {"payload.api_token": "(hidden)"}
    done = await pages.post(path, data=sent)
    new_id = done.headers["location"].split("/")[-1].partition("?")[0]
    new = (await store.get("default", [new_id]))[new_id]
    assert (new.replaces, new.status) == (job.id, JobStatus.READY)
    assert new.payload == {"order": 8, "to": {"city": "Ghent"}, "api_token": "s3cr3t"}
    again = await pages.post(path, data=sent | {"payload.order": "9"})
    assert again.status_code == 400
    assert "has been retried already" in again.text


@pytest.mark.usefixtures("kinds")
async def test_a_live_job_is_changed_unless_it_changed_meanwhile(
    store: OpenStore, story: Story, pages: httpx2.AsyncClient
) -> None:
    job = await ask_parcel(story, ago=MINUTE)
    path = f"/admin/jobs/{job.id}/edit"
    assert 'value="2026-10-23T' in (await pages.get(path)).text
    payload = msgspec.json.encode(job.payload | {"order": 9}).decode()
    sent = {"as": "json", "name": "Parcel 9", "queue": "mail", "priority": "9"}
    sent |= {"max_attempts": "1", "payload": payload, "updated_at": job.updated_at.isoformat()}
    assert (await pages.post(path, data=sent)).status_code == 303
    changed = await story.read(job)
    assert (changed.name, changed.priority, changed.payload["order"]) == ("Parcel 9", 9, 9)
    assert (changed.due_at, changed.retry_policy) == (job.due_at, job.retry_policy)
    late = await pages.post(path, data=sent | {"name": "Parcel 10"})
    assert late.status_code == 400
    assert "after it was read" in late.text
    assert len(await list_jobs(store)) == 1


@pytest.mark.usefixtures("kinds")
async def test_a_completed_job_is_duplicated_and_not_edited(
    store: OpenStore, story: Story, pages: httpx2.AsyncClient
) -> None:
    job = await story.complete(await ask_parcel(story, ago=10 * MINUTE), MINUTE)
    assert (await pages.get(f"/admin/jobs/{job.id}/edit")).status_code == 409
    assert (await pages.get(f"/admin/jobs/{job.id}/retry")).status_code == 409
    sent = {"as": "fields", "name": "Parcel", "queue": "slow", "priority": "5"}
    sent |= {"max_attempts": "1", "payload.order": "7", "payload.to.city": "Ghent"}
    await pages.post(f"/admin/jobs/{job.id}/duplicate", data=sent)
    copy = next(it for it in await list_jobs(store) if it.id != job.id)
    assert (copy.queue, copy.due_at, copy.replaces) == ("slow", START, None)
    assert copy.payload == {"order": 7, "to": {"city": "Ghent"}}


@pytest.mark.parametrize(("token", "code"), [("read+operate", 403), ("read+write", 200)])
async def test_forms_need_the_scope_write(
    story: Story, knock: Knock, token: str, code: int
) -> None:
    client = knock(token)
    await sign_in(client, token)
    job = await story.die(await ask_parcel(story, ago=10 * MINUTE), MINUTE)
    assert (await client.get("/admin/jobs/new")).status_code == code
    assert (await client.get(f"/admin/jobs/{job.id}/duplicate")).status_code == code
    assert (await client.get(f"/admin/jobs/{job.id}/retry")).status_code == 403
