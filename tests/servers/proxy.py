"""A network that can be broken: passes bytes between a client and a PostgreSQL server."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote

import psycopg.conninfo


class Proxy:
    """Listens on a port of its own. Broken, it is silent (``stall``) or loses answers (``cut``)."""

    def __init__(self, target_url: str) -> None:
        self._target = psycopg.conninfo.conninfo_to_dict(target_url)
        self._lines: list[StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self._port = 0
        self.loses_answers = False
        self.connection_count = 0

    @property
    def url(self) -> str:
        user, database = self._target["user"], self._target["dbname"]
        password = f":{quote(str(self._target['password']))}" if "password" in self._target else ""
        return f"postgresql://{user}{password}@127.0.0.1:{self._port}/{database}?sslmode=disable"

    def stall(self) -> None:
        """From now on nothing comes through, and neither side is notified."""
        self._passing.clear()

    def heal(self) -> None:
        """Close what was broken, and let new connections through."""
        self.loses_answers = False
        self._hang_up()
        self._passing.set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.heal()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            await server.wait_closed()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connection_count += 1
        there_reader, there_writer = await self._dial()
        self._lines += [writer, there_writer]
        for coroutine in (
            self._pass(reader, there_writer, is_answer=False),
            self._pass(there_reader, writer, is_answer=True),
        ):
            task = asyncio.create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _dial(self) -> tuple[StreamReader, StreamWriter]:
        host, port = str(self._target.get("host", "127.0.0.1")), str(self._target.get("port", 5432))
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, int(port))

    async def _pass(self, reader: StreamReader, writer: StreamWriter, *, is_answer: bool) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(1 << 16):
                await self._passing.wait()
                if is_answer and self.loses_answers:
                    self._hang_up()
                    return
                writer.write(chunk)
                await writer.drain()
        writer.close()

    def _hang_up(self) -> None:
        for line in self._lines:
            line.transport.abort()
        self._lines.clear()
