"""A network that can be broken, between a client and a Redis server."""

import asyncio
from asyncio import StreamReader, StreamWriter

from tests.servers.proxy import Proxy


class RedisProxy(Proxy):
    """Passes bytes to the socket of a server; see ``Proxy``."""

    def __init__(self, socket_path: str) -> None:
        super().__init__("")
        self._path = socket_path

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    async def _dial(self) -> tuple[StreamReader, StreamWriter]:
        return await asyncio.open_unix_connection(self._path)
