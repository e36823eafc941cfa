"""Servers that are encrypted: by themselves, or by a network that ends TLS in front of them.

The servers that come as a wheel are built without it. To a client this proxy is the server: it
shows the certificate, and can demand one.
"""

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import redis
from tests.servers.redis import RedisServer, knows_tls

_HOST = "localhost"
_EXTENSIONS = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\nbasicConstraints=CA:FALSE\n"


class Authority:
    """Somebody who signs certificates, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)("no openssl on this machine")
        folder.mkdir()
        self._folder = folder
        self.certificate = folder / "authority.pem"
        self._key = folder / "authority.key"
        usage = ("-addext", "keyUsage=critical,keyCertSign")
        _openssl(
            *("req", "-x509", "-subj", "/CN=authority", *usage),
            *(*_new_key(self._key), self.certificate),
        )

    def sign(self, name: str) -> tuple[Path, Path]:
        """A certificate for that name, and its key."""
        key, request, certificate, names = (
            self._folder / f"{name}.{end}" for end in ("key", "csr", "pem", "names")
        )
        names.write_text(f"subjectAltName=DNS:{name}\n{_EXTENSIONS}")
        _openssl("req", "-subj", f"/CN={name}", *_new_key(key), request)
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key),
            *("-CAcreateserial", "-days", "2", "-extfile", names, "-out", certificate),
        )
        return certificate, key


class Encryption:
    """Listens with TLS on a port of its own, and passes what it hears to a socket."""

    def __init__(self, socket_path: str, authority: Authority, name: str = _HOST) -> None:
        self._path = socket_path
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(*authority.sign(name))
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0

    def demand_certificates(self, authority: Authority) -> None:
        """Let only those in whom the authority knows."""
        self._context.load_verify_locations(authority.certificate)
        self._context.verify_mode = ssl.CERT_REQUIRED

    @property
    def place(self) -> str:
        return f"{_HOST}:{self._port}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Encryption"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_unix_connection(self._path)
        for coroutine in (_pass(reader, there_writer), _pass(there_reader, writer)):
            task = asyncio.create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


class OwnEncryption:
    """A Redis server that listens with TLS by itself, on one more port."""

    def __init__(self, server: RedisServer, authority: Authority, name: str = _HOST) -> None:
        self._server = server
        self._authority = authority
        self._name = name
        self._port = 0

    def demand_certificates(self, authority: Authority) -> None:
        """Let only those in whom the authority knows."""
        self._set("tls-ca-cert-file", authority.certificate, "tls-auth-clients", "yes")

    @property
    def place(self) -> str:
        return f"{_HOST}:{self._port}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["OwnEncryption"]:
        """Skips where the server was built without TLS."""
        if not knows_tls(self._server.program):
            pytest.skip(f"{self._server.program.name} is built without TLS: only a proxy is tried")
        certificate, key = self._authority.sign(self._name)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._set(
            *("tls-cert-file", certificate, "tls-key-file", key, "tls-auth-clients", "no"),
            *("tls-ca-cert-file", self._authority.certificate, "tls-port", self._port),
        )
        try:
            yield self
        finally:
            self._set("tls-port", 0)

    def _set(self, *settings: str | Path | int) -> None:
        with redis.Redis.from_url(self._server.url) as client:
            client.execute_command("CONFIG", "SET", *map(str, settings))


async def _pass(reader: StreamReader, writer: StreamWriter) -> None:
    try:
        with suppress(ConnectionError, ssl.SSLError):
            while chunk := await reader.read(1 << 16):
                writer.write(chunk)
                await writer.drain()
    finally:
        writer.transport.abort()


def _new_key(path: Path) -> tuple[str | Path, ...]:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-batch")
    return (*curve, "-keyout", path, "-out")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
