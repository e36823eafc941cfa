"""A transport that connects to addresses it has checked, and to no others.

A name is resolved once. If it were looked up a second time to connect, the answer could be another
one than that which was checked. So the connection is made to the address itself; the name goes
along as ``Host`` and for TLS, where the certificate has to be for the name.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import httpx2

from rota.errors import DeliveryError
from rota.kinds.http.addresses import Address, read_address
from rota.kinds.http.rules import HttpRules

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, as text; OSError if there are none."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """As the host's own resolver has it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Sends one request to the first checked address that can be connected to.

    No connection is used twice: one that was made for a name must not serve another.
    """

    def __init__(
        self, rules: HttpRules, context: ssl.SSLContext, resolve: Resolve = resolve
    ) -> None:
        self._rules = rules
        self._resolve = resolve
        self._transport = httpx2.AsyncHTTPTransport(
            verify=context,
            trust_env=False,
            limits=httpx2.Limits(max_keepalive_connections=0),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Resolve, check and connect; ForbiddenAddressError before anything is sent."""
        host = name_of(request.url)
        addresses = await self._find_addresses(host, _port_of(request.url))
        for address in addresses[:-1]:
            try:
                return await self._send(request, host, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._send(request, host, addresses[-1])

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _find_addresses(self, host: str, port: int) -> list[Address]:
        try:
            addresses = [read_address(text) for text in await self._resolve(host, port)]
        except (OSError, ValueError) as error:
            raise DeliveryError(f"{host} cannot be resolved") from error
        if not addresses:
            raise DeliveryError(f"{host} has no address")
        self._rules.check_addresses(host, addresses)
        return addresses

    async def _send(self, request: httpx2.Request, host: str, address: Address) -> httpx2.Response:
        pinned = httpx2.Request(
            method=request.method,
            url=request.url.copy_with(host=str(address)),
            headers=request.headers,  # with the Host of the name
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        return await self._transport.handle_async_request(pinned)


def name_of(url: httpx2.URL) -> str:
    """The host as resolvers and certificates have it: in ASCII, and without a full stop."""
    return url.raw_host.decode("ascii").lower().rstrip(".")


def _port_of(url: httpx2.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)
