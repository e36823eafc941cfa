"""Explains why a value does not fit a type: names the field and what would fit.

Requests and the payloads of built-in kinds share these messages.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

LONGEST_NAME = 60
IN_WORDS = "in words"
"""What a text pattern means, in words for people."""

_NAMELESS = '""'

_PLACE = re.compile(r" - at `\$\.?(.*)`\Z", re.DOTALL)
_NAMED = re.compile(r"Object (missing required|contains unknown) field `(.*)`\Z", re.DOTALL)
_TYPE = re.compile(r"`([^`]*)`")
_STEP = re.compile(r"\[[^\]]*\]|[^.\[]+")
_NO_MATCH = "Expected `str` matching regex "
_NOT_ALLOWED = "Invalid enum value"
_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "datetime": "an instant",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "an object",
    "str": "a text",
}


class Misfit(NamedTuple):
    """Where a value does not fit, and why. Without a field it is the whole value."""

    field: str
    reason: str


def explain_misfit(error: msgspec.ValidationError, kind: type[Any]) -> Misfit:
    """The misfit in words. ``kind`` is the type that the value does not fit."""
    text = str(error)
    place = _PLACE.search(text)
    where = place[1] if place else ""
    reason = text[: place.start()] if place else text
    named = _NAMED.match(reason)
    if named is None:
        return Misfit(shorten(where), _reword(reason, kind, where))
    field = shorten(f"{where}.{named[2]}" if where else named[2]) or _NAMELESS
    if named[1].startswith("missing"):
        return Misfit(field, "is missing")
    return Misfit(field, f"is not known here{suggest_name(named[2], _list_fields(kind, where))}")


def suggest_name(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the most similar known name, if any."""
    near = get_close_matches(name[:LONGEST_NAME], list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def shorten(name: str) -> str:
    """A name from outside, shortened for a message."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def _reword(reason: str, kind: type[Any], where: str) -> str:
    if reason.startswith(_NO_MATCH):
        return (
            _describe_text(kind, where) or f"must be a text{reason.removeprefix('Expected `str`')}"
        )
    if reason.startswith("Expected"):
        return _TYPE.sub(_in_words, reason.replace("Expected", "must be", 1))
    if reason.startswith(_NOT_ALLOWED):
        got = shorten(reason.removeprefix(_NOT_ALLOWED).strip())
        allowed = ", ".join(str(each) for each in _list_allowed(kind, where))
        return f"must be one of {allowed or 'the values allowed'}, got {got}"
    return f"is refused: {reason[:1].lower()}{reason[1:]}"


def _in_words(found: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(name, name) for name in found[1].split(" | "))


def _list_allowed(kind: type[Any], where: str) -> Iterator[Any]:
    for each in _find_types(kind, where):
        if isinstance(each, inspect.EnumType):
            yield from (member.value for member in each.cls)
        elif isinstance(each, inspect.LiteralType):
            yield from each.values


def _list_fields(kind: type[Any], where: str) -> Iterator[str]:
    for each in _find_types(kind, where):
        if isinstance(each, inspect.StructType):
            yield from (field.encode_name for field in each.fields)


def _describe_text(kind: type[Any], where: str) -> str | None:
    """The type's description of the texts it accepts."""
    for each in _find_types(kind, where):
        if isinstance(each, inspect.Metadata):
            words = (each.extra or {}).get(IN_WORDS)
            if words is not None:
                return str(words)
    return None


def _find_types(kind: type[Any], where: str) -> list[inspect.Type]:
    """Every type that the place may have, with ``where`` as in ``jobs[...].retry_policy``."""
    found = _spread(inspect.type_info(kind))
    for step in _STEP.findall(where):
        found = [part for each in found for part in _step_into(each, step)]
    return found


def _step_into(each: inspect.Type, step: str) -> list[inspect.Type]:
    if isinstance(each, inspect.StructType):
        return [
            part
            for field in each.fields
            if field.encode_name == step
            for part in _spread(field.type)
        ]
    if isinstance(each, inspect.CollectionType | inspect.VarTupleType) and step.startswith("["):
        return _spread(each.item_type)
    return []


def _spread(each: inspect.Type) -> list[inspect.Type]:
    """The type itself, the types in its metadata, and each part of a union."""
    if isinstance(each, inspect.Metadata):
        return [each, *_spread(each.type)]
    if isinstance(each, inspect.UnionType):
        return [part for inner in each.types for part in _spread(inner)]
    return [each]
