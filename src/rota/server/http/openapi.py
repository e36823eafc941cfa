"""The OpenAPI document, made from the route table."""

import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, NamedTuple

import msgspec

from rota.server.http.problems import Problem
from rota.server.http.request import LARGEST_INTEGER
from rota.server.http.route import JSON, Nothing, Route

Schema = dict[str, Any]

ABOUT = (
    "Schedule jobs, operate them, and run them from any language. Every request needs a token and "
    "sees only the tenant of that token. A request with any error is refused as a whole; the "
    "message says what is wrong, and `details.field` where."
)
ALWAYS = (400, 429, 503)
WITH_TOKEN = (401, 403)
WITH_BODY = (408, 413, 415)

_TEMPLATE = "#/components/schemas/{name}"
_NO_NUL = r"^[^\u0000]*$"
_CODE = re.compile(r"``(.*?)``")
_PART = re.compile(r"{(\w+)}")
_HEADER_SCHEMA: Schema = {"type": "string", "pattern": "^[!-~]{1,255}$"}
_PARTS: Mapping[str, Schema] = {"job_id": {"type": "string", "format": "uuid"}}
_ANY_PART: Schema = {"type": "string", "minLength": 1, "maxLength": 300, "pattern": "^[!-.0-~]+$"}
_HEADERS_OF_ERRORS = {
    401: ("WWW-Authenticate", "The scheme: a bearer token."),
    429: ("Retry-After", "Seconds to wait before the next request."),
    503: ("Retry-After", "Seconds to wait before the next request."),
}
_EXAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "null": None,
    "array": [],
}


class Schemas(NamedTuple):
    """The schema of each type in the table, and the components they refer to."""

    used: Mapping[Any, Schema]
    components: Mapping[str, Schema]

    def resolve(self, schema: Schema) -> Schema:
        """The component that a reference names; any other schema as it is."""
        if "$ref" not in schema:
            return schema
        return self.components[schema["$ref"].rpartition("/")[2]]


def _make_schemas(routes: Iterable[Route]) -> Schemas:
    """The schemas of all bodies, queries and answers, and of an error."""
    kinds = list(dict.fromkeys([Problem, *(kind for route in routes for kind in _kinds_of(route))]))
    used, components = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    named = {name: _use_markdown(schema) for name, schema in components.items()}
    return Schemas(dict(zip(kinds, used, strict=True)), named)


def _kinds_of(route: Route) -> Iterable[Any]:
    yield from (kind for kind in (route.body, route.query) if kind is not Nothing)
    if route.media == JSON:
        yield from (kind for kind in route.answers.values() if kind is not None)


def _use_markdown(schema: Schema) -> Schema:
    """The description in Markdown instead of reStructuredText."""
    if "description" in schema:
        text = " ".join(schema["description"].split("\n"))
        schema = {**schema, "description": _CODE.sub(r"`\1`", text)}
    return schema


def make_example(schema: Schema, schemas: Schemas) -> Any:
    """The first declared example, or a generated one.

    An object has its required fields and those with a declared example.
    """
    schema = schemas.resolve(schema)
    for declared in ("examples", "enum"):
        if declared in schema:
            return schema[declared][0]
    if "default" in schema:
        return schema["default"]
    if "anyOf" in schema:
        return make_example(schema["anyOf"][0], schemas)
    if "properties" in schema:
        return _make_object(schema, schemas)
    if schema.get("type") == "array" and schema.get("items"):
        return [make_example(schema["items"], schemas)]
    return schema.get("minimum") or _EXAMPLES.get(schema.get("type", ""), {})


def _make_object(schema: Schema, schemas: Schemas) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    return {
        name: make_example(each, schemas)
        for name, each in schema["properties"].items()
        if name in required or "examples" in each
    }


