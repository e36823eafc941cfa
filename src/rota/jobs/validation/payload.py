"""A payload: any JSON value that every store can keep and give back as it was."""

import re
from math import isfinite
from typing import Any

import msgspec

from rota.errors import InvalidJobError

MAX_PAYLOAD_BYTES = 65_536
MAX_DEPTH = 64

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_ENCODED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_CONTAINERS = (dict, list, tuple)  # made once: this is the busiest line of a bulk insert
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def read_payload(value: object) -> Any:
    """A copy of the payload, so that whoever handed it in can do with it what they like.

    At most 64 KiB of compact JSON in UTF-8, 64 levels deep, with integers of 64 bits. NUL, halves
    of characters, NaN and infinities have no place in it: one store or another would change them.
    """
    _check_values(value)
    try:
        encoded = _encode(value)
    except UnicodeEncodeError as error:
        raise _refusal("must not hold halves of surrogate pairs") from error
    except TypeError as error:
        raise _refusal(f"must be JSON: {error}") from error
    if len(encoded) > MAX_PAYLOAD_BYTES:
        raise _too_large()
    if b"\\u0000" in encoded and _ENCODED_NUL.search(encoded):
        raise _refusal("must not hold the character NUL")
    return _decode(encoded)


def _check_values(payload: object) -> None:
    """Look at every value, without recursion, and stop as soon as it must be too large."""
    left: list[tuple[Any, int]] = [((payload,), 0)]
    byte_count = 0  # each value takes at least one, each character of a text another
    while left:
        values, depth = left.pop()
        byte_count += len(values)
        for value in values:
            if isinstance(value, str):
                byte_count += len(value)
            elif isinstance(value, _CONTAINERS):
                left.append((_inner_values(value, depth), depth + 1))
            else:
                _check_scalar(value)
        if byte_count > MAX_PAYLOAD_BYTES:
            raise _too_large()


def _inner_values(container: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> Any:
    if depth == MAX_DEPTH:
        raise _refusal(f"must not be nested deeper than {MAX_DEPTH} levels")
    if not isinstance(container, dict):
        return container
    for key in container:
        if not isinstance(key, str):
            raise _refusal(f"must be JSON, in which a key is a text and not {type(key).__name__}")
    return container.values()


def _check_scalar(value: object) -> None:
    if value is None or isinstance(value, bool):
        return
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
