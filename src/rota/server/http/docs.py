"""The HTML page that documents the API, drawn from its OpenAPI document; the routes of both."""

import json
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from rota.server.http.openapi import ABOUT, Schema, make_document
from rota.server.http.route import JSON, Answer, Call, Nothing, Resource, Route

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
_LONGEST_LIMIT = 36


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


def _describe(schema: Schema) -> str:
    """What a field means, also if only one of its types says so."""
    options = (schema, *schema.get("anyOf", ()))
    return next((str(it["description"]) for it in options if "description" in it), "")


def _limit(schema: Schema) -> str:
    """What a field must hold, in words."""
    return ", ".join(
        words.format(f"`{option[name]}`" if name == "pattern" else f"{option[name]:,}")
        for option in (schema, *schema.get("anyOf", ()))
        for name, words in _LIMITS.items()
        if name in option and len(str(option[name])) < _LONGEST_LIMIT
    )


def _make_curl(operation: dict[str, Any], method: str, address: str) -> str:
    address = re.sub(r"{(\w+)}", lambda part: f"${part[1].upper()}", address)
    asked = "" if method == "GET" else f"-X {method} "
    lines = [f"curl {asked}" + (f'"{address}"' if "$" in address else address)]
    if operation["security"]:
        lines.append('-H "Authorization: Bearer $ROTA_TOKEN"')
    if "requestBody" in operation:
        example = json.dumps(operation["requestBody"]["content"][JSON]["example"])
        lines += ['-H "Content-Type: application/json"', f"-d {quote(example)}"]
    return " \\\n  ".join(lines)


_templates = Environment(
    loader=FileSystemLoader(_FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(
    code=mark_code,
    linked=link_shapes,
    type=name_type,
    meaning=_describe,
    limits=_limit,
    json=json.dumps,
    curl=_make_curl,
    phrase=lambda status: HTTPStatus(int(status)).phrase,
)


def draw_page(document: dict[str, Any], root: str) -> str:
    """The whole page of an OpenAPI document. It needs no script."""
    sections: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, operations in document["paths"].items():
        for method, each in operations.items():
            sections.setdefault(each["tags"][0], []).append((method.upper(), path, each))
    return _templates.get_template("docs.html").render(
        about=ABOUT,
        document=f"{root}{DOCUMENT}",
        style=f"{root}{STYLE}",
        host=HOST + root,
        media=JSON,
        sections=sections,
        shapes=dict(sorted(document["components"]["schemas"].items())),
    )


class Description:
    """Describes the given routes and its own; ``table`` has both."""

    def __init__(self, routes: Sequence[Route]) -> None:
        own, html, css = (
            Resource("", "service"),
            "text/html; charset=utf-8",
            "text/css; charset=utf-8",
        )
        own.route("GET", DOCUMENT, None, answers={200: dict[str, Any]})(self.show_document)
        own.route("GET", PAGE, None, answers={200: str}, media=html)(self.show_page)
        own.route("GET", STYLE, None, answers={200: str}, media=css)(self.show_style)
        self.table: tuple[Route, ...] = (*routes, *own.routes)
        # Links start with the prefix where the service is mounted; usually there is one.
        cached = lru_cache(_MOUNTS_CACHED)
        self._encode = cached(lambda root: msgspec.json.encode(self.document(root)))
        self._draw = cached(lambda root: draw_page(self.document(root), root).encode())

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
