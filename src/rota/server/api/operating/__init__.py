"""What operators do: to jobs, to series, and to what holds jobs back."""

from rota.server.api.operating import (
    actions,
    bulk_actions,
    dead_letters,
    gates,
    limits,
    maintenance,
    series,
    tasks,
)
from rota.server.routing.route import Route

ROUTES: tuple[Route, ...] = (
    *actions.ROUTES,
    *bulk_actions.ROUTES,
    *dead_letters.ROUTES,
    *series.ROUTES,
    *tasks.ROUTES,
    *gates.ROUTES,
    *maintenance.ROUTES,
    *limits.ROUTES,
)

__all__ = ["ROUTES"]
