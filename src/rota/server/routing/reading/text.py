"""JSON text -> plain values, where whatever another reader might see differently is refused.

The quick questions are asked of the text as a whole; only a text that might hold something wrong
is looked at value by value, to name the field.
"""

import json
import re
from json import JSONDecodeError
from math import isfinite
from typing import Any

from rota.errors import InvalidRequestError
from rota.jobs.misfits import shorten

DEEPEST = 64

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])|\d{19}|\d[eE]\+?\d{2}|NaN|Infinity")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")


def parse_json(content: bytes) -> Any:
    """What the text says; InvalidRequestError when it is no JSON, or JSON that is read in two ways.

    That is: not UTF-8, a key twice, NUL, halves of characters, integers of more than 64 bits,
    numbers that are infinite or none, or more than 64 levels.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(f"must be UTF-8, which breaks off at byte {error.start}") from error
    if text.count("{") + text.count("[") > DEEPEST:
        _check_depth(text)
    try:
        value = _decode(text)
    except JSONDecodeError as error:
        raise _refuse(
            f"must be JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except ValueError as error:  # an integer of thousands of digits
        raise _refuse("must not hold integers of more than 64 bits") from error
    if _SUSPECT.search(text):
        _check_values(value)
    return value


def _keep_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        for name, _ in pairs:
            if fields.pop(name, pairs) is pairs:
                raise _refuse("is there twice", name)
    return fields


_decode = json.JSONDecoder(object_pairs_hook=_keep_pairs).decode


def _check_depth(text: str) -> None:
    depth = 0
    for found in _BRACKETS.finditer(_STRING.sub("", text)):
        depth += 1 if found[0] in "[{" else -1
        if depth > DEEPEST:
            raise _refuse(f"must not be nested deeper than {DEEPEST} levels")


def _check_values(whole: Any) -> None:
    left: list[tuple[str, Any]] = [("", whole)]
    while left:
        place, value = left.pop()
        if isinstance(value, dict):
            for name in value:
                _check_text(place or name, name)
            left += [(f"{place}.{name}" if place else name, each) for name, each in value.items()]
        elif isinstance(value, list):
            left += [(f"{place}[{index}]", each) for index, each in enumerate(value)]
        elif isinstance(value, str):
            _check_text(place, value)
        else:
            _check_number(place, value)


def _check_text(place: str, text: str) -> None:
    if "\0" in text:
        raise _refuse("must not hold the character NUL", place)
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise _refuse("must not hold halves of surrogate pairs", place)


def _check_number(place: str, value: object) -> None:
    if isinstance(value, float) and not isfinite(value):
        raise _refuse("must be a number that JSON has: neither NaN nor infinite", place)
    if isinstance(value, int) and not _LOWEST <= value <= _HIGHEST:
        raise _refuse("must not be an integer of more than 64 bits", place)


def _refuse(reason: str, place: str = "") -> InvalidRequestError:
    return InvalidRequestError(_printable(shorten(place)) or "body", reason)


def _printable(name: str) -> str:
    """As a message can hold it."""
    return name.encode("ascii", "backslashreplace").decode() if not name.isprintable() else name
