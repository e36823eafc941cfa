"""Replies and errors. The HTTP status and body of each error class are decided here alone."""

import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
from starlette.types import Send

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

RETRY_AFTER = "5"
"""Seconds, while the store is unavailable."""

_encode = msgspec.json.Encoder().encode
_JSON_HEADER = (b"content-type", b"application/json")
_NO_STORE = (b"cache-control", b"no-store")
_CAPITAL = re.compile("[A-Z]")
_log = logging.getLogger("rota.server")


class Reply(NamedTuple):
    """A complete HTTP response."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes = b""


def encode_reply(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """A reply with a JSON body; None for no body."""
    raw = [_NO_STORE, *_encode_headers(headers or {})]
    if body is None:
        return Reply(status, raw)
    content = _encode(body)
    raw += [_JSON_HEADER, (b"content-length", str(len(content)).encode())]
    return Reply(status, raw, content)


def make_reply(status: int, content: bytes, media: str, headers: Mapping[str, str]) -> Reply:
    named = {**headers, "content-type": media, "content-length": str(len(content))}
    return Reply(status, _encode_headers(named), content)


def _encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def send_reply(reply: Reply, send: Send, *, is_head: bool = False) -> None:
    """Send the reply; for HEAD without its content."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": b"" if is_head else reply.content})


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request failed: a code for programs, a message for people.

    ``details`` holds more where there is more to say; for an invalid request, the ``field``.
    """

    code: str
    message: str
    details: Mapping[str, Any] | None = None


class Meaning(NamedTuple):
    """The HTTP status and code of a group of errors."""

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
    """The meaning of the nearest listed ancestor; INTERNAL for every other error."""
    for each in kind.__mro__:
        if each in MEANINGS:
            return MEANINGS[each]
    return INTERNAL


def answer_error(error: Exception) -> Reply:
    """The reply for an error. Internal details go to the log, not to the client."""
    meaning = find_meaning(type(error))
    if not isinstance(error, RotaError) or meaning.status >= INTERNAL.status:
        return _answer_fault(error, meaning)
    problem = Problem(meaning.code, error.message, _to_snake_case(error.details) or None)
    return encode_reply(meaning.status, problem, _headers_of(error))


def _to_snake_case(details: Mapping[str, Any]) -> dict[str, Any]:
    return {_CAPITAL.sub(r"_\g<0>", name).lower(): value for name, value in details.items()}


def _answer_fault(error: Exception, meaning: Meaning) -> Reply:
    number = uuid4().hex
    if meaning is INTERNAL:
        _log.error("Request failed, incident %s", number, exc_info=error)
        message = f"Internal error; the server log has details under incident {number}"
        return encode_reply(500, Problem(meaning.code, message, {"incident": number}))
    _log.warning("The store could not serve a request, incident %s: %s", number, error)
    message = f"The store is unavailable; the server log has details under incident {number}"
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
