"""A payload: any JSON value that every store can keep and give back as it was."""

import re
from math import isfinite
from typing import Any

import msgspec

from rota.errors import InvalidJobError

MAX_PAYLOAD_BYTES = 65_536
MAX_DEPTH = 64

_INTEGERS = range(-(1 << 63), 1 << 63)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def read_payload(value: object) -> Any:
    """A copy of the payload, so that whoever handed it in can do with it what they like.

    At most 64 KiB of compact JSON in UTF-8, 64 levels deep, with integers of 64 bits. NUL, halves
    of characters, NaN and infinities have no place in it: one store or another would change them.
    """
    _check_values(value)
    try:
        encoded = msgspec.json.encode(value)
    except TypeError as error:
        raise _refusal(f"must be JSON: {error}") from error
    if len(encoded) > MAX_PAYLOAD_BYTES:
        raise _too_large()
    return msgspec.json.decode(encoded)


def _check_values(payload: object) -> None:
    """Look at every value, without recursion, and stop as soon as it must be too large."""
    left = [(payload, 0)]
    byte_count = 0  # each value takes at least one, each character of a text another
    while left:
        value, depth = left.pop()
        inner: list[object] = []
        if isinstance(value, str):
            byte_count += _check_text(value)
        elif isinstance(value, dict):
            byte_count += len(value)
            inner = [*value.keys(), *value.values()]
            _check_keys(value)
        elif isinstance(value, list | tuple):
            inner = list(value)
        else:
            _check_scalar(value)
        byte_count += len(inner)
        if byte_count > MAX_PAYLOAD_BYTES:
            raise _too_large()
        if depth == MAX_DEPTH and isinstance(value, dict | list | tuple):
            raise _refusal(f"must not be nested deeper than {MAX_DEPTH} levels")
        left.extend((each, depth + 1) for each in inner)


def _check_text(text: str) -> int:
    if _UNSTORABLE.search(text):
        raise _refusal("must not hold NUL or halves of surrogate pairs")
    return len(text)


def _check_keys(mapping: dict[Any, Any]) -> None:
    for key in mapping:
        if not isinstance(key, str):
            raise _refusal(f"must be JSON, in which a key is a text and not {type(key).__name__}")


def _check_scalar(value: object) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, float):
        if not isfinite(value):
            raise _refusal("must be JSON, which has neither NaN nor infinities")
    elif not isinstance(value, int):
        raise _refusal(f"must be JSON, which has no form for {type(value).__name__}")
    elif value not in _INTEGERS:
        raise _refusal("must not hold integers of more than 64 bits")


def _too_large() -> InvalidJobError:
    return _refusal(f"must not be larger than {MAX_PAYLOAD_BYTES} bytes of JSON")


def _refusal(reason: str) -> InvalidJobError:
    return InvalidJobError("payload", reason)
