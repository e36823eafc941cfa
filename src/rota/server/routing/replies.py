"""Replies as they are sent: a status, headers and bytes."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.types import Send

RawHeaders = Iterable[tuple[bytes, bytes]]

_encode = msgspec.json.Encoder().encode
_JSON_HEADER = (b"content-type", b"application/json")
_PRIVATE = (b"cache-control", b"no-store")


class Reply(NamedTuple):
    """What is sent back."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes = b""


def encode_reply(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """The body as JSON; None is a reply without any."""
    raw = [_PRIVATE]
    if headers:
        raw += [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
        ]
    if body is None:
        return Reply(status, raw)
    content = _encode(body)
    raw += [_JSON_HEADER, (b"content-length", str(len(content)).encode())]
    return Reply(status, raw, content)


def make_reply(status: int, content: bytes, media: str, headers: Mapping[str, str]) -> Reply:
    """The bytes as they are."""
    named = {**headers, "content-type": media, "content-length": str(len(content))}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()]
    return Reply(status, raw, content)


async def send_reply(reply: Reply, send: Send, *, is_head: bool = False) -> None:
    """Send it; of a reply to HEAD, everything but the content."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": b"" if is_head else reply.content})
