"""The page that describes the interface: made here as a whole, without a script."""

import json
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from shlex import quote
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from rota.server.describing.document import ABOUT
from rota.server.describing.examples import make_example
from rota.server.describing.operations import Words, list_errors, list_parameters, read_words
from rota.server.describing.schemas import Schemas, make_schemas
from rota.server.describing.wording import link_shapes, list_fields, mark_code, name_type
from rota.server.routing.route import Nothing, Route

HOST = "http://127.0.0.1:8080"

_templates = Environment(
    loader=PackageLoader("rota.server.describing"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters["code"] = mark_code
_templates.filters["linked"] = link_shapes


class Entry(NamedTuple):
    """A route as the page shows it."""

    anchor: str
    method: str
    path: str
    words: Words
    scope: str | None
    parameters: list[dict[str, Any]]
    body: str | None
    answers: list[tuple[int, str, str | None]]
    errors: list[tuple[int, str]]
    curl: str


def draw_page(routes: Sequence[Route], root: str, document: str, style: str) -> str:
    """The whole page; ``document`` and ``style`` are where the two are found."""
    schemas = make_schemas(routes)
    sections: dict[str, list[Entry]] = {}
    for route in routes:
        sections.setdefault(route.tag, []).append(_make_entry(route, schemas, root))
    shown = sorted(_list_shown(routes, schemas))
    return _templates.get_template("docs.html").render(
        about=ABOUT,
        document=document,
        style=style,
        sections=sections,
        shapes={name: schemas.components[name] for name in shown},
        fields_of=list_fields,
    )


def _make_entry(route: Route, schemas: Schemas, root: str) -> Entry:
    return Entry(
        anchor=route.handler.__name__,
        method=route.method,
        path=route.path,
        words=read_words(route),
        scope=None if route.scope is None else str(route.scope),
        parameters=[_with_type(each) for each in list_parameters(route, schemas)],
        body=None if route.body is Nothing else name_type(schemas.used[route.body]),
        answers=[
            (status, HTTPStatus(status).phrase, _name_answer(kind, schemas))
            for status, kind in sorted(route.answers.items())
        ],
        errors=[(status, HTTPStatus(status).phrase) for status in list_errors(route)],
        curl=_make_curl(route, schemas, root),
    )


def _with_type(parameter: dict[str, Any]) -> dict[str, Any]:
    return {"description": "", **parameter, "type": name_type(parameter["schema"])}


def _name_answer(kind: Any, schemas: Schemas) -> str | None:
    return None if kind is None or kind not in schemas.used else name_type(schemas.used[kind])


def _make_curl(route: Route, schemas: Schemas, root: str) -> str:
    path = route.path
    for parameter in list_parameters(route, schemas):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", f"${parameter['name'].upper()}")
    lines = [f"curl {_method_of(route)}{_in_quotes(HOST + root + path)}"]
    if route.scope is not None:
        lines.append('-H "Authorization: Bearer $ROTA_TOKEN"')
    if route.body is not Nothing:
        example = make_example(schemas.used[route.body], schemas)
        lines += ['-H "Content-Type: application/json"', f"-d {quote(json.dumps(example))}"]
    return " \\\n  ".join(lines)


def _method_of(route: Route) -> str:
    return "" if route.method == "GET" else f"-X {route.method} "


def _in_quotes(address: str) -> str:
    return f'"{address}"' if "$" in address else address


def _list_shown(routes: Iterable[Route], schemas: Schemas) -> set[str]:
    queries = {route.query.__name__ for route in routes}
    return {name for name in schemas.components if name not in queries}
