"""The REST API: every route, joined from the files of the resources."""

from rota.server.api import (
    audit,
    bulk,
    dead_letters,
    error_groups,
    gates,
    health,
    job_details,
    jobs,
    kinds,
    leases,
    limits,
    overview,
    queues,
    retention,
    series,
    tasks,
    tenants,
    tokens,
)
from rota.server.http.route import Route

EVERY_ROUTE: tuple[Route, ...] = (
    *jobs.ROUTES,
    *job_details.ROUTES,
    *kinds.ROUTES,
    *bulk.ROUTES,
    *leases.ROUTES,
    *overview.ROUTES,
    *queues.ROUTES,
    *error_groups.ROUTES,
    *tenants.ROUTES,
    *audit.ROUTES,
    *dead_letters.ROUTES,
    *series.ROUTES,
    *tasks.ROUTES,
    *gates.ROUTES,
    *limits.ROUTES,
    *retention.ROUTES,
    *tokens.ROUTES,
    *health.ROUTES,
)

__all__ = ["EVERY_ROUTE"]
