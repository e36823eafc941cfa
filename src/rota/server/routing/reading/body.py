"""The body of a request: its bytes within a limit, then a value of the route's type."""

from typing import Any

import msgspec
from starlette.types import Receive

from rota.errors import (
    InvalidRequestError,
    RequestTooLargeError,
    RotaError,
    UnsupportedMediaError,
)
from rota.server.routing.reading.refusals import refuse
from rota.server.routing.reading.text import parse_json
from rota.server.routing.route import JSON, Nothing

Headers = dict[bytes, bytes]

_PLAIN_JSON = JSON.encode()


class DisconnectedError(RotaError):
    """Whoever asked is gone: there is nobody to answer."""

    def __init__(self) -> None:
        super().__init__("The caller hung up before the request was complete")


class BodyReader:
    """Reads bodies of one type.

    A body that may be left out, because nothing in it is required, may also be empty. Where the
    route takes none, an empty object is all that may be sent.
    """

    def __init__(self, kind: type[Any], longest: int) -> None:
        self._kind = kind
        self._longest = longest
        self._may_be_absent = not any(each.required for each in msgspec.structs.fields(kind))

    async def read(self, headers: Headers, receive: Receive) -> Any:
        """The body; InvalidRequestError names the field that is wrong."""
        content = await self._receive(headers, receive)
        if not content and self._may_be_absent:
            return self._kind()
        _check_media(headers)
        try:
            return msgspec.convert(parse_json(content), self._kind)
        except msgspec.ValidationError as error:
            raise refuse(error, "body", self._kind) from error

    async def _receive(self, headers: Headers, receive: Receive) -> bytes:
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers and self._kind is Nothing:
            return b""
        if length is not None and _read_length(length) > self._longest:
            raise RequestTooLargeError(self._longest)
        message = await _next_part(receive)
        content: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return self._check(content)
        parts, size = [content], len(content)
        while message.get("more_body"):
            message = await _next_part(receive)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._longest:
                raise RequestTooLargeError(self._longest)
        return b"".join(parts)

    def _check(self, content: bytes) -> bytes:
        """Once more: what the header says of the length may be a lie."""
        if len(content) > self._longest:
            raise RequestTooLargeError(self._longest)
        return content


async def _next_part(receive: Receive) -> Any:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise DisconnectedError
    return message


def _read_length(text: bytes) -> int:
    if not text.isdigit() or len(text) > 18:
        raise InvalidRequestError("Content-Length", "must be a number of bytes")
    return int(text)


def _check_media(headers: Headers) -> None:
    sent = headers.get(b"content-type", b"")
    if sent != _PLAIN_JSON:  # as nearly everybody writes it
        media, _, parameters = sent.partition(b";")
        if media.strip().lower() != _PLAIN_JSON or not _is_utf8(parameters):
            raise UnsupportedMediaError("Content-Type", f"must be {JSON}, in UTF-8")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise UnsupportedMediaError("Content-Encoding", "must be left out: send the plain text")


def _is_utf8(parameters: bytes) -> bool:
    name, _, value = parameters.strip().lower().partition(b"=")
    return name.strip() != b"charset" or value.strip(b" \"'") in {b"utf-8", b"utf8"}
