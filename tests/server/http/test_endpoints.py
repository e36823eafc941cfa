"""What holds for every path: methods, paths that are not there, mounting, headers."""

from datetime import datetime

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.server.service import JOBS, NO_ID, Visit, field_of, serve

from rota.auth.caller import Caller, Scope
from rota.server.app import TABLE

PUBLIC = {"/health/live", "/health/ready", "/openapi.json", "/docs", "/docs/style.css"}


class Doorman:
    """Knows each scope as the token that has it, and no other."""

    async def identify(self, token: str, now: datetime) -> Caller | None:  # noqa: ARG002 - fixed
        known = {str(scope) for scope in Scope}
        return Caller(scopes=frozenset({Scope(token)}), who=token) if token in known else None

    async def recall(self, token_id: str, now: datetime) -> Caller | None:  # noqa: ARG002 - fixed
        return None


async def test_head_is_get_without_the_content(service: Visit) -> None:
    shown = await service.client.get(JOBS)
    asked = await service.client.head(JOBS)
    assert asked.status_code == 200
    assert asked.content == b""
    assert asked.headers["content-length"] == shown.headers["content-length"]


async def test_options_lists_the_allowed_methods(service: Visit) -> None:
    answer = await service.client.options(f"{JOBS}/{NO_ID}")
    assert answer.status_code == 204
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PUT"


@pytest.mark.parametrize("method", ["PATCH", "PUT", "TRACE", "BREW"])
async def test_another_method_gets_405_with_the_allowed_ones(service: Visit, method: str) -> None:
    answer = await service.client.request(method, JOBS)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert answer.json()["code"] == "METHOD_NOT_ALLOWED"
    assert answer.json()["details"]["allowed"] == ["GET", "HEAD", "OPTIONS", "POST"]


@pytest.mark.parametrize("path", ["/x", "/api/v1", f"{JOBS}/", f"{JOBS}/{NO_ID}/x", "/api/v2/jobs"])
async def test_where_there_is_nothing_that_is_said_in_json(service: Visit, path: str) -> None:
    answer = await service.client.get(path)
    assert answer.status_code == 404
    assert answer.json()["code"] == "NOT_FOUND"
    assert (await service.client.head(path)).content == b""


@pytest.mark.parametrize("text", ["1", "x" * 36, f"{NO_ID}%00", f"{NO_ID}%0a", "%ff", "null"])
async def test_an_invalid_id_is_refused_by_name(service: Visit, text: str) -> None:
    assert field_of(await service.client.get(f"{JOBS}/{text}")) == "job_id"


async def test_an_id_may_be_in_capitals(service: Visit) -> None:
    job = await service.make_job()
    answer = await service.client.get(f"{JOBS}/{job['id'].upper()}")
    assert answer.json()["id"] == job["id"]


async def test_links_begin_where_the_service_is_mounted() -> None:
    async with serve() as service:
        host = Starlette(routes=[Mount("/rota", service.app)])
        transport = httpx2.ASGITransport(host)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            made = await client.post(f"/rota{JOBS}", json={"name": "a", "queue": "q"})
            assert made.headers["location"] == f"/rota{JOBS}/{made.json()['id']}"
            assert (await client.get(made.headers["location"])).status_code == 200
            document = (await client.get("/rota/openapi.json")).json()
            assert document["servers"] == [{"url": "/rota"}]
            page = (await client.get("/rota/docs")).text
            assert 'href="/rota/docs/style.css"' in page
            assert (await client.get("/rota/nothing")).json()["code"] == "NOT_FOUND"


@pytest.mark.parametrize("route", TABLE, ids=lambda route: f"{route.method} {route.path}")
async def test_each_route_asks_for_its_scope(route: object) -> None:
    entry = next(each for each in TABLE if each is route)
    path = entry.path.replace("{job_id}", NO_ID)
    async with serve(auth=Doorman()) as service:
        answers = {
            scope: (await _ask(service, entry.method, path, str(scope))).status_code
            for scope in Scope
        }
        stranger = await _ask(service, entry.method, path, "nobody")
        nobody = await service.client.request(entry.method, path)
    if entry.path in PUBLIC:
        assert nobody.status_code == stranger.status_code == 200
        return
    assert entry.scope is not None
    wide = {scope for scope in Scope if Caller(scopes=frozenset({scope})).may(entry.scope)}
    assert {scope for scope, status in answers.items() if status != 403} == wide
    for answer in (nobody, stranger):
        assert answer.status_code == 401
        assert answer.json()["code"] == "UNAUTHORIZED"
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def _ask(service: Visit, method: str, path: str, token: str) -> httpx2.Response:
    return await service.client.request(method, path, headers={"authorization": f"Bearer {token}"})


@pytest.mark.parametrize(
    "sent",
    [
        [("authorization", "Bearer read"), ("authorization", "Bearer read")],
        [("authorization", "Basic read")],
        [("authorization", "Bearer")],
        [("authorization", "read")],
        [("authorization", "Bearer réad")],
    ],
)
async def test_a_token_is_sent_once_and_as_a_bearer_token(sent: list[tuple[str, str]]) -> None:
    async with serve(auth=Doorman()) as service:
        raw = [(name.encode(), value.encode()) for name, value in sent]
        answer = await service.client.get(JOBS, headers=raw)
    assert answer.status_code == 401


async def test_the_scope_is_checked_before_the_request_is_read() -> None:
    async with serve(auth=Doorman()) as service:
        answer = await service.client.post(
            JOBS, content=b"{", headers={"authorization": "Bearer read"}
        )
    assert answer.status_code == 403
    assert answer.json()["details"] == {"scope": "write"}


async def test_a_header_that_is_minded_is_sent_once_in_ascii(service: Visit) -> None:
    body = {"name": "a", "queue": "q"}
    twice = [("idempotency-key", "a"), ("idempotency-key", "b")]
    assert field_of(await service.client.post(JOBS, json=body, headers=twice)) == "idempotency-key"
    odd = {b"idempotency-key": "ü".encode()}
    assert field_of(await service.client.post(JOBS, json=body, headers=odd)) == "idempotency-key"
