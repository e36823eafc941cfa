"""The service as one ASGI application: REST API, pages and probes."""

from secrets import randbits

from starlette.applications import Starlette
from starlette.middleware import Middleware

from rota.auth.caller import Auth
from rota.auth.sessions import SessionBook
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.ops.changes import ChangeFeed
from rota.ops.kinds import ServedKinds
from rota.ops.leases import HttpLeases
from rota.server.api import EVERY_ROUTE
from rota.server.http.context import ServerContext, ServerSettings
from rota.server.http.docs import Description
from rota.server.http.endpoint import ErrorLayer, serve_routes, serve_unknown
from rota.server.http.guards import BearerGuard, Guard, HostGuard, PageGuard
from rota.server.http.limits import CallerLimits, WaitingQuota
from rota.server.http.metrics import ServerMetrics
from rota.server.http.route import Route
from rota.server.http.security import SecurityLayer
from rota.server.pages import page_routes
from rota.stores.opened import OpenStore

DESCRIPTION = Description(EVERY_ROUTE)

TABLE: tuple[Route, ...] = DESCRIPTION.table
"""The route table: everything the service serves except the pages."""


def create_app(
    store: OpenStore,
    auth: Auth | None = None,
    *,
    settings: ServerSettings | None = None,
    clock: Clock | None = None,
) -> Starlette:
    """The service on an open store. The caller closes the store.

    Without ``auth`` every caller may do everything as tenant ``default``; use this only behind a
    host service that checks callers itself. The service may be mounted under a prefix.
    """
    settings, clock = settings or ServerSettings(), clock or SystemClock()
    guarding = settings.guarding
    limits = CallerLimits(guarding.token_rate, guarding.stranger_rate, clock)
    guard: Guard = HostGuard()
    sessions = None
    if auth is not None:
        guard = BearerGuard(auth, clock, limits)
        sessions = SessionBook(store, clock, auth, session_for=guarding.session_for)
    context = _make_context(store, clock, settings)
    page_guard = PageGuard(sessions, clock, guarding.session_for, limits)
    app = Starlette(
        routes=[
            *serve_routes(TABLE, context, guard, settings.longest_body),
            *page_routes(context, page_guard, settings.zone),
        ],
        middleware=[
            Middleware(SecurityLayer, guarding, clock, context.metrics.events),
            Middleware(ErrorLayer),
        ],
    )
    app.state.http_leases = context.leases  # close both before the server stops
    app.state.changes = context.changes
    app.state.metrics = context.metrics
    app.router.redirect_slashes = False
    app.router.default = serve_unknown
    return app


def _make_context(store: OpenStore, clock: Clock, settings: ServerSettings) -> ServerContext:
    leases = HttpLeases(store, clock, settings=settings.worker)
    metrics = ServerMetrics(store, clock, settings.inspect, settings.stats)
    metrics.follow(leases.events)
    return ServerContext(
        store,
        clock,
        randbits,
        metrics,
        WaitingQuota(store, clock, settings.guarding.waiting_limit),
        leases,
        ServedKinds(store, clock, settings.checks),
        ChangeFeed(store, clock),
        settings.guarding.masked_words,
    )