def make_document(routes: Sequence[Route], root: str = "") -> dict[str, Any]:
    """All routes as OpenAPI 3.1. ``root`` is the prefix under which the service is mounted."""
    schemas = _make_schemas(routes)
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for route in routes:
        paths[route.path][route.method.lower()] = _describe_operation(route, schemas)
    queries = {route.query.__name__ for route in routes}  # described as parameters
    shapes = {name: each for name, each in schemas.components.items() if name not in queries}
    statuses = sorted({status for route in routes for status in _list_errors(route)})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rota", "version": version("rota"), "description": ABOUT},
        "servers": [{"url": root or "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": shapes,
            "responses": {f"Problem{it}": _describe_error(it, schemas) for it in statuses},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "rota_…",
                    "description": "A token with the scope that the operation names.",
                }
            },
        },
    }


def _list_errors(route: Route) -> list[int]:
    """The statuses of all errors that the route may return."""
    statuses = {*ALWAYS, *route.errors}
    if route.scope is not None:
        statuses.update(WITH_TOKEN)
    if route.method not in {"GET", "HEAD"}:
        statuses.update(WITH_BODY)
    return sorted(statuses)


def _describe_operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    words = (inspect.getdoc(route.handler) or "").replace("``", "`")
    summary, _, text = words.partition("\n")
    described: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "tags": [route.tag],
        "summary": summary.rstrip("."),
        "security": [] if route.scope is None else [{"token": [str(route.scope)]}],
        "responses": _describe_answers(route, schemas),
    }
    if text:
        described["description"] = " ".join(text.split())
    parameters = _list_parameters(route, schemas)
    if parameters:
        described["parameters"] = parameters
    if route.body is not Nothing:
        schema = schemas.used[route.body]
        content = {"schema": schema, "example": make_example(schema, schemas)}
        is_required = bool(schemas.resolve(schema).get("required"))
        described["requestBody"] = {"required": is_required, "content": {JSON: content}}
    return described


def _list_parameters(route: Route, schemas: Schemas) -> list[dict[str, Any]]:
    """The parameters in the path, in the query and in headers."""
    parts = [
        {"name": name, "in": "path", "required": True, "schema": _PARTS.get(name, _ANY_PART)}
        for name in _PART.findall(route.path)
    ]
    headers = [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": text,
            "schema": _HEADER_SCHEMA,
        }
        for name, text in route.headers.items()
    ]
    return [*parts, *_list_query(route, schemas), *headers]


def _list_query(route: Route, schemas: Schemas) -> Iterable[dict[str, Any]]:
    if route.query is Nothing:
        return
    query = schemas.resolve(schemas.used[route.query])
    for name, schema in query.get("properties", {}).items():
        plain = strip_null(schema)
        text = plain.pop("description", "")
        yield {
            "name": name,
            "in": "query",
            "required": name in query.get("required", ()),
            "description": text,
            "schema": plain,
        }


def strip_null(schema: Schema) -> Schema:
    """The schema of a parameter, which may be absent but never null."""
    plain = {
        name: value for name, value in schema.items() if name != "default" or value is not None
    }
    options = [each for each in plain.get("anyOf", ()) if each.get("type") != "null"]
    if len(options) == 1:
        del plain["anyOf"]
        plain = {**options[0], **plain}
    if plain.get("type") == "string" and not plain.keys() & {"format", "pattern", "enum"}:
        plain["pattern"] = _NO_NUL
    if plain.get("type") == "integer":
        plain = {"minimum": -LARGEST_INTEGER, "maximum": LARGEST_INTEGER, **plain}
    return plain


def _describe_answers(route: Route, schemas: Schemas) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, kind in sorted(route.answers.items()):
        described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        if kind is not None:
            schema = schemas.used[kind] if route.media == JSON else {"type": "string"}
            described["content"] = {route.media: {"schema": schema}}
        if status == HTTPStatus.CREATED:
            described["headers"] = {
                "Location": {"description": "The new resource.", "schema": {"type": "string"}}
            }
        answers[str(status)] = described
    for status in _list_errors(route):
        answers[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    return answers


def _describe_error(status: int, schemas: Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {JSON: {"schema": schemas.used[Problem]}},
    }
    if status in _HEADERS_OF_ERRORS:
        name, text = _HEADERS_OF_ERRORS[status]
        described["headers"] = {name: {"description": text, "schema": {"type": "string"}}}
    return described
