"""One entry of the route table: what is asked, by whom, what is answered, and who answers it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from rota.auth.caller import Caller, Scope
from rota.server.surroundings import Surroundings

Body = TypeVar("Body")
Query = TypeVar("Query")

JSON = "application/json"


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without a body, or a route that takes no query."""


class Call(msgspec.Struct, Generic[Body, Query], frozen=True, kw_only=True, gc=False):
    """A request that has been let in and read: everything in it is of the type the route names.

    ``path`` holds the variable parts of the path, a ``job_id`` among them as a UUID in lower case.
    ``headers`` holds those that the route minds and that were sent, by their names in lower case.
    ``root`` is what a link to another path of the service begins with: where it is mounted.
    ``hung_up`` returns when whoever asked is gone; for handlers that wait.
    """

    caller: Caller
    around: Surroundings
    path: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: Body
    query: Query
    root: str = ""
    hung_up: Callable[[], Awaitable[None]] | None = None


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A reply other than 200 with a body.

    The body is of the type that the route names for the status, or None for a reply without one;
    a route whose ``media`` is not JSON gives bytes.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}


Handler = Callable[[Call[Any, Any]], Awaitable[Any]]
"""Returns an ``Answer``, or the body of the route's first answer; errors are raised."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """``path`` is the whole path, such as ``/api/v1/jobs/{job_id}``.

    ``answers`` maps each status that may be given, errors aside, to the type of its body; None for
    a status without one. ``errors`` are the statuses of errors beyond those every route may give.
    The first line of the handler's docstring is the summary in the description, the rest its text.
    ``scope`` None means that everybody may ask, without a token.
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
    media: str = JSON
    """What the body of a good answer is."""
