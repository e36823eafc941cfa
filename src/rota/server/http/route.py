"""One entry of the route table, and the request and answer it handles."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar, get_args

import msgspec

from rota.auth.caller import Scope
from rota.server.http.context import Admitted

Body = TypeVar("Body")
Query = TypeVar("Query")
AnyHandler = TypeVar("AnyHandler", bound=Callable[..., Awaitable[Any]])

JSON = "application/json"


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty body or query."""


class Call(Admitted, Generic[Body, Query], frozen=True, kw_only=True, gc=False):
    """An admitted request with typed values.

    ``path`` holds the path parameters; a ``job_id`` is a lower-case UUID. ``headers`` holds the
    headers that the route declares, by lower-case name. Links to other paths start with ``root``.
    ``disconnected`` returns when the client has disconnected.
    """

    path: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: Body
    query: Query
    root: str = ""
    disconnected: Callable[[], Awaitable[None]] | None = None


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A reply with its own status or headers.

    The body has the type that the route declares for the status, None for an empty reply, or bytes
    when the route's ``media`` is not JSON.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}


Handler = Callable[[Call[Any, Any]], Awaitable[Any]]
"""Returns an ``Answer``, or the body of the route's first answer. Raises errors."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """``path`` is the full path, such as ``/api/v1/jobs/{job_id}``.

    ``answers`` maps each success status to the type of its body, None for no body. ``errors`` are
    error statuses beyond those that every route may return. ``headers`` are the request headers
    that the handler reads, each with a description. ``scope`` None means no token is needed.
    ``by_queue`` means that the handler checks the caller's queues; without it, a caller for single
    queues is refused. The handler's docstring documents the route.
    """

    method: str
    path: str
    handler: Handler
    scope: Scope | None
    tag: str
    answers: Mapping[int, Any]
    body: type[Any] = Nothing
    query: type[Any] = Nothing
    headers: Mapping[str, str] = {}
    errors: tuple[int, ...] = ()
    media: str = JSON
    by_queue: bool = False


class Resource:
    """The routes of one resource, in the order of their handlers."""

    def __init__(self, path: str, tag: str) -> None:
        self.path = path
        self.tag = tag
        self.routes: list[Route] = []

    def route(
        self, method: str, path: str, scope: Scope | None, **declared: Any
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Declare the handler's route, at a path below that of the resource.

        Its body, query and answer types come from its annotations; a handler that returns an
        ``Answer`` needs ``answers``.
        """

        def add(handler: AnyHandler) -> AnyHandler:
            hints = handler.__annotations__
            body, query = get_args(next(iter(hints.values())))
            known: dict[str, Any] = {"tag": self.tag, "answers": {200: hints["return"]}}
            self.routes.append(
                Route(
                    method=method,
                    path=self.path + path,
                    handler=handler,
                    scope=scope,
                    body=body,
                    query=query,
                    **known | declared,
                )
            )
            return handler

        return add
