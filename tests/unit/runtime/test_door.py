"""Whether the service is ready, asked of a house that stands and of one that is leaving."""

import httpx2
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from rota.runtime.web import Door


def make_door() -> Door:
    routes = [
        Route(path, lambda _request: PlainTextResponse("as ever"))
        for path in ("/health/ready", "/health/live", "/api/v1/jobs")
    ]
    return Door(Starlette(routes=routes))


async def ask(door: Door, path: str, method: str = "GET") -> httpx2.Response:
    transport = httpx2.ASGITransport(door)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path)


async def test_an_open_door_passes_everything_on() -> None:
    answer = await ask(make_door(), "/health/ready")
    assert (answer.status_code, answer.text) == (200, "as ever")


async def test_a_closed_door_is_not_ready_and_serves_all_the_same() -> None:
    door = make_door()
    door.close()
    answer = await ask(door, "/health/ready")
    assert answer.status_code == 503
    assert answer.json() == {"code": "UNAVAILABLE", "message": "The service is stopping"}
    for path in ("/health/live", "/api/v1/jobs"):
        assert (await ask(door, path)).text == "as ever"


async def test_a_head_is_told_without_a_body() -> None:
    door = make_door()
    door.close()
    answer = await ask(door, "/health/ready", "HEAD")
    assert (answer.status_code, answer.content) == (503, b"")
