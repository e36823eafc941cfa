"""The REST API: every route, joined from the files of the resources."""

from rota.server.api.access import AUDIT, TOKENS
from rota.server.api.bulk import BULK
from rota.server.api.failures import ERRORS, LETTERS
from rota.server.api.gates import GATES
from rota.server.api.health import SERVICE
from rota.server.api.job_details import JOB
from rota.server.api.jobs import JOBS
from rota.server.api.kinds import KINDS
from rota.server.api.leases import LEASES
from rota.server.api.overview import OVERVIEW, TENANTS
from rota.server.api.queues import LIMITS, QUEUES
from rota.server.api.retention import RETENTION
from rota.server.api.series import SERIES
from rota.server.api.tasks import TASKS
from rota.server.http.route import Resource, Route

# Starlette tries paths one after another: what programs ask for most comes first.
_RESOURCES: tuple[Resource, ...] = (
    *(JOBS, JOB, KINDS, BULK, LEASES, OVERVIEW, QUEUES, ERRORS, TENANTS, AUDIT, LETTERS),
    *(SERIES, TASKS, GATES, LIMITS, RETENTION, TOKENS, SERVICE),
)
EVERY_ROUTE: tuple[Route, ...] = tuple(route for each in _RESOURCES for route in each.routes)
