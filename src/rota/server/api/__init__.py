"""The REST interface: every route of it, joined from the files of the resources."""

from rota.server.api import bulk, jobs, leases, looking, operating, tokens
from rota.server.routing.route import Route

EVERY_ROUTE: tuple[Route, ...] = (
    *jobs.ROUTES,
    *bulk.ROUTES,
    *looking.ROUTES,
    *operating.ROUTES,
    *leases.ROUTES,
    *tokens.ROUTES,
)

__all__ = ["EVERY_ROUTE"]
