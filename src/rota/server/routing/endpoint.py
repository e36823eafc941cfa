"""From a request to a handler and back: one endpoint for each path of the table."""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from rota.auth.caller import Caller
from rota.errors import (
    ForbiddenError,
    InvalidRequestError,
    MethodNotAllowedError,
    RotaError,
)
from rota.server.routing.admission import Guard
from rota.server.routing.problems import answer_error
from rota.server.routing.reading.body import BodyReader, DisconnectedError
from rota.server.routing.reading.path import read_path
from rota.server.routing.reading.query import QueryReader
from rota.server.routing.replies import Reply, encode_reply, make_reply, send_reply
from rota.server.routing.route import JSON, Answer, Call, Nothing, Route
from rota.server.surroundings import Surroundings

_NOBODY = Caller(scopes=frozenset(), who="nobody")
_HEADER = re.compile(rb"[!-~]{1,255}")
_WITHOUT_BODIES = frozenset({"GET", "HEAD"})


class Keeping(NamedTuple):
    """What all endpoints of a server share."""

    around: Surroundings
    guard: Guard
    longest_body: int


class Served:
    """A route made ready: whatever can be prepared for its requests has been."""

    def __init__(self, route: Route, keeping: Keeping) -> None:
        self.route = route
        self._around = keeping.around
        self._guard = keeping.guard
        self._query = QueryReader(route.query)
        self._body = BodyReader(route.body, keeping.longest_body)
        self._has_body = route.method not in _WITHOUT_BODIES
        self._headers = frozenset(name.lower().encode() for name in route.headers)
        self._first_status = next(iter(route.answers))

    async def answer(self, scope: AsgiScope, receive: Receive) -> Reply:
        """Who asks, may they, what do they ask: in that order; then the handler."""
        caller = await self._admit(scope)
        path = read_path(scope.get("path_params") or {})
        query = self._query.read(scope["query_string"])
        headers = dict(scope["headers"])
        body = await self._body.read(headers, receive) if self._has_body else Nothing()
        call = Call(
            caller=caller,
            around=self._around,
            path=path,
            headers=self._read_headers(scope["headers"]) if self._headers else {},
            body=body,
            query=query,
            root=scope.get("root_path", ""),
            hung_up=partial(_wait_for_end, receive),
        )
        return self._encode(await self.route.handler(call))

    async def _admit(self, scope: AsgiScope) -> Caller:
        needed = self.route.scope
        if needed is None:
            return _NOBODY
        caller = await self._guard.admit(scope)
        if not caller.may(needed):
            raise ForbiddenError(needed)
        return caller

    def _read_headers(self, sent: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for raw_name, value in sent:
            if raw_name in self._headers:
                name = raw_name.decode("latin-1")
                if name in found:
                    raise InvalidRequestError(name, "must be given once")
                found[name] = _decode_header(name, value)
        return found

    def _encode(self, given: Any) -> Reply:
        answer = given if isinstance(given, Answer) else Answer(self._first_status, given)
        if self.route.media != JSON and isinstance(answer.body, bytes):
            return make_reply(answer.status, answer.body, self.route.media, answer.headers)
        return encode_reply(answer.status, answer.body, answer.headers)


class PathEndpoint:
    """Everything that is served under one path; also what is said to other methods."""

    def __init__(self, routes: Iterable[Served]) -> None:
        self._served = {each.route.method: each for each in routes}
        if "GET" in self._served:
            self._served["HEAD"] = self._served["GET"]
        self._allowed = sorted({*self._served, "OPTIONS"})

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        try:
            served = self._served.get(method)
            reply = await self._answer(served, scope, receive)
        except DisconnectedError:
            return
        except RotaError as error:
            reply = answer_error(error)
        await send_reply(reply, send, is_head=method == "HEAD")

    async def _answer(self, served: Served | None, scope: AsgiScope, receive: Receive) -> Reply:
        if served is not None:
            return await served.answer(scope, receive)
        if scope["method"] == "OPTIONS":
            return encode_reply(204, None, {"allow": ", ".join(self._allowed)})
        raise MethodNotAllowedError(scope["method"], self._allowed)


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _decode_header(name: str, value: bytes) -> str:
    if not _HEADER.fullmatch(value):
        raise InvalidRequestError(name, "must be 1 to 255 visible characters of ASCII")
    return value.decode("ascii")
