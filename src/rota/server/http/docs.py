"""The HTML page that documents the API, and the routes that serve it."""

import json
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from rota.server.http.openapi import (
    ABOUT,
    Schema,
    Schemas,
    Words,
    list_errors,
    list_parameters,
    make_document,
    make_example,
    make_schemas,
    read_words,
)
from rota.server.http.route import Answer, Call, Nothing, Resource, Route

DOCUMENT = "/openapi.json"
PAGE = "/docs"
STYLE = "/docs/style.css"
HOST = "http://127.0.0.1:8080"

_FOLDER = Path(__file__).parent
_STYLE = (_FOLDER / "docs.css").read_bytes()
_CACHED_BRIEFLY = {"cache-control": "public, max-age=300"}
_MOUNTS_CACHED = 8
_CODE = re.compile(r"(`+)([^`]+)\1")
_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "matches {}",
}
_ABSENT = object()
_LONGEST_LIMIT = 36


class Field(NamedTuple):
    """A property of an object, as a row of a table."""

    name: str
    type: str
    is_required: bool
    limits: str
    default: str | None
    text: str


def list_fields(schema: Schema) -> list[Field]:
    """The properties of an object; empty for any other schema."""
    required = set(schema.get("required", ()))
    return [
        _make_field(name, each, is_required=name in required)
        for name, each in schema.get("properties", {}).items()
    ]


def name_type(schema: Schema) -> str:
    """The type of a value in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(name_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(each) for each in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {name_type(schema.get('items') or {})}"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


def mark_code(text: str) -> Markup:
    """The escaped text, with backquoted parts as code."""
    parts: list[Markup] = []
    end = 0
    for found in _CODE.finditer(text):
        parts += [escape(text[end : found.start()]), Markup("<code>{}</code>").format(found[2])]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def link_shapes(text: str, names: Collection[str]) -> Markup:
    """The name of a type, with links to the shapes in it."""
    words = [
        Markup('<a href="#shape-{0}">{0}</a>').format(word) if word in names else escape(word)
        for word in text.split(" ")
    ]
    return Markup(" ").join(words)


def _make_field(name: str, schema: Schema, *, is_required: bool) -> Field:
    default = schema.get("default", _ABSENT)
    return Field(
        name,
        name_type(schema),
        is_required,
        ", ".join(_list_limits(schema)),
        None if default is _ABSENT else json.dumps(default),
        next((str(it["description"]) for it in _options(schema) if "description" in it), ""),
    )


def _list_limits(schema: Schema) -> list[str]:
    return [
        words.format(f"`{option[name]}`" if name == "pattern" else f"{option[name]:,}")
        for option in _options(schema)
        for name, words in _LIMITS.items()
        if name in option and len(str(option[name])) < _LONGEST_LIMIT
    ]


def _options(schema: Schema) -> list[Schema]:
    return [schema, *schema.get("anyOf", ())]


_templates = Environment(
    loader=FileSystemLoader(_FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(code=mark_code, linked=link_shapes)


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


def draw_page(routes: Sequence[Route], root: str) -> str:
    """The whole page. It needs no script."""
    schemas = make_schemas(routes)
    sections: dict[str, list[Entry]] = {}
    for each in routes:
        sections.setdefault(each.tag, []).append(_make_entry(each, schemas, root))
    return _templates.get_template("docs.html").render(
        about=ABOUT,
        document=f"{root}{DOCUMENT}",
        style=f"{root}{STYLE}",
        sections=sections,
        shapes=dict(sorted(schemas.without_queries(routes).items())),
        fields_of=list_fields,
    )


def _make_entry(route: Route, schemas: Schemas, root: str) -> Entry:
    parameters = list_parameters(route, schemas)
    return Entry(
        anchor=route.handler.__name__,
        method=route.method,
        path=route.path,
        words=read_words(route),
        scope=None if route.scope is None else str(route.scope),
        parameters=[
            {"description": "", **it, "type": name_type(it["schema"])} for it in parameters
        ],
        body=None if route.body is Nothing else name_type(schemas.used[route.body]),
        answers=[
            (
                status,
                HTTPStatus(status).phrase,
                name_type(schemas.used[kind]) if kind in schemas.used else None,
            )
            for status, kind in sorted(route.answers.items())
        ],
        errors=[(status, HTTPStatus(status).phrase) for status in list_errors(route)],
        curl=_make_curl(route, schemas, root),
    )


def _make_curl(route: Route, schemas: Schemas, root: str) -> str:
    path = re.sub(r"{(\w+)}", lambda part: f"${part[1].upper()}", route.path)
    method = "" if route.method == "GET" else f"-X {route.method} "
    address = HOST + root + path
    lines = [f"curl {method}" + (f'"{address}"' if "$" in address else address)]
    if route.scope is not None:
        lines.append('-H "Authorization: Bearer $ROTA_TOKEN"')
    if route.body is not Nothing:
        example = make_example(schemas.used[route.body], schemas)
        lines += ['-H "Content-Type: application/json"', f"-d {quote(json.dumps(example))}"]
    return " \\\n  ".join(lines)


class Description:
    """Describes the given routes and its own; ``table`` has both."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.table: tuple[Route, ...] = (*routes, *self._make_routes())
        # Links start with the prefix where the service is mounted; usually there is one.
        self._encode = lru_cache(_MOUNTS_CACHED)(
            lambda root: msgspec.json.encode(self.document(root))
        )
        self._draw = lru_cache(_MOUNTS_CACHED)(lambda root: draw_page(self.table, root).encode())

    def document(self, root: str = "") -> dict[str, Any]:
        return make_document(self.table, root)

    async def show_document(self, call: Call[Nothing, Nothing]) -> Answer:
        """This API as OpenAPI 3.1."""
        return Answer(200, msgspec.Raw(self._encode(call.root)), _CACHED_BRIEFLY)

    async def show_page(self, call: Call[Nothing, Nothing]) -> Answer:
        """This API as a page for people."""
        return Answer(200, self._draw(call.root), _CACHED_BRIEFLY)

    async def show_style(self, _call: Call[Nothing, Nothing]) -> Answer:
        """The style sheet of the page."""
        return Answer(200, _STYLE, _CACHED_BRIEFLY)

    def _make_routes(self) -> list[Route]:
        service, html, css = (
            Resource("", "service"),
            "text/html; charset=utf-8",
            "text/css; charset=utf-8",
        )
        service.route("GET", DOCUMENT, None, answers={200: dict[str, Any]})(self.show_document)
        service.route("GET", PAGE, None, answers={200: str}, media=html)(self.show_page)
        service.route("GET", STYLE, None, answers={200: str}, media=css)(self.show_style)
        return service.routes
