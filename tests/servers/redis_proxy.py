"""A network that can be broken, between a client and a Redis server."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer


class RedisProxy(Proxy):
    """Passes bytes to the socket of a server; see ``Proxy``."""

    def __init__(self, socket_path: str) -> None:
        super().__init__("")
        self._path = socket_path

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def lead_to(self, server: RedisServer) -> None:
        """From now on new connections are to this server, as when an address passes to another."""
        self._path = f"{server.folder}/socket"

    def swallow(self) -> None:
        """Existing connections stay open and lead nowhere, without a word. New ones are sound."""
        for task in self._tasks:
            task.cancel()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        async with super().open():
            yield self

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await super()._serve(reader, writer)
        except OSError:  # the server does not listen
            writer.transport.abort()

    async def _dial(self) -> tuple[StreamReader, StreamWriter]:
        return await asyncio.open_unix_connection(self._path)
