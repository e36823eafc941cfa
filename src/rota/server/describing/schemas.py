"""The types of the table as JSON schemas."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from rota.server.routing.problems import Problem
from rota.server.routing.reading.query import LARGEST_INTEGER
from rota.server.routing.route import JSON, Nothing, Route

Schema = dict[str, Any]

TEMPLATE = "#/components/schemas/{name}"
NO_NUL = r"^[^\u0000]*$"

_CODE = re.compile(r"``(.*?)``")


class Schemas(NamedTuple):
    """Every type of a table: its schema where it is used, and what these refer to by name."""

    used: Mapping[Any, Schema]
    components: Mapping[str, Schema]

    def resolve(self, schema: Schema) -> Schema:
        """What a reference refers to; any other schema is itself."""
        if "$ref" not in schema:
            return schema
        return self.components[schema["$ref"].rpartition("/")[2]]

    def fields_of(self, kind: Any) -> Mapping[str, Schema]:
        """The properties of the type of an object."""
        properties: Mapping[str, Schema] = self.resolve(self.used[kind]).get("properties", {})
        return properties

    def required_of(self, kind: Any) -> frozenset[str]:
        return frozenset(self.resolve(self.used[kind]).get("required", ()))


def make_schemas(routes: Iterable[Route]) -> Schemas:
    """The schemas of all bodies, queries and answers, and of an error."""
    kinds = list(dict.fromkeys([Problem, *(kind for route in routes for kind in _kinds_of(route))]))
    used, components = msgspec.json.schema_components(kinds, ref_template=TEMPLATE)
    named = {name: _in_plain_words(schema) for name, schema in components.items()}
    return Schemas(dict(zip(kinds, used, strict=True)), named)


def strip_null(schema: Schema) -> Schema:
    """The schema of a parameter, which may be left out but cannot be null."""
    plain = {
        name: value for name, value in schema.items() if name != "default" or value is not None
    }
    options = [each for each in plain.get("anyOf", ()) if each.get("type") != "null"]
    if len(options) == 1:
        del plain["anyOf"]
        plain = {**options[0], **plain}
    if plain.get("type") == "string" and not plain.keys() & {"format", "pattern", "enum"}:
        plain["pattern"] = NO_NUL
    if plain.get("type") == "integer":
        plain = {"minimum": -LARGEST_INTEGER, "maximum": LARGEST_INTEGER, **plain}
    return plain


def _kinds_of(route: Route) -> Iterable[Any]:
    yield from (kind for kind in (route.body, route.query) if kind is not Nothing)
    if route.media == JSON:
        yield from (kind for kind in route.answers.values() if kind is not None)


def _in_plain_words(schema: Schema) -> Schema:
    """Descriptions as Markdown has them, which is what readers of such documents expect."""
    if "description" in schema:
        text = " ".join(schema["description"].split("\n"))
        schema = {**schema, "description": _CODE.sub(r"`\1`", text)}
    return schema
