"""The route table: everything that is served, pages aside."""

from rota.server import health
from rota.server.api import EVERY_ROUTE
from rota.server.describing import Description
from rota.server.routing.route import Route

DESCRIPTION = Description((*EVERY_ROUTE, *health.ROUTES))

TABLE: tuple[Route, ...] = DESCRIPTION.table
