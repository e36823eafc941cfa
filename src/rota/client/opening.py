"""From an address to a client."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

import httpx2

from rota.access import EVERY_SCOPE, Caller
from rota.client.address import ServerAddress, StoreAddress
from rota.client.client import Client
from rota.clock.protocol import Clock, keeps_real_time
from rota.server import ServerSettings, create_app
from rota.server.guarding import GuardSettings
from rota.server.settings import MEBIBYTE
from rota.wiring import open_clock, open_store

IN_PROCESS = "http://localhost"
TIMEOUT_SECONDS = 60.0

UNGUARDED = ServerSettings(
    guarding=GuardSettings(token_rate=None, stranger_rate=None, body_within=None),
    longest_body=64 * MEBIBYTE,
)
"""Nobody is to be kept from overtaxing a server that is theirs alone."""


@asynccontextmanager
async def open_client(
    address: StoreAddress | ServerAddress, clock: Clock | None = None
) -> AsyncIterator[Client]:
    """Somebody to ask. A store is opened for as long as the context lasts.

    ``clock`` takes the place of the store's in tests, where time is made up.
    """
    if isinstance(address, ServerAddress):
        async with _reach_server(address) as client:
            yield client
        return
    async with _reach_store(address, clock) as client:
        yield client


@asynccontextmanager
async def _reach_server(address: ServerAddress) -> AsyncIterator[Client]:
    headers = {} if address.token is None else _bearer(address.token.reveal())
    url = address.url.rstrip("/")
    async with httpx2.AsyncClient(
        base_url=url, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False
    ) as http:
        yield Client(http, url)


@asynccontextmanager
async def _reach_store(address: StoreAddress, clock: Clock | None) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await open_store(address.url))
        if clock is None or keeps_real_time(clock):
            clock = await stack.enter_async_context(open_clock(store))
        caller = Caller(tenant=address.tenant, scopes=EVERY_SCOPE, who=address.who)
        app = create_app(store, _Vouching(caller), settings=UNGUARDED, clock=clock)
        http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url=IN_PROCESS, headers=_bearer("in-process")
        )
        yield Client(await stack.enter_async_context(http), address.url)


class _Vouching:
    """Whoever may open the store may do everything on it: there is nobody else to ask."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def identify(self, token: str, now: datetime) -> Caller | None:  # noqa: ARG002 - any will do
        return self._caller

    async def recall(self, token_id: str, now: datetime) -> Caller | None:  # noqa: ARG002 - there are no sessions
        return None


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
