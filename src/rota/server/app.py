"""The service as one ASGI application: REST API, pages and probes."""

from starlette.applications import Starlette

from rota.auth.caller import Auth
from rota.auth.sessions import SessionBook
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.server.api import EVERY_ROUTE
from rota.server.http.context import ServerSettings
from rota.server.http.docs import Description
from rota.server.http.endpoint import serve_routes
from rota.server.http.guards import BearerGuard, Guard, HostGuard, PageGuard
from rota.server.http.route import Route
from rota.server.pages import page_routes
from rota.server.rest import assemble, make_context, make_limits
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
    limits, session_for = make_limits(settings, clock), settings.guarding.session_for
    guard: Guard = HostGuard()
    sessions = None
    if auth is not None:
        guard = BearerGuard(auth, clock, limits)
        sessions = SessionBook(store, clock, auth, session_for=session_for)
    context = make_context(store, clock, settings)
    page_guard = PageGuard(sessions, clock, session_for, limits)
    routes = [
        *serve_routes(TABLE, context, guard, settings.longest_body),
        *page_routes(context, page_guard, settings.zone),
    ]
    return assemble(routes, context, settings)
