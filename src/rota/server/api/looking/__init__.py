"""What is looked at: one job closely, all jobs from afar, and what was done to them."""

from rota.server.api.looking import audit, insight, search, standing, throughput
from rota.server.routing.route import Route

ROUTES: tuple[Route, ...] = (
    *insight.ROUTES,
    *search.ROUTES,
    *standing.ROUTES,
    *throughput.ROUTES,
    *audit.ROUTES,
)

__all__ = ["ROUTES"]
