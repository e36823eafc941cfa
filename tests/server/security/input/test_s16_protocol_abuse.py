"""S16: whatever comes over the wire, the server answers the next request."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import uvicorn
from tests.server.security.conftest import Stage

from rota.auth.tokens import TokenBook
from rota.clock.system import SystemClock
from rota.server import create_app
from rota.server.http.connection import SERVER_OPTIONS
from rota.stores.memory import MemoryStore

START = b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\n"
ABUSE: dict[str, bytes] = {
    "noise": bytes(range(256)) * 20,
    "nothing but line ends": b"\r\n" * 1_000,
    "a handshake of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    "a preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "HTTP/0.9": b"GET /\r\n",
    "another version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "no host": b"GET /health/live HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health/live HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a long line": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 200_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "NUL in a header": b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
    "NUL in the path": b"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "no UTF-8 in the path": b"GET /%ff%fe/%c0%ae%c0%ae HTTP/1.1\r\nHost: x\r\n\r\n",
    "raw bytes in the path": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "no UTF-8 in the query": b"GET /api/v1/jobs?queue=%ff HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path that climbs": b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    "a static file that climbs": b"GET /admin/static/..%2f..%2fapp.py HTTP/1.1\r\nHost: x\r\n\r\n",
    "an absolute address": b"GET http://evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a trace": b"TRACE / HTTP/1.1\r\nHost: x\r\nCookie: rota_session=x\r\n\r\n",
    "an unknown method": b"BREW /api/v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n",
    "no length": START + b"Content-Length: x\r\n\r\n{}",
    "less than nothing": START + b"Content-Length: -1\r\n\r\n{}",
    "two lengths": START + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and pieces": START
    + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a piece of no size": START + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "a piece of any size": START + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\n",
    "other pieces": START + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "an upgrade": b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n",
    "a hundred at once": b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n" * 100,
    "no token": b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: \xff\xfe\r\n\r\n",
    "no cookie": b"GET /admin HTTP/1.1\r\nHost: x\r\nCookie: \xff;;=;=\r\n\r\n",
}


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server as Rota runs it, on a port of its own."""
    store, clock = MemoryStore(), SystemClock()
    app = create_app(store, TokenBook(store, clock), clock=clock)
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", **SERVER_OPTIONS)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())  # signals are left alone
    while not server.started:
        await clock.sleep(timedelta(milliseconds=5))
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving
    await store.close()


async def send(port: int, content: bytes) -> bytes:
    """What is answered before the server hangs up, or to a second request on the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(content)
        await writer.drain()
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def statuses_in(answer: bytes) -> list[int]:
    lines = answer.split(b"HTTP/1.1 ")[1:]
    return [int(line[:3]) for line in lines]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # connections that the server cuts off
async def test_no_abuse_keeps_the_next_request_from_being_answered(port: int) -> None:
    ask = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    for name, content in ABUSE.items():
        answer = await send(port, content)
        assert all(status < 500 for status in statuses_in(answer)), (name, answer[:500])
        assert b"Traceback" not in answer, name
        assert b"server:" not in answer.lower(), name
        assert b"root:" not in answer, name
        after = await send(port, ask)
        assert statuses_in(after) == [200], name


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs/%00",
        "/api/v1/jobs/" + "x" * 5_000,
        "/%2e%2e/%2e%2e/etc/passwd",
        "/api//v1",
    ],
)
async def test_a_malformed_path_is_not_found_or_refused(stage: Stage, path: str) -> None:
    client = await stage.sign_up()
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "BREW"):
        answer = await client.request(method, path)
        assert 400 <= answer.status_code < 500, (method, path, answer.text)
