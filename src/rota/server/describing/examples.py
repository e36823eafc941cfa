"""Examples of what a schema describes."""

from typing import Any

from rota.server.describing.schemas import Schema, Schemas

_PLAIN: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "null": None,
    "array": [],
}


def make_example(schema: Schema, schemas: Schemas) -> Any:
    """The first example that is written down, or else one that is made up.

    Of an object: what is required, and what an example is written down for.
    """
    schema = schemas.resolve(schema)
    for written in ("examples", "enum"):
        if written in schema:
            return schema[written][0]
    if "default" in schema:
        return schema["default"]
    if "anyOf" in schema:
        return make_example(schema["anyOf"][0], schemas)
    if "properties" in schema:
        return _make_object(schema, schemas)
    if schema.get("type") == "array" and schema.get("items"):
        return [make_example(schema["items"], schemas)]
    return _number_within(schema) or _PLAIN.get(schema.get("type", ""), {})


def _make_object(schema: Schema, schemas: Schemas) -> dict[str, Any]:
    wanted = set(schema.get("required", ()))
    return {
        name: make_example(each, schemas)
        for name, each in schema["properties"].items()
        if name in wanted or "examples" in each
    }


def _number_within(schema: Schema) -> Any:
    return schema.get("minimum") if schema.get("type") in {"integer", "number"} else None
