"""Reads requests strictly: path, query and JSON body. An error names the field."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from json import JSONDecodeError
from math import isfinite
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect
from starlette.types import Receive

from rota.errors import (
    InvalidInputError,
    InvalidRequestError,
    RequestTooLargeError,
    RotaError,
    UnsupportedMediaError,
)
from rota.jobs import normalize_job_id, parse_instant
from rota.jobs.misfits import explain_misfit, shorten, suggest_name
from rota.server.http.route import JSON, Nothing

DEEPEST = 64
LARGEST_INTEGER = (1 << 53) - 1
"""The largest integer that every language reads exactly."""

LONGEST_PART = 300

Headers = dict[bytes, bytes]

_JSON_MEDIA = JSON.encode()
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])|\d{19}|\d[eE]\+?\d{2}|NaN|Infinity")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")
_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
_FLAGS = {"true": True, "false": False}


class DisconnectedError(RotaError):
    """The client disconnected; nothing can be sent to it."""

    def __init__(self) -> None:
        super().__init__("The client disconnected before the request was complete")


def refuse(error: msgspec.ValidationError, whole: str, kind: type[Any]) -> InvalidRequestError:
    """The error of msgspec as an error that names the field.

    ``whole`` names the value itself, such as ``body``. ``kind`` is the type it does not fit.
    """
    field, reason = explain_misfit(error, kind)
    return InvalidRequestError(field or whole, reason)


def read_path(parts: Mapping[str, str]) -> Mapping[str, str]:
    """The path parameters.

    A ``job_id`` that is not a UUID is an invalid request, not a job that cannot be found.
    """
    return {name: _read_part(name, value) for name, value in parts.items()}


def _read_part(name: str, value: str) -> str:
    if name == "job_id":
        job_id = normalize_job_id(value)
        if job_id is None:
            raise InvalidRequestError(name, "must be a UUID")
        return job_id
    if len(value) > LONGEST_PART or not value.isprintable():
        raise InvalidRequestError(name, f"must be up to {LONGEST_PART} printable characters")
    return value


def parse_json(content: bytes) -> Any:
    """Parse JSON that every reader understands in the same way.

    Raises InvalidRequestError for anything else: text that is not UTF-8 or not JSON, duplicate
    keys, NUL, unpaired surrogates, integers beyond 64 bits, NaN, infinity, more than 64 levels.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError("body", f"must be UTF-8; byte {error.start} is not") from error
    if text.count("{") + text.count("[") > DEEPEST:
        _check_depth(text)
    try:
        value = _decode(text)
    except JSONDecodeError as error:
        reason = f"must be JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidRequestError("body", reason) from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidRequestError("body", "must not hold integers of more than 64 bits") from error
    if _SUSPECT.search(text):  # otherwise no value needs a look
        fault = _find_fault(value)
        if fault is not None:
            raise InvalidRequestError(_name_field(fault.path), fault.reason)
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        for name, _ in pairs:
            if fields.pop(name, pairs) is pairs:
                raise InvalidRequestError(_name_field(name), "is there twice")
    return fields


_decode = json.JSONDecoder(object_pairs_hook=_make_object).decode


def _check_depth(text: str) -> None:
    depth = 0
    for found in _BRACKETS.finditer(_STRING.sub("", text)):
        depth += 1 if found[0] in "[{" else -1
        if depth > DEEPEST:
            raise InvalidRequestError("body", f"must not be nested deeper than {DEEPEST} levels")


class _Fault(NamedTuple):
    """A value that is refused. ``path`` grows only while the fault travels up."""

    path: str
    reason: str


def _find_fault(value: Any) -> _Fault | None:
    """The first refused value. No path is built for the values that are fine."""
    if not isinstance(value, dict | list):
        reason = _judge_text(value) if isinstance(value, str) else _judge_number(value)
        return None if reason is None else _Fault("", reason)
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        reason = _judge_text(key) if isinstance(key, str) else None
        if reason is not None:
            return _Fault("", reason)
        fault = _find_fault(each)
        if fault is not None:
            step = key if isinstance(key, str) else f"[{key}]"
            return fault._replace(path=f"{step}{_dotted(fault.path)}")
    return None


def _dotted(path: str) -> str:
    return path if not path or path.startswith("[") else f".{path}"


def _judge_text(text: str) -> str | None:
    if "\0" in text:
        return "must not hold the character NUL"
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        return "must not hold halves of surrogate pairs"
    return None


def _judge_number(value: object) -> str | None:
    if isinstance(value, float) and not isfinite(value):
        return "must be a number that JSON has: neither NaN nor infinite"
    if isinstance(value, int) and not _LOWEST <= value <= _HIGHEST:
        return "must not be an integer of more than 64 bits"
    return None


def _name_field(path: str) -> str:
    name = shorten(path)
    if not name.isprintable():
        name = name.encode("ascii", "backslashreplace").decode()
    return name or "body"


