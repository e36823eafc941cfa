"""S11: a filter is of a type, and no value of a user is an operator, a path or part of a key."""

import re
from typing import Any

import httpx2
import msgspec
import pytest
from tests.server.security.conftest import Stage

from rota.server.app import TABLE
from rota.server.http.route import Route

AN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
OPERATORS: list[Any] = [
    {"$ne": None},
    {"$gt": ""},
    {"$where": "sleep(1000)"},
    {"$regex": ".*"},
    {"a.b": 1},
    [{"$ne": 1}],
]
FREE = {"payload", "value", "registrations"}
"""Fields that may hold any JSON: they are stored as they are and never used as a path."""

TAKING = [
    route
    for route in TABLE
    if any(field.name not in FREE for field in msgspec.structs.fields(route.body))
]


@pytest.mark.parametrize("route", TAKING, ids=lambda it: f"{it.method} {it.path}")
async def test_an_object_where_a_word_is_wanted_is_refused(stage: Stage, route: Route) -> None:
    client = await stage.sign_up()
    path = re.sub(r"\{\w+\}", AN_ID, route.path)
    for field in msgspec.structs.fields(route.body):
        if field.name in FREE:
            continue
        for value in OPERATORS:
            answer = await client.request(route.method, path, json={field.encode_name: value})
            assert answer.status_code in {400, 404}, (field.name, value, answer.text)


QUERIES = [route for route in TABLE if route.method == "GET" and "{" not in route.path]


@pytest.mark.parametrize("route", QUERIES, ids=lambda it: it.path)
@pytest.mark.parametrize("name", ["queue[$ne]", "queue.$gt", "$where", "status[]", "queue[0]"])
async def test_a_query_has_no_operators(stage: Stage, route: Route, name: str) -> None:
    if route.scope is None:
        return
    client = await stage.sign_up()
    answer = await client.get(route.path, params={name: "x"})
    assert answer.status_code == 400
    assert answer.json()["details"]["field"] == name


async def test_a_payload_full_of_operators_is_only_a_payload(stage: Stage) -> None:
    client = await stage.sign_up()
    payload = {"$set": {"tenant": "theirs"}, "a.b": {"$ne": None}, "__proto__": 1, "": {"$": 0}}
    made = await client.post("/api/v1/jobs", json={"name": "x", "queue": "q", "payload": payload})
    assert made.json()["payload"] == payload
    assert made.json()["tenant"] == "ours"


def keys_of(answer: httpx2.Response) -> set[str]:
    return {item["name"] for item in answer.json()["items"]}


async def test_names_that_look_like_keys_of_the_store_collide_with_nothing(stage: Stage) -> None:
    client = await stage.sign_up()
    for kind in ("tokens", "audit", "rota:jobs", "ours", "ours:audit", "..", "::"):
        job = {"name": kind, "queue": "tokens", "kind": kind, "idempotency_key": f"tokens/{kind}"}
        assert (await client.post("/api/v1/jobs", json=job)).status_code == 201
    assert (await client.get("/api/v1/tokens")).json()["items"][0]["name"] == "ada"
    assert keys_of(await client.get("/api/v1/audit")) == set()
