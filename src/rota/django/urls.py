"""The pages and the API, to be mounted by URL: ``path("rota/", include("rota.django.urls"))``.

The pages ask for a token of the store: ``rota tokens create`` makes one.
"""

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from django.http import HttpRequest, HttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt
from starlette.applications import Starlette

from rota.auth.tokens import TokenBook
from rota.django.backend import RotaBackend
from rota.django.tasks_api import task_backends
from rota.server import create_app
from rota.session import Session

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Any]


class Answer(NamedTuple):
    """A complete answer of the application."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


async def call_application(application: Application, scope: Scope, body: bytes) -> Answer:
    """Send one request to the application and wait for its whole answer."""
    status, headers, parts = 500, [], list[bytes]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message["headers"])
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await application(scope, receive, send)
    return Answer(status, headers, b"".join(parts))


def make_scope(request: HttpRequest, path: str) -> Scope:
    """The ASGI scope of a request below the place where the pages are mounted."""
    mounted_at = request.path[: len(request.path) - len(path)].rstrip("/")
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in request.headers.items()
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.path.encode(),
        "root_path": mounted_at,
        "query_string": request.META.get("QUERY_STRING", "").encode("latin-1"),
        "headers": headers,
        "client": (request.META.get("REMOTE_ADDR", ""), 0),
        "server": (request.get_host(), None),
    }


def make_response(answer: Answer) -> HttpResponse:
    response = HttpResponse(answer.body, status=answer.status)
    del response["Content-Type"]
    for name, value in answer.headers:
        text = value.decode("latin-1")
        if name.lower() == b"set-cookie":
            response.cookies.load(text)
        else:
            response[name.decode("latin-1")] = text
    return response


BACKEND = "default"

_pages: "WeakKeyDictionary[AbstractEventLoop, Starlette]" = WeakKeyDictionary()


@csrf_exempt  # the pages check the origin of every form themselves
def show(request: HttpRequest, path: str) -> HttpResponse:
    """Answer a request to the pages or the API."""
    backend: RotaBackend = task_backends[BACKEND]
    scope, body = make_scope(request, path), request.body

    async def answer(session: Session) -> Answer:
        pages = _pages.get(session.loop)
        if pages is None:
            auth = TokenBook(session.store, session.clock)
            pages = _pages[session.loop] = create_app(session.store, auth, clock=session.clock)
        return await call_application(pages, scope, body)

    return make_response(backend.app.sessions.run_sync(answer))


urlpatterns = [re_path(r"^(?P<path>.*)$", show, name="rota")]
