"""Errors as replies: the status and the body that each class of error becomes, here alone."""

import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from rota.errors import (
    ConflictError,
    CronCalculationError,
    InvalidInputError,
    MethodNotAllowedError,
    NoOccurrenceError,
    NotFoundError,
    QuotaExceededError,
    RefusedError,
    RequestTooLargeError,
    RequestTooSlowError,
    RotaError,
    StoreError,
    UnauthorizedError,
    UnsupportedMediaError,
)
from rota.server.routing.replies import Reply, encode_reply

_CAPITAL = re.compile("[A-Z]")
_log = logging.getLogger("rota.server")

RETRY_AFTER = "5"
"""Seconds, when the store cannot be asked."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was not served: a code for programs, a message for people.

    ``details`` are there where there is more to say; of what was wrong in a request they hold the
    ``field``.
    """

    code: str
    message: str
    details: Mapping[str, Any] | None = None


class Meaning(NamedTuple):
    """What a group of errors is in HTTP."""

    status: int
    code: str


INTERNAL = Meaning(500, "INTERNAL")

MEANINGS: Mapping[type[RotaError], Meaning] = {
    InvalidInputError: Meaning(400, "VALIDATION_ERROR"),
    CronCalculationError: Meaning(400, "VALIDATION_ERROR"),
    NoOccurrenceError: Meaning(400, "VALIDATION_ERROR"),
    UnauthorizedError: Meaning(401, "UNAUTHORIZED"),
    RefusedError: Meaning(403, "FORBIDDEN"),
    NotFoundError: Meaning(404, "NOT_FOUND"),
    MethodNotAllowedError: Meaning(405, "METHOD_NOT_ALLOWED"),
    RequestTooSlowError: Meaning(408, "TOO_SLOW"),
    ConflictError: Meaning(409, "CONFLICT"),
    RequestTooLargeError: Meaning(413, "TOO_LARGE"),
    UnsupportedMediaError: Meaning(415, "UNSUPPORTED_MEDIA_TYPE"),
    QuotaExceededError: Meaning(429, "LIMITED"),
    StoreError: Meaning(503, "UNAVAILABLE"),
}


def find_meaning(kind: type[BaseException]) -> Meaning:
    """That of the nearest class it descends from; an error nobody foresaw is internal."""
    for each in kind.__mro__:
        if each in MEANINGS:
            return MEANINGS[each]
    return INTERNAL


def answer_error(error: Exception) -> Reply:
    """The reply that an error becomes. What is inside the service stays there, and in its log."""
    meaning = find_meaning(type(error))
    if not isinstance(error, RotaError) or meaning.status >= INTERNAL.status:
        return _answer_fault(error, meaning)
    problem = Problem(meaning.code, error.message, _spell(error.details) or None)
    return encode_reply(meaning.status, problem, _headers_of(error))


def _spell(details: Mapping[str, Any]) -> dict[str, Any]:
    """Details by names in the spelling of everything else in the API: ``job_id``, not ``jobId``."""
    return {_CAPITAL.sub(r"_\g<0>", name).lower(): value for name, value in details.items()}


def _answer_fault(error: Exception, meaning: Meaning) -> Reply:
    number = uuid4().hex
    if meaning is INTERNAL:
        _log.error("Request failed, incident %s", number, exc_info=error)
        message = f"Something went wrong that should not; the log tells more of incident {number}"
        return encode_reply(500, Problem(meaning.code, message, {"incident": number}))
    _log.warning("The store could not serve a request, incident %s: %s", number, error)
    message = f"The store cannot be asked just now; the log tells more of incident {number}"
    problem = Problem(meaning.code, message, {"incident": number})
    return encode_reply(meaning.status, problem, {"retry-after": RETRY_AFTER})


def _headers_of(error: RotaError) -> dict[str, str]:
    if isinstance(error, UnauthorizedError):
        return {"www-authenticate": 'Bearer realm="rota"'}
    if isinstance(error, MethodNotAllowedError):
        return {"allow": ", ".join(error.allowed)}
    if isinstance(error, QuotaExceededError):
        return {"retry-after": str(error.retry_after)}
    return {}
