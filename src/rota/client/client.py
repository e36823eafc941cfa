"""A client of the REST API."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2
import msgspec

from rota.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    RotaError,
    ServerUnavailableError,
    StoreUnavailableError,
)

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
