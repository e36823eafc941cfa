"""Schemas in a few words, for people."""

import json
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from rota.server.describing.schemas import Schema

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
    """The properties of an object; none of anything else."""
    required = set(schema.get("required", ()))
    return [
        _make_field(name, each, is_required=name in required)
        for name, each in schema.get("properties", {}).items()
    ]


def name_type(schema: Schema) -> str:
    """What a value is, in a word or a few."""
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
    """The text with what stands in backquotes as code; all of it escaped."""
    parts: list[Markup] = []
    end = 0
    for found in _CODE.finditer(text):
        parts += [escape(text[end : found.start()]), Markup("<code>{}</code>").format(found[2])]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def link_shapes(text: str, names: Collection[str]) -> Markup:
    """The name of a type with links to the shapes in it."""
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
        _find_text(schema),
    )


def _list_limits(schema: Schema) -> list[str]:
    options: list[Schema] = [schema, *schema.get("anyOf", ())]
    return [
        words.format(_show_limit(name, option[name]))
        for option in options
        for name, words in _LIMITS.items()
        if name in option and len(str(option[name])) < _LONGEST_LIMIT
    ]


def _show_limit(name: str, value: Any) -> str:
    return f"`{value}`" if name == "pattern" else f"{value:,}"


def _find_text(schema: Schema) -> str:
    for option in (schema, *schema.get("anyOf", ())):
        if "description" in option:
            return str(option["description"])
    return ""
