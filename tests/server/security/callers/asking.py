"""Requests made up from the description of the service, full of somebody else's ids."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Schema = Mapping[str, Any]

_PLAIN: dict[str, Any] = {"boolean": False, "null": None, "object": {}, "number": 1.5}
_PARAMETER = re.compile(r"\{(\w+)\}")


class Asked(NamedTuple):
    """One request, and the ids of whom it names."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    names_an_id: bool


class Inquirer:
    """Makes up requests for every operation of an OpenAPI document.

    Wherever an id is wanted, one of ``ids`` is given; wherever a word, one that both tenants use.
    """

    def __init__(self, document: Schema, ids: Mapping[str, str], cursor: str) -> None:
        self._document = document
        self._ids = ids
        self._cursor = cursor

    def ask_about(self, method: str, path: str) -> Iterator[Asked]:
        """Each job by its id; with as little said as possible, and with everything that can be."""
        operation = self._document["paths"][path][method.lower()]
        for values in self._fill(path):
            for says_all in (False, True):
                yield Asked(
                    method,
                    _PARAMETER.sub(lambda match, v=values: v[match[1]], path),  # type: ignore[misc]  # bound at once
                    self._make_query(operation, says_all=says_all),
                    self._make_body(operation, says_all=says_all),
                    names_an_id=any(value in self._ids.values() for value in values.values()),
                )

    def _fill(self, path: str) -> Iterator[dict[str, str]]:
        names = _PARAMETER.findall(path)
        if "job_id" not in names:
            yield {name: self._word(name) for name in names}
            return
        for job_id in (value for name, value in self._ids.items() if name != "token"):
            yield {name: job_id if name == "job_id" else self._word(name) for name in names}

    def _word(self, name: str) -> str:
        if "token" in name:
            return self._ids["token"]
        if name.endswith("id"):
            return self._ids["series" if "series" in name else "dead"]
        return {"queue": "shared", "kind": "work", "cursor": self._cursor}.get(name, "work")

    def _make_query(self, operation: Schema, *, says_all: bool) -> dict[str, str]:
        return {
            each["name"]: _spell(self._make(each["schema"], each["name"], says_all=says_all))
            for each in operation.get("parameters", ())
            if each["in"] == "query" and (says_all or each.get("required"))
        }

    def _make_body(self, operation: Schema, *, says_all: bool) -> Any:
        content = operation.get("requestBody", {}).get("content", {})
        if not content:
            return None
        return self._make(content["application/json"]["schema"], "body", says_all=says_all)

    def _make(self, schema: Schema, name: str, *, says_all: bool) -> Any:
        schema = self._resolve(schema)
        if "enum" in schema or "const" in schema:
            return schema.get("const", schema.get("enum", [None])[0])
        kind = schema.get("type", "any")
        if kind == "object" and "properties" in schema:
            return self._make_object(schema, says_all=says_all)
        if kind == "array":
            return [self._make(schema.get("items", {}), name, says_all=says_all)]
        if kind == "integer":
            return schema.get("minimum", 1)
        if kind == "string":
            return self._make_text(schema, name)
        return _PLAIN.get(kind, {"word": "harmless"})

    def _make_object(self, schema: Schema, *, says_all: bool) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            name: self._make(each, name, says_all=says_all)
            for name, each in schema["properties"].items()
            if says_all or name in required
        }

    def _make_text(self, schema: Schema, name: str) -> str:
        if schema.get("format") == "uuid":
            return self._ids["waiting"]
        if schema.get("format") == "date-time":
            return "2026-05-01T12:00:00Z"
        if "examples" in schema and name not in {"queue", "kind", "cursor"}:
            return str(schema["examples"][0])
        return self._word(name)

    def _resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            found: Any = self._document
            for step in schema["$ref"].removeprefix("#/").split("/"):
                found = found[step.replace("~1", "/").replace("~0", "~")]
            schema = found
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                return self._resolve(schema[choice][0])
        return schema


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
