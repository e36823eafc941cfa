"""A request that does not fit its type, as an error that names the field."""

from typing import Any

import msgspec

from rota.errors import InvalidRequestError
from rota.jobs.misfits import explain_misfit


def refuse(error: msgspec.ValidationError, whole: str, kind: type[Any]) -> InvalidRequestError:
    """The same refusal with a field of its own.

    ``whole`` is what was read, such as the body, and ``kind`` the type that it does not fit.
    """
    field, reason = explain_misfit(error, kind)
    return InvalidRequestError(field or whole, reason)
