"""S2: a tenant cannot tell whether there is another.

Every operation of the service is asked in two worlds, by somebody who may do everything for their
own tenant. In one world another tenant has jobs, gates, tokens and all the rest; in the other there
is none. The requests are made up from the service's own description, with the other tenant's ids
wherever one can be given, so a new route is covered as soon as it is served. The answers must be
the same, and the other tenant's things as they were.
"""

import re
from random import Random
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest
from tests.server.security.callers.asking import Asked, Inquirer
from tests.server.security.callers.two_tenants import (
    MARKER,
    OURS,
    THEIRS,
    Household,
    take_stock,
)
from tests.server.security.conftest import MakeStage, Stage

from rota.server.api.job_bodies import JobUpdate
from rota.server.app import TABLE
from rota.server.http.route import Nothing, Route
from rota.server.pages.confirm import _ACTS, _QUESTIONS

ABOUT_EVERYBODY = {"/metrics": "the whole installation's, for its operators, without names"}
"""What is meant to tell of all tenants at once, and why."""

SAYING_IT_AGAIN = {JobUpdate}
"""What holds fields that never change: they may be sent with the values they have."""

CHANCE = re.compile(r"rota_[0-9A-Za-z]{49}|\b[0-9a-f]{24}\b")
"""New tokens and their ids are drawn where no test can reach, and differ every time."""

ASKED_ROUTES = [route for route in TABLE if route.path not in ABOUT_EVERYBODY]


class World(NamedTuple):
    """A stage, somebody of our own tenant, and the other tenant's ids, whether it exists or not."""

    stage: Stage
    client: httpx2.AsyncClient
    their_ids: dict[str, str]
    cursor: str


class Given(NamedTuple):
    """An answer without what chance put into it."""

    status: int
    headers: dict[str, str]
    content: str


async def make_world(make_stage: MakeStage, patched: pytest.MonkeyPatch, *tenants: str) -> World:
    patched.setattr("rota.server.rest.randbits", Random(5).getrandbits)
    stage = make_stage()
    patched.setattr("rota.rail.settings.randbits", Random(3).getrandbits)
    await Household(stage, OURS).move_in()
    client = await stage.sign_up(OURS)
    ids: dict[str, str] = {}
    cursor = ""
    for tenant in tenants:
        ids = await Household(stage, tenant).move_in()
        page = await stage.store.find(tenant, limit=1)
        cursor = page.next_cursor or ""
    return World(stage, client, ids, cursor)


async def ask(world: World, asked: Asked) -> Given:
    answer = await world.client.request(
        asked.method, asked.path, params=asked.query, json=asked.body
    )
    kept = ("content-type", "location", "retry-after", "allow", "www-authenticate")
    headers = {name: answer.headers[name] for name in kept if name in answer.headers}
    return Given(answer.status_code, headers, CHANCE.sub("?", answer.text))


async def list_requests(world: World, route: Route) -> list[Asked]:
    document = (await world.client.get("/openapi.json")).json()
    inquirer = Inquirer(document, world.their_ids, world.cursor)
    if route.path not in document["paths"]:
        return [Asked(route.method, route.path, {}, None, names_an_id=False)]
    return list(inquirer.ask_about(route.method, route.path))


