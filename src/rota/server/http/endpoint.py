"""Serves the route table: from a request to a handler and back."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from rota.auth.caller import Caller
from rota.errors import (
    ForbiddenError,
    ForbiddenQueueError,
    InvalidRequestError,
    MethodNotAllowedError,
    RotaError,
    UnknownPathError,
)
from rota.server.http.context import ServerContext
from rota.server.http.guards import Guard
from rota.server.http.problems import Reply, answer_error, encode_reply, make_reply, send_reply
from rota.server.http.request import BodyReader, DisconnectedError, QueryReader, read_path
from rota.server.http.route import JSON, Answer, Call, Nothing, Route

_ANONYMOUS = Caller(scopes=frozenset(), who="anonymous")
_HEADER = re.compile(rb"[!-~]{1,255}")
_RESOURCE_PARTS = 4  # as in /api/v1/jobs
_WITHOUT_BODIES = frozenset({"GET", "HEAD"})


class RouteHandler:
    """One route with its readers prepared."""

    def __init__(
        self, route: Route, context: ServerContext, guard: Guard, longest_body: int
    ) -> None:
        self.route = route
        self._context = context
        self._guard = guard
        self._query = QueryReader(route.query)
        self._body = BodyReader(route.body, longest_body)
        self._headers = frozenset(name.lower().encode() for name in route.headers)
        self._first_status = next(iter(route.answers))

    async def answer(self, scope: AsgiScope, receive: Receive) -> Reply:
        """Identify the caller, check its scope, read the request, call the handler."""
        caller = await self._admit(scope)
        path = read_path(scope["path_params"])
        query = self._query.read(scope["query_string"])
        body: Any = Nothing()
        if self.route.method not in _WITHOUT_BODIES:
            body = await self._body.read(dict(scope["headers"]), receive)
        call = Call(
            caller=caller,
            context=self._context,
            path=path,
            headers=self._read_headers(scope["headers"]) if self._headers else {},
            body=body,
            query=query,
            root=scope.get("root_path", ""),
            disconnected=partial(_wait_for_disconnect, receive),
        )
        return self._encode(await self.route.handler(call))

    async def _admit(self, scope: AsgiScope) -> Caller:
        needed = self.route.scope
        if needed is None:
            return _ANONYMOUS
        caller = await self._guard.admit(scope)
        if not caller.may(needed):
            raise ForbiddenError(needed)
        if caller.queues is not None and not self.route.by_queue:
            raise ForbiddenQueueError(caller.queues)
        return caller

    def _read_headers(self, sent: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for raw_name, value in sent:
            if raw_name in self._headers:
                name = raw_name.decode("latin-1")
                if name in found:
                    raise InvalidRequestError(name, "must be given once")
                if not _HEADER.fullmatch(value):
                    raise InvalidRequestError(name, "must be 1 to 255 visible characters of ASCII")
                found[name] = value.decode("ascii")
        return found

    def _encode(self, given: Any) -> Reply:
        answer = given if isinstance(given, Answer) else Answer(self._first_status, given)
        if self.route.media != JSON and isinstance(answer.body, bytes):
            return make_reply(answer.status, answer.body, self.route.media, answer.headers)
        return encode_reply(answer.status, answer.body, answer.headers)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class PathEndpoint:
    """All methods of one path."""

    def __init__(self, handlers: Iterable[RouteHandler]) -> None:
        self._handlers = {each.route.method: each for each in handlers}
        if "GET" in self._handlers:
            self._handlers["HEAD"] = self._handlers["GET"]
        self._allowed = sorted({*self._handlers, "OPTIONS"})

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            reply = await self._answer(scope, receive)
        except DisconnectedError:
            return
        except RotaError as error:
            reply = answer_error(error)
        await send_reply(reply, send, is_head=scope["method"] == "HEAD")

    async def _answer(self, scope: AsgiScope, receive: Receive) -> Reply:
        handler = self._handlers.get(scope["method"])
        if handler is not None:
            return await handler.answer(scope, receive)
        if scope["method"] == "OPTIONS":
            return encode_reply(204, None, {"allow": ", ".join(self._allowed)})
        raise MethodNotAllowedError(scope["method"], self._allowed)


def serve_routes(
    routes: Iterable[Route], context: ServerContext, guard: Guard, longest_body: int
) -> list[StarletteRoute]:
    """The table as Starlette routes. Where two paths match, the more specific one wins."""
    by_path: defaultdict[str, list[RouteHandler]] = defaultdict(list)
    for route in routes:
        by_path[route.path].append(RouteHandler(route, context, guard, longest_body))
    return [serve_path(path, PathEndpoint(by_path[path])) for path in sort_paths(by_path)]


def sort_paths(paths: Iterable[str]) -> list[str]:
    """The paths resource by resource; within one, fixed parts come before parameters.

    Starlette tries routes one after another, so the first resources of the table are the fastest.
    """
    resources: dict[str, list[str]] = {}
    for path in paths:
        resources.setdefault("/".join(path.split("/")[:_RESOURCE_PARTS]), []).append(path)
    return [
        path
        for group in resources.values()
        for path in sorted(group, key=lambda it: [part.startswith("{") for part in it.split("/")])
    ]


def serve_path(path: str, endpoint: ASGIApp) -> StarletteRoute:
    """A Starlette route that matches the whole path, including a final line break."""
    served = StarletteRoute(path, endpoint)
    served.path_regex = re.compile(served.path_regex.pattern.removesuffix("$") + r"\Z")
    return served


async def serve_unknown(scope: AsgiScope, _receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        reply = answer_error(UnknownPathError(scope["path"]))
        await send_reply(reply, send, is_head=scope["method"] == "HEAD")


class ErrorLayer:
    """Answers and logs every error that nothing inside has handled."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def watch(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:  # noqa: BLE001 - the top of the service: nothing is above it
            reply = answer_error(error)
            if not has_begun:
                await send_reply(reply, send, is_head=scope["method"] == "HEAD")
