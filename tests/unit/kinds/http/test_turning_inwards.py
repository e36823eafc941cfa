"""Attempts to make a worker reach what it must not: all in vain (S5)."""

import asyncio
import socket
from contextlib import suppress
from typing import Any

import pytest
from tests.unit.kinds.http.asker import NOW, Asker
from tests.unit.kinds.http.receiver import HOST, Authority, Receiver, receiving

from rota.errors import DeliveryError
from rota.kinds import HttpRules, Keyring
from rota.kinds.http_request import HttpRequests
from rota.testing import a_job
from rota.worker import Context, Discard


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that anything in this process has the host's resolver look up."""
    names: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        names.append(host.decode() if isinstance(host, bytes) else str(host))
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return names


async def test_tls_is_for_the_name_although_the_connection_is_to_the_address(
    authority: Authority, looked_up: list[str]
) -> None:
    async with receiving(authority.serve_as(HOST)) as receiver:
        asker = Asker(receiver.port, authority.trust())
        assert await asker.ask() is None
    (received,) = receiver.received
    assert received.server_name == HOST
    assert received.headers["Host"] == f"{HOST}:{receiver.port}"
    assert asker.asked == [HOST]
    assert HOST not in looked_up


async def test_a_certificate_for_another_name_is_refused(authority: Authority) -> None:
    async with receiving(authority.serve_as("other.example.com")) as receiver:
        with pytest.raises(DeliveryError, match="no certificate that can be trusted"):
            await Asker(receiver.port, authority.trust()).ask()
    assert receiver.received == []


async def test_a_certificate_from_an_unknown_issuer_is_refused(authority: Authority) -> None:
    async with receiving(authority.serve_as(HOST)) as receiver:
        asker = Asker(receiver.port, authority.trust())
        asker.requests = HttpRequests(
            HttpRules(hosts=frozenset({HOST}), ports=frozenset({receiver.port})),
            Keyring({}),
            resolve=asker._resolve,
        )
        with pytest.raises(DeliveryError, match="no certificate that can be trusted"):
            await asker.ask()
    assert receiver.received == []


async def test_a_name_that_changes_its_address_is_asked_only_once(
    plain: Receiver, looked_up: list[str]
) -> None:
    async with receiving(host="127.0.0.2") as inner:
        asker = Asker(plain.port)
        asker.answers = [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2"]]
        assert await asker.ask() is None
    assert asker.asked == [HOST]
    assert HOST not in looked_up
    assert (plain.connection_count, inner.connection_count) == (1, 0)


async def test_one_address_that_leads_inwards_among_others_is_enough(plain: Receiver) -> None:
    asker = Asker(plain.port)
    asker.answers = [["127.0.0.1", "169.254.169.254"]]
    returned = await asker.ask()
    assert isinstance(returned, Discard)
    assert "169.254" not in returned.reason
    assert plain.connection_count == 0


async def test_the_next_address_is_tried_when_one_cannot_be_connected_to(plain: Receiver) -> None:
    asker = Asker(plain.port)
    asker.answers = [["127.0.0.9", "127.0.0.1"]]
    assert await asker.ask() is None
    assert plain.connection_count == 1


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "localhost.",
        "LOCALHOST", "0", "0.0.0.00", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::1]", "10.0.0.1", "192.168.1.1",
        "172.16.0.1", "100.64.0.1", "169.254.169.254", "[fe80::1]", "[fd00:ec2::254]",
        "224.0.0.1", "255.255.255.255", "168.63.129.16", "192.0.0.192", "100.100.100.200",
    ],
)  # fmt: skip
async def test_no_spelling_of_an_inner_address_is_reached(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("a connection was begun")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", refuse)
    requests = HttpRequests(HttpRules(), Keyring({}))
    job = a_job(kind="http.request", payload={"url": f"https://{host}/latest/meta-data"})
    returned: object = Discard("by a resolver that knows no such spelling")
    with suppress(DeliveryError):
        returned = await requests(Context(job, NOW))
    assert isinstance(returned, Discard)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(plain: Receiver, status: int) -> None:
    async with receiving() as inner:
        plain.head = (
            f"HTTP/1.1 {status} Moved\r\nLocation: http://127.0.0.1:{inner.port}/\r\n\r\n".encode()
        )
        returned = await Asker(plain.port, ports=frozenset({plain.port, inner.port})).ask()
    assert returned == Discard(f"answered {status}: redirects are not followed")
    assert (plain.connection_count, inner.connection_count) == (1, 0)


async def test_no_proxy_of_the_environment_is_used(
    plain: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert await Asker(plain.port).ask() is None
    assert (plain.connection_count, proxy.connection_count) == (1, 0)


async def test_a_body_without_end_is_not_read(plain: Receiver) -> None:
    gone = asyncio.Event()

    async def pour(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
        except ConnectionError:
            gone.set()
            raise

    plain.reply = pour
    assert await Asker(plain.port).ask() is None
    async with asyncio.timeout(60):
        await gone.wait()


async def test_a_head_without_end_is_not_read_to_the_end(plain: Receiver) -> None:
    async def boast(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-More: " + b"x" * 60_000 + b"\r\n")
            await writer.drain()

    plain.reply = boast
    with pytest.raises(DeliveryError, match="did not answer as HTTP has it"):
        await Asker(plain.port).ask()


@pytest.mark.parametrize("piece", [b"", b"X", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_slow_part_is_not_waited_for(plain: Receiver, piece: bytes) -> None:
    """Not even if something comes all the time."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        for _ in range(1_000):
            writer.write(piece)
            await writer.drain()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()

    plain.reply = drip
    with pytest.raises(DeliveryError, match=r"no answer within 0\.2 s"):
        await Asker(plain.port).ask(timeout_seconds=0.2)


async def test_a_name_that_is_never_resolved_is_not_waited_for() -> None:
    async def hang(*_: object) -> list[str]:
        await asyncio.Event().wait()
        return []

    requests = HttpRequests(HttpRules(), Keyring({}), resolve=hang)
    job = a_job(payload={"url": f"https://{HOST}/", "timeout_seconds": 0.1})
    with pytest.raises(DeliveryError, match="no answer within"):
        await requests(Context(job, NOW))


@pytest.mark.parametrize("answer", [[], ["no address"]])
async def test_a_name_without_an_address_may_have_one_later(answer: list[str]) -> None:
    asker = Asker(443)
    asker.answers = [answer]
    with pytest.raises(DeliveryError):
        await asker.ask()
