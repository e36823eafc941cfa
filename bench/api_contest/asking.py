"""Asks a server over connections that stay open, and times every answer.

A client of its own, as small as can be: one that does more would be measured along with the server,
with which it shares the machine.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

MakeRequest = Callable[[int], bytes]
"""The bytes of the request with this number."""

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Asked(NamedTuple):
    """What came of a measurement."""

    per_second: float
    p50_ms: float
    p99_ms: float
    answer_count: int


class RefusedError(Exception):
    """An answer was none of those that count."""


class _Connection(asyncio.Protocol):
    """One request at a time; ``answer`` is set when all of it has come."""

    def __init__(self) -> None:
        self._buffer = b""
        self._waiting: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, is_whole, rest = self._buffer.partition(_HEAD_END)
        if not is_whole or len(rest) < _read_length(head):
            return
        answer, self._buffer = self._buffer, b""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error or ConnectionError("the server hung up"))

    async def ask(self, request: bytes) -> bytes:
        if self._transport is None:
            raise ConnectionError("not connected")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _read_length(head: bytes) -> int:
    at = head.lower().find(_LENGTH)
    return 0 if at < 0 else int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])


def make_request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """The bytes of an HTTP request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}"]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def ask_once(port: int, request: bytes) -> bytes:
    """The body of one answer; RefusedError unless its status is 2xx."""
    connection = await _connect(port)
    try:
        answer = await connection.ask(request)
    finally:
        connection.close()
    _check(answer)
    return answer.partition(_HEAD_END)[2]


async def ask_for(port: int, seconds: float, connections: int, make: MakeRequest) -> Asked:
    """Ask over so many connections for so long, each as soon as it has been answered."""
    opened = [await _connect(port) for _ in range(connections)]
    begin = time.perf_counter()
    end = begin + seconds
    numbers = iter(range(1_000_000_000))
    took: list[float] = []

    async def keep_asking(connection: _Connection) -> None:
        while (at := time.perf_counter()) < end:
            _check(await connection.ask(make(next(numbers))))
            took.append(time.perf_counter() - at)

    try:
        await asyncio.gather(*map(keep_asking, opened))
        passed = time.perf_counter() - begin
    finally:
        for connection in opened:
            connection.close()
    took.sort()
    return Asked(len(took) / passed, _at(took, 0.5) * 1e3, _at(took, 0.99) * 1e3, len(took))


async def _connect(port: int) -> _Connection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(_Connection, "127.0.0.1", port)
    return connection


def _check(answer: bytes) -> None:
    if not answer.startswith(b"HTTP/1.1 2"):
        raise RefusedError(answer[-300:].decode(errors="replace"))


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0
