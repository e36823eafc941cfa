"""What does not fit a type, in words that name the field."""

import re

import msgspec

from rota.errors import InvalidRequestError

LONGEST_NAME = 60

_NAMELESS = '""'

_PLACE = re.compile(r" - at `\$\.?(.*)`\Z", re.DOTALL)
_NAMED = re.compile(r"Object (missing required|contains unknown) field `(.*)`\Z", re.DOTALL)
_TYPE = re.compile(r"`([^`]*)`")
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


def refuse(error: msgspec.ValidationError, whole: str) -> InvalidRequestError:
    """The same refusal with a field of its own; ``whole`` is what was read, such as the body."""
    text = str(error)
    place = _PLACE.search(text)
    where = place[1] if place else ""
    reason = text[: place.start()] if place else text
    named = _NAMED.match(reason)
    if named is None:
        return InvalidRequestError(shorten(where) or whole, _reword(reason))
    field = f"{where}.{named[2]}" if where else named[2]
    is_missing = named[1].startswith("missing")
    reason = "is missing" if is_missing else "is not known here"
    return InvalidRequestError(shorten(field) or _NAMELESS, reason)


def shorten(name: str) -> str:
    """A name that somebody sent, cut to what fits into a message."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def _reword(reason: str) -> str:
    if reason.startswith("Expected"):
        return _TYPE.sub(_in_words, reason.replace("Expected", "must be", 1))
    if reason.startswith("Invalid enum value"):
        return f"must be one of the values allowed, got {shorten(reason[18:].strip())}"
    return f"is refused: {reason[:1].lower()}{reason[1:]}"


def _in_words(found: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(name, name) for name in found[1].split(" | "))
