"""A client of the REST API: of a server over HTTP, or of a store in this process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import msgspec

from rota.auth.caller import EVERY_SCOPE, Caller
from rota.auth.tokens import Secret
from rota.clock.protocol import Clock, keeps_real_time
from rota.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    RotaError,
    ServerUnavailableError,
    StoreUnavailableError,
)
from rota.jobs.record import DEFAULT_TENANT

__all__ = ["Client", "ServerAddress", "StoreAddress", "open_client"]

GROUPS: Mapping[int, type[RotaError]] = {
    400: InvalidInputError,
    401: RefusedError,
    403: RefusedError,
    404: NotFoundError,
    405: InvalidInputError,
    409: ConflictError,
    413: InvalidInputError,
    415: InvalidInputError,
    422: InvalidInputError,
    429: RefusedError,
    503: StoreUnavailableError,
}
"""To which group of errors an HTTP status belongs: who must act."""


def read_problem(status: int, document: object, url: str) -> RotaError:
    """The error of an answer that is not what was asked for."""
    group = GROUPS.get(status)
    if group is None or not isinstance(document, Mapping) or "message" not in document:
        return ServerUnavailableError(url, f"answered with the status {status}, and not as a Rota")
    details = document.get("details")
    return group(str(document["message"]), details if isinstance(details, Mapping) else None)


API = "/api/v1"
PAGE_SIZE = 100

Query = Mapping[str, Any]


class Listed(NamedTuple):
    """A part of a list, and where it goes on; None where it does not."""

    items: list[Any]
    next_cursor: str | None


class Created(NamedTuple):
    """The stored document; ``is_new`` is False if it existed before.

    ``warning`` is what the server warns about, such as a kind that no worker serves.
    """

    document: Any
    is_new: bool
    warning: str | None = None


class Client:
    """Calls the routes of the service; paths are those below ``/api/v1``.

    It raises the error of the service, with the same message. ``url`` is named in the error when
    the service does not answer.
    """

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer; None if it is empty. Values of the query that are None are left out."""
        return self._read(await self._send(method, path, query, body, headers))

    async def create(self, path: str, body: Any) -> Created:
        """Create something. The answer says whether it existed, under the same key."""
        response = await self._send("POST", path, None, body, None)
        _, _, quoted = response.headers.get("warning", "").partition('"')
        return Created(
            self._read(response), response.status_code == 201, quoted.removesuffix('"') or None
        )

    async def get(self, path: str, query: Query | None = None) -> Any:
        return await self.ask("GET", path, query=query)

    async def post(self, path: str, body: Any = None, query: Query | None = None) -> Any:
        return await self.ask("POST", path, body=body, query=query)

    async def collect(self, path: str, query: Query | None = None, *, limit: int) -> Listed:
        """The items of a list, page after page until there are ``limit`` of them or no more."""
        cursor = (query or {}).get("cursor")
        items: list[Any] = []
        while True:
            size = min(limit - len(items), PAGE_SIZE)
            page = await self.get(path, {**(query or {}), "limit": size, "cursor": cursor})
            items += page["items"]
            cursor = page.get("next_cursor")
            if cursor is None or len(items) >= limit:
                return Listed(items, cursor)

    async def _send(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Any,
        headers: Mapping[str, str] | None,
    ) -> httpx2.Response:
        chosen = {name: _spell(it) for name, it in (query or {}).items() if it is not None}
        content = None if body is None else msgspec.json.encode(body)
        sent = dict(headers or {})
        if content is not None:
            sent["content-type"] = "application/json"
        try:
            return await self._http.request(
                method, f"{API}{path}", params=chosen, content=content, headers=sent
            )
        except httpx2.HTTPError as error:
            reason = f"does not answer: {str(error) or type(error).__name__}"
            raise ServerUnavailableError(self._url, reason) from error

    def _read(self, response: httpx2.Response) -> Any:
        if response.status_code == 204 or (response.is_success and not response.content):
            return None
        document = self._decode(response)
        if not response.is_success:
            raise read_problem(response.status_code, document, self._url)
        return document

    def _decode(self, response: httpx2.Response) -> Any:
        try:
            return msgspec.json.decode(response.content)
        except msgspec.DecodeError as error:
            reason = f"answered with the status {response.status_code}, and not as a Rota"
            raise ServerUnavailableError(self._url, reason) from error


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class StoreAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A store that this process opens; ``who`` is for the audit log.

    With ``checks_payloads``, a payload must fit what the app of its kind has stored about it when
    the client opens: for a client that closes soon.
    """

    url: str
    tenant: str = DEFAULT_TENANT
    who: str = "client"
    checks_payloads: bool = False


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


def open_client(
    address: StoreAddress | ServerAddress, clock: Clock | None = None
) -> AbstractAsyncContextManager[Client]:
    """An open client. A store is open as long as the context lasts.

    A virtual ``clock`` replaces the store's in tests.
    """
    if isinstance(address, ServerAddress):
        return _reach_server(address)
    return _reach_store(address, clock)


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
    from rota.ops.kinds import read_checks  # noqa: PLC0415 - as below
    from rota.runtime.wiring import open_clock, open_store  # noqa: PLC0415 - a server needs none
    from rota.server import GuardSettings, ServerSettings  # noqa: PLC0415 - as above
    from rota.server.rest import create_api  # noqa: PLC0415 - as above

    unlimited = GuardSettings(token_rate=None, stranger_rate=None, body_within=None)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await open_store(address.url))
        checks = await read_checks(store) if address.checks_payloads else {}
        settings = ServerSettings(guarding=unlimited, longest_body=LONGEST_BODY, checks=checks)
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
