"""Validates payloads: any JSON value that every store can keep unchanged."""

import re
from math import isfinite
from typing import Annotated, Any

import msgspec

from rota.errors import InvalidJobError

MAX_PAYLOAD_BYTES = 65_536
MAX_DEPTH = 64
MOST_AT_A_GLANCE = 100
"""A payload with more fields takes the thorough path, because its size is unknown."""

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_ENCODED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_CONTAINERS = (dict, list, tuple)
_SCALARS = frozenset({str, int, float, bool, type(None)})
_Integer = Annotated[int, msgspec.Meta(ge=_LOWEST, le=_HIGHEST)]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_flat = msgspec.json.Decoder(dict[str, _Integer | float | str | bool | None]).decode
_UNUSUAL = (msgspec.MsgspecError, ValueError, TypeError, OverflowError)


def read_payload(value: object) -> Any:
    """A validated copy of the payload, so that the caller may change the original.

    At most 64 KiB of compact JSON in UTF-8, 64 levels deep, with 64-bit integers. NUL, lone
    surrogates, NaN and infinities are refused: some store would change them.
    """
    if type(value) is dict and (copy := _read_flat(value)) is not None:
        return copy
    _check_values(value)
    try:
        encoded = _encode(value)
    except UnicodeEncodeError as error:
        raise _refusal("must not hold halves of surrogate pairs") from error
    except TypeError as error:
        raise _refusal(f"must be JSON: {error}") from error
    if len(encoded) > MAX_PAYLOAD_BYTES:
        raise _too_large()
    if encoded.find(b"\\u0000") >= 0 and _ENCODED_NUL.search(encoded):
        raise _refusal("must not hold the character NUL")
    return _decode(encoded)


def _read_flat(payload: dict[Any, Any]) -> dict[str, Any] | None:
    """A copy of a flat payload: text, numbers and the like by name. None: use the thorough path.

    Most payloads are flat. What survives a round trip within the limits is valid.
    """
    if len(payload) > MOST_AT_A_GLANCE or not _SCALARS.issuperset(map(type, payload.values())):
        return None
    try:
        encoded = _encode(payload)
        if len(encoded) > MAX_PAYLOAD_BYTES or encoded.find(b"\\u0000") >= 0:
            return None
        copy = _decode_flat(encoded)
    except _UNUSUAL:
        return None
    return copy if copy == payload else None


def _check_values(payload: object) -> None:
    """Check every value without recursion, and stop as soon as the payload must be too large."""
    whole = (_inner_values(payload, 0), 1) if type(payload) is dict else ((payload,), 0)
    left: list[tuple[Any, int]] = [whole]
    byte_count = 0  # each value takes at least one byte, each character of a text another
    while left:
        values, depth = left.pop()
        byte_count += len(values)
        for value in values:
            # The hottest lines of a bulk insert: the exact, likely types come first.
            kind = type(value)
            if kind is str:
                byte_count += len(value)
            elif kind is int and _LOWEST <= value <= _HIGHEST:
                continue
            elif kind is dict or kind is list:
                left.append((_inner_values(value, depth), depth + 1))
            elif kind is not bool and value is not None:
                byte_count += _look_closer(value, depth, left)
        if byte_count > MAX_PAYLOAD_BYTES:
            raise _too_large()


def _look_closer(value: object, depth: int, left: list[tuple[Any, int]]) -> int:
    """How many bytes the value takes beyond the first. Its content is checked later."""
    if isinstance(value, _CONTAINERS):
        left.append((_inner_values(value, depth), depth + 1))
    elif isinstance(value, str):
        return len(value)
    else:
        _check_number(value)
    return 0


def _inner_values(container: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> Any:
    if depth == MAX_DEPTH:
        raise _refusal(f"must not be nested deeper than {MAX_DEPTH} levels")
    if not isinstance(container, dict):
        return container
    for key in container:
        if type(key) is not str and not isinstance(key, str):
            raise _refusal(f"must be JSON, in which a key is a text and not {type(key).__name__}")
    return container.values()


def _check_number(value: object) -> None:
    if isinstance(value, float):
        if not isfinite(value):
            raise _refusal("must be JSON, which has neither NaN nor infinities")
    elif not isinstance(value, int):
        raise _refusal(f"must be JSON, which has no form for {type(value).__name__}")
    elif not _LOWEST <= value <= _HIGHEST:
        raise _refusal("must not hold integers of more than 64 bits")


def _too_large() -> InvalidJobError:
    return _refusal(f"must not be larger than {MAX_PAYLOAD_BYTES} bytes of JSON")


def _refusal(reason: str) -> InvalidJobError:
    return InvalidJobError("payload", reason)
