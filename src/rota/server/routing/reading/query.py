"""The query of a request -> a value of the route's type."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect

from rota.errors import InvalidInputError, InvalidRequestError
from rota.jobs import parse_instant
from rota.jobs.misfits import shorten, suggest_name
from rota.server.routing.reading.refusals import refuse

LARGEST_INTEGER = (1 << 53) - 1
"""The largest that every language reads as it was written."""

_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
_FLAGS = {"true": True, "false": False}
_CURSOR = "cursor"

_Reader = Callable[[str, str], Any]


class QueryReader:
    """Reads queries of one type: each parameter at most once, none that the type does not have.

    A ``+`` is a space, as forms write it, except in a cursor and in an instant: there it is what
    it is, for neither has spaces and both may have it.
    """

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind
        self._fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        self._readers = {name: _choose_reader(field.type) for name, field in self._fields.items()}
        self._keeps_plus = {
            name
            for name, reader in self._readers.items()
            if reader is _read_instant or name == _CURSOR
        }

    def read(self, raw: bytes) -> Any:
        """The query; InvalidRequestError names the parameter that is wrong."""
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
        if name not in self._readers:
            reason = f"is no parameter of this request{suggest_name(name, self._readers)}"
            raise InvalidRequestError(shorten(name) or "query", reason)
        if name not in self._keeps_plus:
            raw_value = raw_value.replace(b"+", b" ")
        return name, self._readers[name](_unescape(raw_value, name), name)


def _unescape(raw: bytes, field: str) -> str:
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(field, "must be UTF-8") from error
    if "\0" in text:
        raise InvalidRequestError(field, "must not hold the character NUL")
    return text


def _choose_reader(kind: Any) -> _Reader:
    for option in list_options(inspect.type_info(kind)):
        for wanted, reader in _READERS:
            if isinstance(option, wanted):
                return reader
        if isinstance(option, inspect.EnumType):
            return partial(_read_choice, [str(each.value) for each in option.cls])
        if isinstance(option, inspect.LiteralType):
            return partial(_read_choice, [str(each) for each in option.values])
    return _read_text


def list_options(described: inspect.Type) -> tuple[inspect.Type, ...]:
    """What a parameter may be, whatever else is said about it."""
    if isinstance(described, inspect.Metadata):
        return list_options(described.type)
    if isinstance(described, inspect.UnionType):
        return tuple(each for option in described.types for each in list_options(option))
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


_READERS: tuple[tuple[type[Any], _Reader], ...] = (
    (inspect.IntType, _read_integer),
    (inspect.BoolType, _read_flag),
    (inspect.DateTimeType, _read_instant),
)
