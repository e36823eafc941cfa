"""Whether the service is ready, asked of a runtime that stands and of one that is leaving."""

import httpx2
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from rota.runtime.web import ReadinessGate


def make_door() -> ReadinessGate:
    routes = [
        Route(path, lambda _request: PlainTextResponse("as ever"))
        for path in ("/health/ready", "/health/live", "/api/v1/jobs")
    ]
    return ReadinessGate(Starlette(routes=routes))


async def ask(gate: ReadinessGate, path: str, method: str = "GET") -> httpx2.Response:
    transport = httpx2.ASGITransport(gate)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path)


async def test_an_open_door_passes_everything_on() -> None:
    answer = await ask(make_door(), "/health/ready")
    assert (answer.status_code, answer.text) == (200, "as ever")


async def test_a_closed_door_is_not_ready_and_serves_all_the_same() -> None:
    gate = make_door()
    gate.close()
    answer = await ask(gate, "/health/ready")
    assert answer.status_code == 503
    assert answer.json() == {"code": "UNAVAILABLE", "message": "The service is stopping"}
    for path in ("/health/live", "/api/v1/jobs"):
        assert (await ask(gate, path)).text == "as ever"


async def test_a_head_request_is_answered_without_a_body() -> None:
    gate = make_door()
    gate.close()
    answer = await ask(gate, "/health/ready", "HEAD")
    assert (answer.status_code, answer.content) == (503, b"")
