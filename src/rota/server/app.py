"""The service as one ASGI application: what it is made of, on one screen."""

from secrets import randbits

from starlette.applications import Starlette
from starlette.middleware import Middleware

from rota.auth.caller import Auth
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.ops.leases import HttpLeases
from rota.server.guarding import GuardLayer, PageGuard, RatedGuard, Turnstiles, WaitingQuota
from rota.server.metrics import MetricsBoard
from rota.server.pages import page_routes
from rota.server.routing.admission import BearerGuard, Guard, HostGuard
from rota.server.routing.endpoint import Keeping
from rota.server.routing.last_resort import LastResort
from rota.server.routing.table import serve_routes, serve_unknown
from rota.server.settings import ServerSettings
from rota.server.surroundings import Surroundings
from rota.server.table import TABLE
from rota.stores.opened import OpenStore


def create_app(
    store: OpenStore,
    auth: Auth | None = None,
    *,
    settings: ServerSettings | None = None,
    clock: Clock | None = None,
) -> Starlette:
    """The service on a store that is open, and stays so; closing it is the caller's business.

    Without ``auth`` everybody who reaches it may do everything, as tenant ``default``: only where
    a host service in front of it lets nobody else in. It may be mounted under a prefix.
    """
    settings, clock = settings or ServerSettings(), clock or SystemClock()
    guarding = settings.guarding
    turnstiles = Turnstiles(guarding, clock)
    guard: Guard = HostGuard()
    if auth is not None:
        guard = RatedGuard(BearerGuard(auth, clock), turnstiles)
    quota = WaitingQuota(store, clock, guarding.waiting_limit)
    desk = HttpLeases(store, clock)
    board = MetricsBoard(store, settings.inspect)
    around = Surroundings(store, clock, randbits, board, quota, desk, guarding.masked_words)
    keeping = Keeping(around, guard, settings.longest_body)
    page_guard = PageGuard(auth, store, clock, guarding, turnstiles)
    app = Starlette(
        routes=[serve_routes(TABLE, keeping), *page_routes(around, page_guard, settings.zone)],
        # From the outside in: each sees what those after it let through, and answer.
        middleware=[
            Middleware(GuardLayer, settings=guarding, clock=clock),
            Middleware(LastResort),
        ],
    )
    app.state.lease_desk = desk  # to be closed first when the server is to stop
    app.state.metrics = board.metrics
    app.router.redirect_slashes = False
    app.router.default = serve_unknown
    return app
