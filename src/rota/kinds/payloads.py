"""Payloads of built-in kinds: what does not fit is refused with the name of the field."""

import re
from typing import Any, TypeVar

import msgspec

from rota.errors import InvalidPayloadError

Payload = TypeVar("Payload", bound=msgspec.Struct)

_PLACE = re.compile(r"(?P<reason>.*) - at `\$\.?(?P<field>[^`]*)`", re.DOTALL)
_NAMED = re.compile(r"(?:unknown|missing required) field `(?P<field>[^`]*)`")
_WHOLE = "payload"


def read_payload(payload: Any, kind: type[Payload]) -> Payload:
    """The payload as a record of this kind, or InvalidPayloadError."""
    try:
        return msgspec.convert(payload, kind)
    except msgspec.ValidationError as error:
        raise _explain(str(error)) from error


def _explain(text: str) -> InvalidPayloadError:
    placed, named = _PLACE.fullmatch(text), _NAMED.search(text)
    reason = text if placed is None else placed["reason"]
    fields = (placed and placed["field"], named and named["field"])
    field = ".".join(each for each in fields if each) or _WHOLE
    return InvalidPayloadError(field, f"cannot be used: {reason}")
