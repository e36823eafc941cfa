"""One entry of the route table: what is asked, by whom, what is answered, and who answers it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from rota.access import Caller, Scope
from rota.server.surroundings import Surroundings

Body = TypeVar("Body")
Query = TypeVar("Query")


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without a body, or a route that takes no query."""


class Call(msgspec.Struct, Generic[Body, Query], frozen=True, kw_only=True):
    """A request that has been let in and read: everything in it is of the type the route names."""

    caller: Caller
    around: Surroundings
    path: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: Body
    query: Query


class Answer(msgspec.Struct, frozen=True):
    """A reply other than 200 with a body."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}


Handler = Callable[[Call[Any, Any]], Awaitable[Any]]
"""Returns an ``Answer``, or the body of the route's first answer; errors are raised."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """``answers`` maps each status that may be given, errors aside, to the type of its body.

    ``errors`` are the statuses of errors beyond those every route may give. The first line of the
    handler's docstring is the summary in the description, the rest its text.
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
    """Request headers that the route minds, with what each is for."""
    errors: tuple[int, ...] = ()
