"""Serves the API and the pages on a socket."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.errors import AddressUnusableError
from rota.server.http.connection import SERVER_OPTIONS

READINESS = "/health/ready"
LEAVING = b'{"code":"UNAVAILABLE","message":"The service is stopping"}'


class Door:
    """Everything is passed on; once closed, only the question whether the service is ready is not.

    A load balancer that asks sends no more requests, and those that come meanwhile are answered.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_asked = scope["type"] == "http" and scope["path"].endswith(READINESS)
        if not (self._is_closed and is_asked):
            await self._app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(LEAVING)).encode()),
            (b"cache-control", b"no-store"),
            (b"retry-after", b"5"),
        ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else LEAVING
        await send({"type": "http.response.body", "body": body})


GRACE_SECONDS = 5
"""How long requests under way may take when the house comes to its end."""

BACKLOG = 2048

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Where the house can be reached. Port 0 is any that is free."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT


class Listening(msgspec.Struct, frozen=True):
    """A socket that is bound, and the URL under which it is reached."""

    socket: socket.socket
    url: str


def listen_on(binding: Binding) -> Listening:
    """Take the address; AddressUnusableError names it when another has it, or nobody can."""
    family = socket.AF_INET6 if ":" in binding.host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((binding.host, binding.port))
        taken.listen(BACKLOG)  # now, so that whoever is told the URL can connect
    except (OSError, OverflowError) as error:
        taken.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise AddressUnusableError(binding.host, binding.port, reason) from error
    host = f"[{binding.host}]" if family == socket.AF_INET6 else binding.host
    return Listening(taken, f"http://{host}:{taken.getsockname()[1]}")


class WebPart:
    """Answers requests until told to stop; those under way are answered first."""

    name = "web"

    def __init__(self, app: ASGIApp, listening: Listening) -> None:
        self.door = Door(app)
        config = uvicorn.Config(
            self.door,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            lifespan="off",
            **SERVER_OPTIONS,
        )
        self._server = _Server(config)
        self._socket = listening.socket

    async def run(self) -> None:
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        if self._server.should_exit:
            self._server.force_exit = True
        self._server.should_exit = True


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone: the house has them, and the others drain before this does."""
        yield
