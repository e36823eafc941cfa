"""Forms from JSON Schemas: the fields of a payload as controls, and what was sent as a payload.

Texts, numbers, booleans, choices, dates and nested objects have controls of their own. Any other
part of a schema is a field for JSON.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET

from rota.errors import InvalidJobError
from rota.server.pages.formats import read_json

MOST_FIELDS = 60
_DEEPEST = 3
_MOST_REFERENCES = 20
_NULL = {"type": "null"}

Texts: TypeAlias = Mapping[str, str]
"""What a form holds: texts by the names of their controls."""


class Field(NamedTuple):
    """A part of the payload that one control holds. ``path`` is its name in errors, too."""

    path: str
    name: str
    schema: Mapping[str, Any]
    is_required: bool
    is_nullable: bool

    @property
    def look(self) -> str:
        if "enum" in self.schema or "const" in self.schema or self._type == "boolean":
            return "choice"
        return {"string": "text", "integer": "number", "number": "number"}.get(self._type, "json")

    @property
    def choices(self) -> dict[str, Any]:
        """The values that may be chosen, by their texts."""
        if self._type == "boolean":
            return {"true": True, "false": False}
        values = self.schema.get("enum") or [self.schema["const"]]
        return {each if isinstance(each, str) else _write(each): each for each in values}

    @property
    def hint(self) -> str:
        """What fits, in words."""
        schema = self.schema
        parts = [str(schema["description"])] if "description" in schema else []
        words = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than"}
        words |= {"exclusiveMaximum": "less than", "format": "as", "pattern": "matches"}
        parts += [f"{word} {schema[name]}" for name, word in words.items() if name in schema]
        if self.look == "json":
            parts.append("JSON")
        if schema.get("default") is not None:
            parts.append(f"default {_write(schema['default'])}")
        return ", ".join(parts)

    @property
    def _type(self) -> str:
        return str(self.schema.get("type", ""))

    def show(self, value: Any) -> str:
        """The value as the text of the control."""
        if value is UNSET or (value is None and self.is_nullable):
            return ""
        if self.look in {"text", "choice"} and isinstance(value, str):
            return value
        if self.look == "json":
            return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        return _write(value)

    def read(self, text: str) -> Any:
        """The value of the text; UNSET for an optional field that is empty."""
        if text == "" and not (self.is_required and self.look == "text" and not self.is_nullable):
            return self._read_empty()
        if self.look == "text":
            return text
        if self.look == "choice":
            if text not in self.choices:
                raise self._refuse(f"must be one of {', '.join(self.choices)}")
            return self.choices[text]
        return self._read_number(text) if self.look == "number" else read_json(text, self.path)

    def _read_empty(self) -> Any:
        if not self.is_required:
            return UNSET
        if self.is_nullable:
            return None
        raise self._refuse("is missing")

    def _read_number(self, text: str) -> Any:
        wanted = int if self._type == "integer" else int | float
        try:
            value = read_json(text, self.path)
        except InvalidJobError:
            value = None
        if not isinstance(value, wanted) or isinstance(value, bool):
            named = "an integer" if wanted is int else "a number"
            raise self._refuse(f"must be {named}, got {text[:40]}")
        return value

    def _refuse(self, reason: str) -> InvalidJobError:
        return InvalidJobError(self.path, reason)


class Group(NamedTuple):
    """An object with its parts. An optional one without any text is left out."""

    path: str
    name: str
    is_required: bool
    parts: "tuple[Field | Group, ...]"

    def list_fields(self) -> Iterator[Field]:
        for part in self.parts:
            if isinstance(part, Field):
                yield part
            else:
                yield from part.list_fields()

    def show(self, value: Any) -> dict[str, str]:
        """The texts of all controls for this value."""
        given = value if isinstance(value, Mapping) else {}
        texts: dict[str, str] = {}
        for part in self.parts:
            inner = given.get(part.name, UNSET)
            if isinstance(part, Field):
                texts[part.path] = part.show(inner)
            else:
                texts |= part.show(inner)
        return texts

    def read(self, texts: Texts) -> Any:
        """The object that the texts describe. InvalidJobError names the field that is not valid."""
        if not self.is_required and not any(texts.get(it.path) for it in self.list_fields()):
            return UNSET
        found = {}
        for part in self.parts:
            if isinstance(part, Field):
                value = part.read(texts.get(part.path, ""))
            else:
                value = part.read(texts)
            if value is not UNSET:
                found[part.name] = value
        return found

    def holds(self, value: Any) -> bool:
        """Whether the form can show all of the value, and would send the same back."""
        try:
            return _write(self.read(self.show(value))) == _write(value)
        except InvalidJobError:
            return False


def build_form(schema: Mapping[str, Any]) -> Group | None:
    """The form for payloads of a schema; None if only JSON will do."""
    whole = _resolve(schema, schema)
    if whole.get("type") != "object" or "properties" not in whole:
        return None
    form = _build_group(schema, whole, "payload", "", is_required=True)
    paths = [field.path for field in form.list_fields()]
    return form if len(set(paths)) == len(paths) <= MOST_FIELDS else None


def _build_group(
    root: Mapping[str, Any], schema: Mapping[str, Any], path: str, name: str, *, is_required: bool
) -> Group:
    required = set(schema.get("required", ()))
    parts = [
        _build_part(root, part, f"{path}.{key}", key, is_required=key in required)
        for key, part in schema["properties"].items()
    ]
    return Group(path, name, is_required, tuple(parts))


def _build_part(
    root: Mapping[str, Any], part: Mapping[str, Any], path: str, name: str, *, is_required: bool
) -> Field | Group:
    schema, is_nullable = _split_null(_resolve(root, part))
    schema = _resolve(root, schema)
    is_object = schema.get("type") == "object" and bool(schema.get("properties"))
    if is_object and not is_nullable and path.count(".") <= _DEEPEST:
        return _build_group(root, schema, path, name, is_required=is_required)
    return Field(path, name, schema, is_required, is_nullable)


def _split_null(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The schema without null, and whether null was one of its choices."""
    choices = schema.get("anyOf", ())
    others = [each for each in choices if each != _NULL]
    if len(others) == 1 and len(choices) == 2:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return {**others[0], **rest}, True
    return schema, False


def _resolve(root: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference within the document names."""
    for _ in range(_MOST_REFERENCES):
        if "$ref" not in schema:
            break
        name = str(schema["$ref"]).rpartition("/")[2]
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**root.get("$defs", {}).get(name, {}), **rest}
    return schema


def _write(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
