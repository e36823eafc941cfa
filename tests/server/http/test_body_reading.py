"""The body of a request, as it comes over the wire."""

from collections.abc import Iterator

import pytest
from starlette.types import Message
from tests.server.service import JOBS, Visit, field_of, serve

from rota.server import ServerSettings

MEBIBYTE = 1 << 20


class AsyncParts:
    """A body in parts, of unknown length; counts the parts that were read."""

    def __init__(self, total: int, size: int = 64 * 1024) -> None:
        self.taken = 0
        self._total, self._size = total, size

    def __aiter__(self) -> "AsyncParts":
        return self

    async def __anext__(self) -> bytes:
        if self.taken >= self._total:
            raise StopAsyncIteration
        self.taken += self._size
        return b" " * self._size


async def test_a_body_may_have_a_mebibyte(service: Visit) -> None:
    body = b'{"name": "a", "queue": "q"}'
    full = await service.send(body + b" " * (MEBIBYTE - len(body)))
    beyond = await service.send(body + b" " * (MEBIBYTE - len(body) + 1))
    assert full.status_code == 201
    assert beyond.status_code == 413
    assert beyond.json() == {
        "code": "TOO_LARGE",
        "message": "body must not be longer than 1048576 bytes",
        "details": {"field": "body", "limit": MEBIBYTE},
    }


async def test_a_body_in_parts_is_not_read_to_its_end(service: Visit) -> None:
    parts = AsyncParts(64 * MEBIBYTE)
    answer = await service.client.post(
        JOBS, content=parts, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413
    assert parts.taken <= 2 * MEBIBYTE


async def _answer(service: Visit, messages: Iterator[Message], **headers: bytes) -> list[Message]:
    """What the service sends when it is given these very messages."""
    sent: list[Message] = []

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        sent.append(message)

    named = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    scope = {
        "type": "http",
        "method": "POST",
        "path": JOBS,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), *named],
    }
    await service.app(scope, receive, send)
    return sent


async def test_no_more_is_taken_than_the_limit(service: Visit) -> None:
    part = {"type": "http.request", "body": b" " * (512 * 1024), "more_body": True}
    taken = 0

    def endless() -> Iterator[Message]:
        nonlocal taken
        while True:
            taken += 1
            yield part

    sent = await _answer(service, endless())
    assert sent[0]["status"] == 413
    assert taken == 3


async def test_a_length_that_is_a_lie_does_not_help(service: Visit) -> None:
    whole = {"type": "http.request", "body": b" " * (MEBIBYTE + 1)}
    sent = await _answer(service, iter([whole]), content_length=b"2")
    assert sent[0]["status"] == 413


@pytest.mark.parametrize("length", [b"-1", b"x", b"9" * 30])
async def test_an_invalid_content_length_is_refused(service: Visit, length: bytes) -> None:
    sent = await _answer(service, iter([]), content_length=length)
    assert sent[0]["status"] == 400


async def test_a_disconnected_client_gets_no_answer(service: Visit) -> None:
    part = {"type": "http.request", "body": b"{", "more_body": True}
    assert await _answer(service, iter([part, {"type": "http.disconnect"}])) == []


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"],
)
async def test_only_json_is_read(service: Visit, media: str) -> None:
    answer = await service.send(b'{"name": "a", "queue": "q"}', **{"content-type": media})
    assert answer.status_code == 415
    assert answer.json()["code"] == "UNSUPPORTED_MEDIA_TYPE"
    assert answer.json()["details"]["field"] == "Content-Type"


@pytest.mark.parametrize("media", ["application/json; charset=UTF-8", "Application/JSON"])
async def test_json_may_be_named_in_several_ways(service: Visit, media: str) -> None:
    answer = await service.send(b'{"name": "a", "queue": "q"}', **{"content-type": media})
    assert answer.status_code == 201


async def test_nothing_is_decompressed(service: Visit) -> None:
    answer = await service.send(b"{}", **{"content-encoding": "gzip"})
    assert answer.status_code == 415
    assert answer.json()["details"]["field"] == "Content-Encoding"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"[]", "body"),
        (b"null", "body"),
        (b"{}", "name"),
        (b'{"name": "a"}', "queue"),
        (b'{"name": 1, "queue": "q"}', "name"),
        (b'{"name": "a", "queue": "q", "color": 1}', "color"),
        (b'{"name": "a", "queue": "q", "": 1}', '""'),
        (b'{"name": "a", "queue": "q", "priority": true}', "priority"),
        (b'{"name": "a", "queue": "q", "priority": 5.0}', "priority"),
        (b'{"name": "a", "queue": "q", "priority": "5"}', "priority"),
        (b'{"name": "a", "queue": "q", "dependencies": [1]}', "dependencies[0]"),
        (b'{"name": "a", "queue": "q", "retry_policy": {"tries": 1}}', "retry_policy.tries"),
        (b'{"name": "a", "queue": "q", "retry_policy": {"max_attempts": ""}}',
         "retry_policy.max_attempts"),
        (b'{"name": "a", "queue": "q", "recurrence": {"overlap": "x"}}', "recurrence.overlap"),
    ],
)  # fmt: skip
async def test_the_field_that_is_wrong_is_named(service: Visit, body: bytes, field: str) -> None:
    assert field_of(await service.send(body)) == field


async def test_a_route_without_a_body_accepts_only_an_empty_object(service: Visit) -> None:
    job = await service.make_job()
    url = f"{JOBS}/{job['id']}"
    refused = await service.client.request("DELETE", url, json={"force": True})
    assert field_of(refused) == "force"
    deleted = await service.client.request("DELETE", url, json={})
    assert deleted.status_code == 204


async def test_the_limit_can_be_set() -> None:
    async with serve(settings=ServerSettings(longest_body=20)) as small:
        answer = await small.send(b'{"name": "a", "queue": "q"}')
    assert answer.status_code == 413