@pytest.mark.parametrize("route", ASKED_ROUTES, ids=lambda it: f"{it.method} {it.path}")
async def test_no_answer_depends_on_another_tenant(
    route: Route, make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request that may change something is made in worlds of its own."""
    shared = await make_world(make_stage, monkeypatch, THEIRS)
    lonely = await make_world(make_stage, monkeypatch)
    for number, asked in enumerate(await list_requests(shared, route)):
        if number and route.method != "GET":
            shared = await make_world(make_stage, monkeypatch, THEIRS)
            lonely = await make_world(make_stage, monkeypatch)
        before = await take_stock(shared.stage, THEIRS)
        given = await ask(shared, asked)
        assert given == await ask(lonely, asked), asked
        assert MARKER not in given.content
        assert await take_stock(shared.stage, THEIRS) == before, asked
        if asked.names_an_id and route.body is Nothing:
            assert given.status == 404, asked


PAGES = ("", "/jobs", "/schedules", "/workers", "/gates", "/dead-letters", "/audit", "/nothing")


async def sign_in(world: World, tenant: str = OURS) -> httpx2.AsyncClient:
    """A browser of somebody of the tenant."""
    token = await world.stage.issue(tenant)
    browser = await world.stage.connect()
    browser.headers["origin"] = str(browser.base_url)
    answer = await browser.post("/admin/sign-in", data={"token": token})
    assert answer.status_code == 303, answer.text
    return browser


@pytest.mark.parametrize(
    "page", [*PAGES, "/jobs/{job_id}", "/jobs?text={word}", "/jobs?cursor={cursor}"]
)
async def test_no_page_depends_on_another_tenant(
    page: str, make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = await make_world(make_stage, monkeypatch, THEIRS)
    lonely = await make_world(make_stage, monkeypatch)
    ours, theirs = await sign_in(shared), await sign_in(lonely)
    for job_id in shared.their_ids.values() if "{job_id}" in page else [""]:
        path = "/admin" + page.format(job_id=job_id, word="nobody-else", cursor=shared.cursor)
        seen, alone = await ours.get(path), await theirs.get(path)
        assert (seen.status_code, CHANCE.sub("?", seen.text)) == (
            alone.status_code,
            CHANCE.sub("?", alone.text),
        )
        assert MARKER not in seen.text
        if job_id:
            assert seen.status_code == 404


@pytest.mark.parametrize("verb", ["cancel", "retry", "run-now", "pause", "resume"])
async def test_no_button_reaches_another_tenants_job(
    verb: str, make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await make_world(make_stage, monkeypatch, THEIRS)
    browser = await sign_in(world)
    before = await take_stock(world.stage, THEIRS)
    for job_id in world.their_ids.values():
        answer = await browser.post(f"/admin/jobs/{job_id}/{verb}", data={"why": "x"})
        assert answer.status_code in {400, 404}, answer.text
        for path, action in [("confirm", it) for it in _QUESTIONS] + [("act", it) for it in _ACTS]:
            form = {"action": action, "id": job_id, "dependent": job_id, "cascade": "yes"}
            shown = await browser.post(f"/admin/{path}", data={**form, "why": "x"})
            assert MARKER not in shown.text
    assert await take_stock(world.stage, THEIRS) == before


async def test_the_pages_show_each_tenant_its_own(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await make_world(make_stage, monkeypatch, THEIRS)
    browser = await sign_in(world, THEIRS)
    for page in ("/jobs", "/dead-letters", "/audit", f"/jobs/{world.their_ids['waiting']}"):
        assert MARKER in (await browser.get(f"/admin{page}")).text, page


async def test_the_other_tenant_is_there_and_sees_its_own(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nothing above would mean anything."""
    world = await make_world(make_stage, monkeypatch, THEIRS)
    client = await world.stage.sign_up(THEIRS)
    listed = await client.get("/api/v1/jobs")
    assert MARKER in listed.text
    assert (await client.get("/api/v1/tokens")).text.count(MARKER) == 1
    for name, job_id in world.their_ids.items():
        if name != "token":
            assert (await client.get(f"/api/v1/jobs/{job_id}")).status_code == 200


COMPARING = "/api/v1/tenants"
"""Names and numbers of all tenants, for admins of the default one alone; it takes no name."""


@pytest.mark.parametrize("route", TABLE, ids=lambda it: f"{it.method} {it.path}")
def test_no_request_names_a_tenant(route: Route) -> None:
    """It comes from the token, and from nowhere else."""
    names = [
        field.encode_name
        for kind in (route.body, route.query)
        for field in msgspec.structs.fields(kind)
        if kind not in SAYING_IT_AGAIN
    ]
    path = "" if route.path == COMPARING else route.path
    assert not [name for name in [*names, path, *route.headers] if "tenant" in name.lower()]


async def test_a_tenant_that_is_named_anyway_is_refused(stage: Stage) -> None:
    client = await stage.sign_up(OURS)
    job: dict[str, Any] = {"name": "x", "queue": "q", "tenant": THEIRS}
    assert (await client.post("/api/v1/jobs", json=job)).status_code == 400
    assert (await client.get("/api/v1/jobs", params={"tenant": THEIRS})).status_code == 400
    headers = {"x-tenant": THEIRS, "tenant": THEIRS}
    made = await client.post("/api/v1/jobs", json={"name": "x", "queue": "q"}, headers=headers)
    assert made.json()["tenant"] == OURS
    path = made.headers["location"]
    assert (await client.put(path, json={"tenant": OURS, "name": "y"})).status_code == 200
    assert (await client.put(path, json={"tenant": THEIRS, "name": "y"})).status_code == 400


async def test_metrics_are_for_operators_and_name_no_tenant(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await make_world(make_stage, monkeypatch, THEIRS)
    shown = (await world.client.get("/metrics")).text
    assert "rota_queue_depth" in shown
    assert THEIRS not in shown
    assert MARKER not in shown
    for route in TABLE:
        if route.path in ABOUT_EVERYBODY:
            assert route.scope == "admin"
