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


class ReadinessGate:
    """Passes requests on. Once closed, it reports that the service is not ready.

    A load balancer then sends no more requests; requests that still arrive are answered.
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
"""How long requests in progress may take when the process stops."""

BACKLOG = 2048

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen. Port 0 takes any free port."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT


class Listening(msgspec.Struct, frozen=True):
    """A bound socket and its URL."""

    socket: socket.socket
    url: str


def listen_on(binding: Binding) -> Listening:
    """Bind the address. Raises AddressUnusableError when that is not possible."""
    family = socket.AF_INET6 if ":" in binding.host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((binding.host, binding.port))
        taken.listen(BACKLOG)  # now, so that the URL works as soon as it is printed
    except (OSError, OverflowError) as error:
        taken.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise AddressUnusableError(binding.host, binding.port, reason) from error
    host = f"[{binding.host}]" if family == socket.AF_INET6 else binding.host
    return Listening(taken, f"http://{host}:{taken.getsockname()[1]}")


class WebPart:
    """Answers requests until it is stopped; requests in progress are answered first."""

    name = "web"

    def __init__(self, app: ASGIApp, listening: Listening) -> None:
        self.readiness = ReadinessGate(app)
        config = uvicorn.Config(
            self.readiness,
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
        """Leave the signals to the runtime, which stops the other parts first."""
        yield
