"""The service in this process, on a store in memory and a clock that stands still."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import httpx2
from starlette.applications import Starlette

from rota.auth.caller import Auth
from rota.server import ServerSettings, create_app
from rota.stores.memory import MemoryStore
from rota.stores.opened import OpenStore
from rota.testing import VirtualClock

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOBS = "/api/v1/jobs"
NO_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


class Visit(NamedTuple):
    """Somebody who talks to the service, and what it works with."""

    client: httpx2.AsyncClient
    store: OpenStore
    clock: VirtualClock
    app: Starlette

    async def make_job(self, **fields: Any) -> dict[str, Any]:
        """A new job as it is shown."""
        answer = await self.client.post(JOBS, json={"name": "a job", "queue": "mail", **fields})
        assert answer.status_code == 201, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def send(self, body: bytes, **headers: str) -> httpx2.Response:
        """A job in these very bytes."""
        return await self.client.post(
            JOBS, content=body, headers={"content-type": "application/json", **headers}
        )


@asynccontextmanager
async def serve(
    store: OpenStore | None = None,
    auth: Auth | None = None,
    settings: ServerSettings | None = None,
) -> AsyncIterator[Visit]:
    kept, clock = store or MemoryStore(), VirtualClock(START)
    app = create_app(kept, auth, settings=settings, clock=clock)
    transport = httpx2.ASGITransport(app)
    async with kept, httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield Visit(client, kept, clock, app)


def field_of(answer: httpx2.Response) -> str:
    """The field that a refusal names."""
    assert answer.status_code == 400, answer.text
    problem = answer.json()
    assert problem["code"] == "VALIDATION_ERROR"
    assert problem["details"]["field"] in problem["message"]
    return str(problem["details"]["field"])
