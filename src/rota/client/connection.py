"""Connects a client to a server by HTTP, or to a store in this process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from urllib.parse import urlsplit

import httpx2
import msgspec

from rota.auth.caller import EVERY_SCOPE, Caller
from rota.auth.tokens import Secret
from rota.client.client import Client
from rota.clock.protocol import Clock, keeps_real_time
from rota.errors import InvalidInputError
from rota.jobs.record import DEFAULT_TENANT


class StoreAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A store that this process opens; ``who`` is for the audit log."""

    url: str
    tenant: str = DEFAULT_TENANT
    who: str = "client"


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A server and a token; the tenant is that of the token."""

    url: str
    token: Secret | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise _refusal(self.url, "write it as http://127.0.0.1:8080 or https://rota.example")
        if parts.username is not None or parts.password is not None:
            raise _refusal("...", "it must not hold a name or a password")
        if parts.query or parts.fragment:
            raise _refusal(self.url, "it must not hold ? or #")


def _refusal(url: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f'Invalid server URL "{url}": {reason}', {"field": "url"})


IN_PROCESS = "http://localhost"
TIMEOUT_SECONDS = 60.0

LONGEST_BODY = 64 << 20


@asynccontextmanager
async def open_client(
    address: StoreAddress | ServerAddress, clock: Clock | None = None
) -> AsyncIterator[Client]:
    """An open client. A store is open as long as the context lasts.

    A virtual ``clock`` replaces the store's in tests.
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
    """A client of the service in this process, without rate limits: it is the only caller."""
    from rota.runtime.wiring import open_clock, open_store  # noqa: PLC0415 - a server needs none
    from rota.server import GuardSettings, ServerSettings  # noqa: PLC0415 - as above
    from rota.server.rest import create_api  # noqa: PLC0415 - as above

    unlimited = GuardSettings(token_rate=None, stranger_rate=None, body_within=None)
    settings = ServerSettings(guarding=unlimited, longest_body=LONGEST_BODY)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await open_store(address.url))
        if clock is None or keeps_real_time(clock):
            clock = await stack.enter_async_context(open_clock(store))
        caller = Caller(tenant=address.tenant, scopes=EVERY_SCOPE, who=address.who)
        app = create_api(store, _Vouching(caller), settings, clock)
        http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url=IN_PROCESS, headers=_bearer("in-process")
        )
        yield Client(await stack.enter_async_context(http), address.url)


class _Vouching:
    """Grants everything: a caller who can open the store has every right on it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def identify(self, token: str, now: datetime) -> Caller | None:  # noqa: ARG002 - any will do
        return self._caller

    async def recall(self, token_id: str, now: datetime) -> Caller | None:  # noqa: ARG002 - there are no sessions
        return None


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