class BodyReader:
    """Reads bodies of one type.

    A body without required fields may be empty.
    """

    def __init__(self, kind: type[msgspec.Struct], longest: int) -> None:
        self._kind = kind
        self._longest = longest
        self._is_optional = _has_no_required_fields(kind)

    async def read(self, headers: Headers, receive: Receive) -> Any:
        """The body. Raises InvalidRequestError with the field that is wrong."""
        content = await self._receive(headers, receive)
        if not content and self._is_optional:
            return self._kind()
        _check_media(headers)
        try:
            return msgspec.convert(parse_json(content), self._kind)
        except msgspec.ValidationError as error:
            raise refuse(error, "body", self._kind) from error

    async def _receive(self, headers: Headers, receive: Receive) -> bytes:
        """All bytes of the body; stops at the limit, whatever Content-Length says."""
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers and self._kind is Nothing:
            return b""
        if length is not None and _read_length(length) > self._longest:
            raise RequestTooLargeError(self._longest)
        parts: list[bytes] = []
        size, has_more = 0, True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise DisconnectedError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._longest:
                raise RequestTooLargeError(self._longest)
            has_more = message.get("more_body", False)
        return b"".join(parts)


@cache
def _has_no_required_fields(kind: type[msgspec.Struct]) -> bool:
    return not any(each.required for each in msgspec.structs.fields(kind))


def _read_length(text: bytes) -> int:
    if not text.isdigit() or len(text) > 18:
        raise InvalidRequestError("Content-Length", "must be a number of bytes")
    return int(text)


def _check_media(headers: Headers) -> None:
    sent = headers.get(b"content-type", b"")
    if sent != _JSON_MEDIA:
        media, _, parameters = sent.partition(b";")
        if media.strip().lower() != _JSON_MEDIA or not _is_utf8(parameters):
            raise UnsupportedMediaError("Content-Type", f"must be {JSON}, in UTF-8")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise UnsupportedMediaError("Content-Encoding", "must be left out: send the plain text")


def _is_utf8(parameters: bytes) -> bool:
    name, _, value = parameters.strip().lower().partition(b"=")
    return name.strip() != b"charset" or value.strip(b" \"'") in {b"utf-8", b"utf8"}


class QueryReader:
    """Reads queries of one type. Each parameter is known and given at most once.

    A ``+`` is a space, as in forms, except in a cursor and an instant, which have no spaces.
    """

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self._kind = kind
        self._readers = _choose_readers(kind)

    def read(self, raw: bytes) -> Any:
        """The query. Raises InvalidRequestError with the parameter that is wrong."""
        given: dict[str, Any] = {}
        for pair in raw.split(b"&") if raw else ():
            if pair:
                name, value = self._read_pair(pair)
                if name in given:
                    raise InvalidRequestError(name, "must be given once")
                given[name] = value
        try:
            return msgspec.convert(given, self._kind)
        except msgspec.ValidationError as error:
            raise refuse(error, "query", self._kind) from error

    def _read_pair(self, pair: bytes) -> tuple[str, Any]:
        raw_name, _, raw_value = pair.partition(b"=")
        name = _unescape(raw_name, "query")
        reader = self._readers.get(name)
        if reader is None:
            reason = f"is not a parameter of this request{suggest_name(name, self._readers)}"
            raise InvalidRequestError(shorten(name) or "query", reason)
        if reader is not _read_instant and name != "cursor":
            raw_value = raw_value.replace(b"+", b" ")
        return name, reader(_unescape(raw_value, name), name)


def _unescape(raw: bytes, field: str) -> str:
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(field, "must be UTF-8") from error
    if "\0" in text:
        raise InvalidRequestError(field, "must not hold the character NUL")
    return text


@cache
def _choose_readers(kind: type[msgspec.Struct]) -> Mapping[str, Callable[[str, str], Any]]:
    """Chosen once: inspecting the types of all routes takes longer than serving a request."""
    fields = msgspec.structs.fields(kind)
    return {field.encode_name: _choose_reader(field.type) for field in fields}


def _choose_reader(kind: Any) -> Callable[[str, str], Any]:
    for option in _list_options(inspect.type_info(kind)):
        match option:
            case inspect.IntType():
                return _read_integer
            case inspect.BoolType():
                return _read_flag
            case inspect.DateTimeType():
                return _read_instant
            case inspect.EnumType():
                return partial(_read_choice, [str(each.value) for each in option.cls])
            case inspect.LiteralType():
                return partial(_read_choice, [str(each) for each in option.values])
    return _read_text


def _list_options(described: inspect.Type) -> tuple[inspect.Type, ...]:
    """The types in a union, without metadata."""
    if isinstance(described, inspect.Metadata):
        return _list_options(described.type)
    if isinstance(described, inspect.UnionType):
        return tuple(each for option in described.types for each in _list_options(option))
    return (described,)


def _read_text(text: str, _field: str) -> str:
    return text


def _read_choice(choices: Sequence[str], text: str, field: str) -> str:
    if text not in choices:
        listed = ", ".join(choices)
        raise InvalidRequestError(field, f'must be one of {listed}, got "{shorten(text)}"')
    return text


def _read_integer(text: str, field: str) -> int:
    if not _INTEGER.match(text):
        raise InvalidRequestError(field, f'must be an integer, got "{shorten(text)}"')
    number = int(text)
    if abs(number) > LARGEST_INTEGER:
        raise InvalidRequestError(field, f"must be an integer of at most {LARGEST_INTEGER}")
    return number


def _read_flag(text: str, field: str) -> bool:
    if text not in _FLAGS:
        raise InvalidRequestError(field, f'must be true or false, got "{shorten(text)}"')
    return _FLAGS[text]


def _read_instant(text: str, field: str) -> Any:
    try:
        return parse_instant(text, field)
    except InvalidInputError as error:
        raise InvalidRequestError(
            field, "must be an instant with an offset from UTC, such as 2026-05-01T12:00:00Z"
        ) from error
