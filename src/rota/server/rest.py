"""The REST API as an ASGI application, and the parts that it shares with the whole service."""

from collections.abc import Sequence
from secrets import randbits

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from rota.auth.caller import Auth
from rota.clock.protocol import Clock
from rota.ops.changes import ChangeFeed
from rota.ops.kinds import ServedKinds
from rota.ops.leases import HttpLeases
from rota.server.api import EVERY_ROUTE
from rota.server.http.context import ServerContext, ServerSettings
from rota.server.http.endpoint import ErrorLayer, serve_routes, serve_unknown
from rota.server.http.guards import BearerGuard
from rota.server.http.limits import CallerLimits, WaitingQuota
from rota.server.http.metrics import ServerMetrics
from rota.server.http.security import SecurityLayer
from rota.stores.opened import OpenStore


def create_api(store: OpenStore, auth: Auth, settings: ServerSettings, clock: Clock) -> Starlette:
    """The API alone, for a client in the same process: pages and documentation take long to load.

    The caller closes the store.
    """
    context = make_context(store, clock, settings)
    guard = BearerGuard(auth, clock, make_limits(settings, clock))
    routes = serve_routes(EVERY_ROUTE, context, guard, settings.longest_body)
    return assemble(routes, context, settings)


def assemble(
    routes: Sequence[BaseRoute], context: ServerContext, settings: ServerSettings
) -> Starlette:
    """The application that serves these routes."""
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(SecurityLayer, settings.guarding, context.clock, context.metrics.events),
            Middleware(ErrorLayer),
        ],
    )
    app.state.http_leases = context.leases  # close both before the server stops
    app.state.changes = context.changes
    app.state.metrics = context.metrics
    app.router.redirect_slashes = False
    app.router.default = serve_unknown
    return app


def make_limits(settings: ServerSettings, clock: Clock) -> CallerLimits:
    guarding = settings.guarding
    return CallerLimits(guarding.token_rate, guarding.stranger_rate, clock)


def make_context(store: OpenStore, clock: Clock, settings: ServerSettings) -> ServerContext:
    """What the handlers of all routes share."""
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
