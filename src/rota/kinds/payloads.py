"""Payloads of built-in kinds: what does not fit is refused with the name of the field."""

from typing import Any, TypeVar

import msgspec

from rota.errors import InvalidPayloadError
from rota.jobs.validation.misfits import explain_misfit

Payload = TypeVar("Payload", bound=msgspec.Struct)

_WHOLE = "payload"


def read_payload(payload: Any, kind: type[Payload]) -> Payload:
    """The payload as a record of this kind, or InvalidPayloadError."""
    try:
        return msgspec.convert(payload, kind)
    except msgspec.ValidationError as error:
        field, reason = explain_misfit(error, kind)
        raise InvalidPayloadError(field or _WHOLE, reason) from error
