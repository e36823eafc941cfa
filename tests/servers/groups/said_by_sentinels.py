"""Sentinels who say what a test has them say; whatever else they are told they take in."""

import asyncio
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from ssl import SSLContext

SERVICE = "work"


@dataclass
class ToldSentinel:
    """Names a primary; speaks as much of the protocol as it takes to be asked for one."""

    host: str
    port: int
    epoch: int = 0
    flags: str = "master"
    known_as: tuple[str, int] | None = None
    """Whom it still knows as the primary, when it already names his successor."""
    is_silent: bool = False
    forgets: bool = False
    """Between one question and the next it is told not to watch over the service any more."""
    question_count: int = 0
    own_port: int = field(default=0, init=False)
    _writers: set[StreamWriter] = field(default_factory=set, init=False)

    @property
    def place(self) -> str:
        return f"localhost:{self.own_port}"

    @asynccontextmanager
    async def open(self, encryption: SSLContext | None = None) -> AsyncIterator["ToldSentinel"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=encryption)
        self.own_port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(ConnectionError, IncompleteReadError):  # the client has gone
            while count := await reader.readline():
                command = [await _read_text(reader) for _ in range(int(count[1:]))]
                if not self.is_silent:
                    writer.write(self._answer([word.upper() for word in command[:2]], command[-1]))

    def _answer(self, command: list[str], service: str) -> bytes:
        if command[0] != "SENTINEL":
            return b"+OK\r\n"
        if service != SERVICE:
            return b"-ERR No such master with that name\r\n"
        if command[1] == "GET-MASTER-ADDR-BY-NAME":
            return b"*-1\r\n" if self.forgets else _write_texts([self.host, str(self.port)])
        self.question_count += 1
        host, port = self.known_as or (self.host, self.port)
        said = {"ip": host, "port": port, "flags": self.flags, "config-epoch": self.epoch}
        return _write_texts([str(word) for pair in said.items() for word in pair])


@asynccontextmanager
async def opened(*sentinels: ToldSentinel) -> AsyncIterator[str]:
    """The address at which these are asked."""
    async with AsyncExitStack() as stack:
        for each in sentinels:
            await stack.enter_async_context(each.open())
        yield f"redis+sentinel://{','.join(each.place for each in sentinels)}/{SERVICE}"


async def _read_text(reader: StreamReader) -> str:
    length = int((await reader.readline())[1:])
    return (await reader.readexactly(length + 2))[:-2].decode()


def _write_texts(texts: list[str]) -> bytes:
    parts = [f"${len(text)}\r\n{text}\r\n" for text in texts]
    return "".join([f"*{len(parts)}\r\n", *parts]).encode()
