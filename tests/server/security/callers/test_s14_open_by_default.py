"""S14: a service is closed unless somebody opens it on purpose, and then only to its own host."""

import pytest
from starlette.types import Message
from tests.server.security.conftest import MakeStage, Stage

from rota.auth.binding import LOOPBACK_NAMES, check_binding
from rota.auth.caller import Caller, Scope
from rota.errors import UnguardedAddressError
from rota.server import GuardSettings, ServerSettings
from rota.server.app import TABLE
from rota.server.http.route import Route

OPEN_PATHS = {"/health/live", "/health/ready", "/openapi.json", "/docs"}
"""What everybody may ask: whether it is there, and how it is to be asked."""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "rota.example"])  # noqa: S104 - refused here
def test_a_public_address_without_tokens_is_refused(host: str) -> None:
    check_binding("127.0.0.1", has_auth=False)
    with pytest.raises(UnguardedAddressError):
        check_binding(host, has_auth=False)


@pytest.mark.parametrize("route", TABLE, ids=lambda it: f"{it.method} {it.path}")
async def test_every_route_asks_for_a_token(stage: Stage, route: Route) -> None:
    client = await stage.connect()
    answer = await client.request(route.method, route.path)
    if route.path.startswith(tuple(OPEN_PATHS)):
        assert route.scope is None
        assert answer.status_code in {200, 503}
        return
    assert route.scope is not None
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize(
    "route",
    [it for it in TABLE if it.scope is not None],
    ids=lambda it: f"{it.method} {it.path}",
)
async def test_a_token_without_the_scope_is_refused(stage: Stage, route: Route) -> None:
    assert route.scope is not None
    others = [scope for scope in Scope if not Caller(scopes=frozenset({scope})).may(route.scope)]
    client = await stage.connect(await stage.issue(scopes=others))
    answer = await client.request(route.method, route.path)
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    assert answer.json()["details"] == {"scope": str(route.scope)}


async def test_probes_say_nothing_but_that_all_is_well(stage: Stage) -> None:
    ours = await stage.sign_up()
    await ours.post("/api/v1/jobs", json={"name": "told-to-nobody", "queue": "q"})
    client = await stage.connect()
    for path in ("/health/live", "/health/ready"):
        answer = await client.get(path)
        assert answer.status_code == 200
        assert "told-to-nobody" not in answer.text
        assert len(answer.content) < 200


@pytest.mark.parametrize("header", ["", "Basic eDp5", "Bearer", "bearer ", "Token x", "Bearer x y"])
async def test_anything_but_a_valid_token_is_unauthorized(stage: Stage, header: str) -> None:
    client = await stage.connect()
    answer = await client.get("/api/v1/jobs", headers={"authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_loopback_service_answers_to_its_own_names_only(make_stage: MakeStage) -> None:
    """A page whose name was led to 127.0.0.1 must not read what the service answers."""
    stage = make_stage(ServerSettings(guarding=GuardSettings(hosts=LOOPBACK_NAMES)))
    token = await stage.issue()
    for origin in ("http://127.0.0.1:8080", "http://LOCALHOST", "http://[::1]:8080"):
        client = await stage.connect(token, origin=origin)
        assert (await client.get("/api/v1/jobs")).status_code == 200
    for origin in ("http://evil.example:8080", "http://127.0.0.1.evil.example", "http://[::2]"):
        client = await stage.connect(token, origin=origin)
        answer = await client.get("/api/v1/jobs")
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")


async def test_a_request_without_a_host_is_refused_where_hosts_are_checked(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(ServerSettings(guarding=GuardSettings(hosts=LOOPBACK_NAMES)))
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/api/v1/jobs", "headers": []}
    await stage.app(scope, receive, send)
    assert sent[0]["status"] == 403
