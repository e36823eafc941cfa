"""Serves the API and the pages on a socket."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from secrets import randbits
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.auth.binding import is_loopback
from rota.auth.caller import EVERY_SCOPE
from rota.auth.tokens import IssuedToken, TokenBook
from rota.clock.protocol import Clock
from rota.jobs.record import DEFAULT_TENANT
from rota.ops.tokens import TenantTokens, TokenRequest
from rota.rail import RailSettings
from rota.rail.jobs import RailContext
from rota.runtime.plan import Listening, Reporter, Resources, RuntimePlan
from rota.runtime.user_modules import list_apps
from rota.runtime.wiring import inspect_store
from rota.server import ServerSettings, create_app
from rota.server.http.connection import SERVER_OPTIONS
from rota.stores.opened import OpenStore

PAGES = "/admin"
API = "/api/v1"
DOCS = "/docs"
UNENCRYPTED = (
    "Other hosts can connect, and tokens are not encrypted: put a TLS proxy in front of it."
)
REFUSES_ALL = "There is no token yet, so every request is refused: rota tokens create makes one."

FIRST_TOKEN = "first token"  # noqa: S105 - the name of a token
ISSUER = "rota up"
REASON = "the store had no token"

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


class Web(NamedTuple):
    """The API and the pages, and the server that runs them."""

    app: Starlette
    part: WebPart
    book: TokenBook
    is_new: bool

    async def list_tenants(self) -> set[str]:
        """The tenants that have a token, and so may look at the pages."""
        return {token.tenant for token in await self.book.list_tokens()}

    def leave(self) -> None:
        """Report not ready, answer workers that wait for jobs over HTTP, and end live pages."""
        self.part.readiness.close()
        self.app.state.http_leases.close()
        self.app.state.changes.close()


async def open_web(
    plan: RuntimePlan, reporter: Reporter, resources: Resources, listening: Listening
) -> Web:
    """The API and the pages on the store, and what is said about them."""
    book, url = TokenBook(resources.store, resources.clock), listening.url
    zone = None if plan.tasks is None else plan.tasks.zone
    checks = {
        kind: check
        for app in (*plan.apps, *list_apps(resources.registrations))
        for kind, check in app.list_checks().items()
    }
    settings = ServerSettings(
        inspect=partial(inspect_store, plan.store_url),
        zone=zone,
        checks=checks,
        stats=resources.stats,
        worker=plan.worker_settings,
    )
    app = create_app(resources.store, book, settings=settings, clock=resources.clock)
    reporter.say(f"Pages: {url}{PAGES}")
    reporter.say(f"API: {url}{API}, described at {url}{DOCS}")
    if plan.binding is not None and not is_loopback(plan.binding.host):
        reporter.say(UNENCRYPTED)
    is_new = False
    if plan.greets and reporter.show_token is not None:
        is_new = await _show_first_token(reporter.show_token, resources)
    elif not await book.list_tokens():
        reporter.say(REFUSES_ALL)
    return Web(app, WebPart(app, listening), book, is_new)


async def _show_first_token(show_token: Callable[[str], object], resources: Resources) -> bool:
    """Show the first token of a new store. Returns whether the store is new."""
    issued = await issue_first_token(resources.store, resources.clock)
    if issued is not None:
        show_token(issued.secret.reveal())
    return issued is not None


async def issue_first_token(store: OpenStore, clock: Clock) -> IssuedToken | None:
    """Issue a token with every scope on a store without tokens; otherwise return None."""
    book = TokenBook(store, clock)
    if await book.list_tokens():
        return None
    around = RailContext(store, DEFAULT_TENANT, clock, RailSettings(), randbits)
    wish = TokenRequest(FIRST_TOKEN, EVERY_SCOPE)
    return await TenantTokens(around, book).issue(wish, ISSUER, REASON)
