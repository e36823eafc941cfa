"""One route as OpenAPI has it: an operation with parameters, a body and answers."""

import inspect
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from rota.server.describing.examples import make_example
from rota.server.describing.schemas import Schema, Schemas, strip_null
from rota.server.routing.route import JSON, Nothing, Route

ALWAYS = (400, 429, 503)
WITH_TOKEN = (401, 403)
WITH_BODY = (408, 413, 415)

HEADER_SCHEMA: Schema = {"type": "string", "pattern": "^[!-~]{1,255}$"}

_PART = re.compile(r"{(\w+)}")
_PARTS: Mapping[str, Schema] = {
    "job_id": {"type": "string", "format": "uuid"},
}
_ANY_PART: Schema = {"type": "string", "minLength": 1, "maxLength": 300, "pattern": "^[!-.0-~]+$"}


class Words(NamedTuple):
    """What the docstring of a handler says: its first line, and the rest."""

    summary: str
    text: str


def read_words(route: Route) -> Words:
    whole = inspect.getdoc(route.handler) or ""
    first, _, rest = whole.partition("\n")
    return Words(first.rstrip(".").replace("``", "`"), " ".join(rest.split()).replace("``", "`"))


def list_errors(route: Route) -> list[int]:
    """The statuses of all errors that the route may give."""
    statuses = {*ALWAYS, *route.errors}
    if route.scope is not None:
        statuses.update(WITH_TOKEN)
    if route.method not in {"GET", "HEAD"}:
        statuses.update(WITH_BODY)
    return sorted(statuses)


def describe_operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    words = read_words(route)
    described: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "tags": [route.tag],
        "summary": words.summary,
        "security": [] if route.scope is None else [{"token": [str(route.scope)]}],
        "responses": _describe_answers(route, schemas),
    }
    if words.text:
        described["description"] = words.text
    parameters = list_parameters(route, schemas)
    if parameters:
        described["parameters"] = parameters
    if route.body is not Nothing:
        described["requestBody"] = _describe_body(route, schemas)
    return described


def list_parameters(route: Route, schemas: Schemas) -> list[dict[str, Any]]:
    """Parts of the path, then of the query, then headers."""
    return [*_path_parts(route), *_query_parts(route, schemas), *_headers(route)]


def _path_parts(route: Route) -> Iterable[dict[str, Any]]:
    for name in _PART.findall(route.path):
        schema = _PARTS.get(name, _ANY_PART)
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parts(route: Route, schemas: Schemas) -> Iterable[dict[str, Any]]:
    if route.query is Nothing:
        return
    required = schemas.required_of(route.query)
    for name, schema in schemas.fields_of(route.query).items():
        plain = strip_null(schema)
        text = plain.pop("description", "")
        yield {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": text,
            "schema": plain,
        }


def _headers(route: Route) -> Iterable[dict[str, Any]]:
    for name, text in route.headers.items():
        yield {
            "name": name,
            "in": "header",
            "required": False,
            "description": text,
            "schema": HEADER_SCHEMA,
        }


def _describe_body(route: Route, schemas: Schemas) -> dict[str, Any]:
    schema = schemas.used[route.body]
    content = {"schema": schema, "example": make_example(schema, schemas)}
    return {"required": bool(schemas.required_of(route.body)), "content": {JSON: content}}


def _describe_answers(route: Route, schemas: Schemas) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, kind in sorted(route.answers.items()):
        answers[str(status)] = {"description": HTTPStatus(status).phrase}
        if kind is not None:
            schema = schemas.used[kind] if route.media == JSON else {"type": "string"}
            answers[str(status)]["content"] = {route.media: {"schema": schema}}
        if status == HTTPStatus.CREATED:
            answers[str(status)]["headers"] = {
                "Location": {"description": "Where it is found.", "schema": {"type": "string"}}
            }
    for status in list_errors(route):
        answers[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    return answers
