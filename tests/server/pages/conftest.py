"""The pages of a service on a store in memory, asked for without a network."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import httpx2
import pytest
from tests.browser.stage.story import Story

from rota.auth.caller import Caller, Scope
from rota.runtime.wiring import open_store
from rota.server import create_app
from rota.stores.opened import OpenStore
from rota.testing import VirtualClock

START = datetime(2026, 10, 23, 9, 41, 20, tzinfo=UTC)

Knock = Callable[..., httpx2.AsyncClient]


class OpenDoors:
    """Lets everybody in, with the scopes that are their token."""

    async def identify(self, token: str, now: datetime) -> Caller | None:
        return await self.recall(token, now)

    async def recall(self, token_id: str, now: datetime) -> Caller | None:  # noqa: ARG002 - the protocol
        scopes = frozenset(Scope(each) for each in token_id.split("+"))
        return Caller(scopes=scopes, who="anna", token_id=token_id)


@pytest.fixture
async def store() -> AsyncIterator[OpenStore]:
    async with await open_store("memory://") as opened:
        yield opened


@pytest.fixture
def story(store: OpenStore) -> Story:
    return Story(store, now=START)


@pytest.fixture
async def knock(store: OpenStore) -> AsyncIterator[Knock]:
    """Makes clients; without a token, of a service that a host service guards."""
    async with AsyncExitStack() as stack:

        def make(token: str | None = None, *, prefix: str = "") -> httpx2.AsyncClient:
            app = create_app(
                store, None if token is None else OpenDoors(), clock=VirtualClock(START)
            )
            client = httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=app, root_path=prefix),
                base_url="http://127.0.0.1",
                headers={"Origin": "http://127.0.0.1"},
            )
            stack.push_async_callback(client.aclose)
            return client

        yield make


@pytest.fixture
async def pages(knock: Knock) -> httpx2.AsyncClient:
    """Somebody who may do everything."""
    return knock()


async def sign_in(client: httpx2.AsyncClient, token: str) -> httpx2.Response:
    return await client.post("/admin/sign-in", data={"token": token, "next": ""})
