"""A program elsewhere that is asked: a real server on this host, over TCP or TLS."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

HOST = "hooks.example.com"

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Received:
    """One request, as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    server_name: str | None


@dataclass
class Receiver:
    """What a server was asked, and what it answers."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    server_names: list[str | None] = field(default_factory=list)
    connection_count: int = 0
    reply: Reply | None = None
    head: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        try:
            await self._read(reader)
            if self.reply is None:
                writer.write(self.head)
                await writer.drain()
            else:
                await self.reply(writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        length = int(headers.get("Content-Length", "0"))
        body = await reader.readexactly(length)
        server_name = self.server_names[-1] if self.server_names else None
        self.received.append(Received(method, target, headers, body, server_name))


@asynccontextmanager
async def receiving(
    tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Receiver]:
    """A server that runs while the context lasts."""
    receiver = Receiver()
    if tls is not None:
        tls.sni_callback = lambda _, name, __: receiver.server_names.append(name)
    server = await asyncio.start_server(receiver.serve, host, 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await server.wait_closed()


class Authority:
    """Makes certificates that only clients configured for them trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                  "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "30",
                  "-addext", "keyUsage=critical,keyCertSign",
                  "-subj", "/CN=An authority of the tests")  # fmt: skip

    def serve_as(self, host: str) -> ssl.SSLContext:
        """For a server that can prove to be this host."""
        extensions = (
            f"subjectAltName=DNS:{host}",
            "subjectKeyIdentifier=hash",
            "authorityKeyIdentifier=keyid",
        )
        (self._folder / f"{host}.ext").write_text("\n".join(extensions), encoding="ascii")
        self._run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                  "-keyout", f"{host}.key", "-out", f"{host}.csr", "-subj", "/CN=host")  # fmt: skip
        self._run("x509", "-req", "-in", f"{host}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                  "-CAcreateserial", "-days", "30", "-extfile", f"{host}.ext",
                  "-out", f"{host}.pem")  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / f"{host}.pem", self._folder / f"{host}.key")
        return context

    def trust(self) -> ssl.SSLContext:
        """For a client that trusts this authority, and no other."""
        return ssl.create_default_context(cafile=str(self._folder / "ca.pem"))

    def _run(self, *arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments],
            cwd=self._folder,
            check=True,
            capture_output=True,
        )
