"""The OpenAPI document."""

from collections import defaultdict
from collections.abc import Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from rota.server.describing.operations import describe_operation, list_errors
from rota.server.describing.schemas import Schemas, make_schemas
from rota.server.routing.problems import Problem
from rota.server.routing.route import JSON, Route

ABOUT = (
    "Schedule jobs, look after them, and run them from any language. Every request is made with a "
    "token, sees only what belongs to the tenant of that token, and is refused as a whole when "
    "anything in it is wrong: the message says what, and `details.field` where."
)

_HEADERS_OF_ERRORS = {
    401: ("WWW-Authenticate", "How to ask: with a bearer token."),
    429: ("Retry-After", "In how many seconds it makes sense to ask again."),
    503: ("Retry-After", "In how many seconds it makes sense to ask again."),
}


def make_document(routes: Sequence[Route], root: str = "") -> dict[str, Any]:
    """All routes as OpenAPI 3.1; ``root`` is where the service is mounted."""
    schemas = make_schemas(routes)
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for route in routes:
        paths[route.path][route.method.lower()] = describe_operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rota", "version": version("rota"), "description": ABOUT},
        "servers": [{"url": root or "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": _without_queries(routes, schemas),
            "responses": _describe_errors(routes, schemas),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "rota_…",
                    "description": "A token, with the scope that the operation names.",
                }
            },
        },
    }


def _without_queries(routes: Sequence[Route], schemas: Schemas) -> dict[str, Any]:
    """A query is described as parameters; its type would only be noise."""
    queries = {route.query.__name__ for route in routes}
    return {name: each for name, each in schemas.components.items() if name not in queries}


def _describe_errors(routes: Sequence[Route], schemas: Schemas) -> dict[str, Any]:
    statuses = {status for route in routes for status in list_errors(route)}
    return {f"Problem{status}": _describe_error(status, schemas) for status in sorted(statuses)}


def _describe_error(status: int, schemas: Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {JSON: {"schema": schemas.used[Problem]}},
    }
    if status in _HEADERS_OF_ERRORS:
        name, text = _HEADERS_OF_ERRORS[status]
        described["headers"] = {name: {"description": text, "schema": {"type": "string"}}}
    return described
