"""A MariaDB or MySQL server of one's own: started, killed, restarted, stopped by its process id."""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import asyncmy
from tests.servers.process import ServerProcess

from rota.stores.mysql.address import read_address
from rota.stores.mysql.store import MysqlStore

_FOLDERS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
_UNPRIVILEGED = ("mysql", "nobody")
_OPTIONS = (
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--max-connections=400",
    "--performance-schema=OFF",
    "--innodb-buffer-pool-size=128M",
    "--innodb-log-file-size=32M",
)
NOT_FOR_KEEPS = ("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--sync-binlog=0")
"""The shared server needs no durability, since no test kills it; the others do."""


class MariadbServer(ServerProcess):
    def __init__(self, program: Path, folder: Path, options: Sequence[str] = ()) -> None:
        super().__init__(program.name, folder)
        self._program = program
        self._options = options

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/rota"

    @property
    def _kept(self) -> Path:
        return self.folder / "kept"

    def create(self) -> None:
        """Make the folder ready, with the server's own tables in it."""
        super().create()
        self.folder.chmod(0o711)
        self._kept.mkdir(mode=0o700)
        user = server_user()
        if user is not None:
            os.chown(self._kept, user.pw_uid, user.pw_gid)
        (self.folder / "init.sql").write_text("CREATE DATABASE IF NOT EXISTS rota;\n")
        (self.folder / "init.sql").chmod(0o644)
        made = subprocess.run(self._creation(), capture_output=True, check=False, timeout=120)
        assert made.returncode == 0, (made.stdout + made.stderr).decode(errors="replace")

    def _creation(self) -> list[str]:
        place = [f"--datadir={self._kept}", f"--tmpdir={self._kept}", *_as_user()]
        script = shutil.which("mariadb-install-db", path=_FOLDERS)
        if script is None:
            return [str(self._program), "--no-defaults", "--initialize-insecure", *place]
        passwordless = "--auth-root-authentication-method=normal"
        return [script, "--no-defaults", *place, passwordless, "--skip-test-db", _OPTIONS[-1]]

    def _command(self) -> Sequence[str]:
        own = [
            f"--datadir={self._kept}",
            f"--tmpdir={self._kept}",
            f"--socket={self._kept / 'socket'}",
            f"--pid-file={self._kept / 'server.pid'}",
            f"--port={self.port}",
            f"--init-file={self.folder / 'init.sql'}",
        ]
        return [str(self._program), "--no-defaults", *own, *_as_user(), *_OPTIONS, *self._options]

    def _answers(self) -> bool:
        """Whether it greets a client, which it does after it has recovered."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
                return len(client.recv(5)) == 5
        except OSError:
            return False


def server_user() -> pwd.struct_passwd | None:
    """The user to become, or None when the present one will do: the servers refuse to be root."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    return next(known[name] for name in _UNPRIVILEGED if name in known)


def _as_user() -> list[str]:
    user = server_user()
    return [] if user is None else [f"--user={user.pw_name}"]


@cache
def find_mariadb() -> Path | None:
    """The program of a server on the path, or where Debian has it."""
    found = (shutil.which(name, path=_FOLDERS) for name in ("mariadbd", "mysqld"))
    return next((Path(each) for each in found if each is not None), None)


async def open_mysql(url: str) -> MysqlStore:
    """The store at an address, with its own type."""
    return await MysqlStore.open(read_address(url))


async def connect_to(url: str) -> Any:
    """A connection of a caller's own."""
    return await asyncmy.connect(**read_address(url).driver_arguments)


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements on a connection of their own; the rows of the last."""

    async def run() -> list[tuple[Any, ...]]:
        connection = await connect_to(url)
        rows: list[tuple[Any, ...]] = []
        async with connection.cursor() as cursor:
            for statement in statements:
                await cursor.execute(statement)
                rows = list(await cursor.fetchall()) if cursor.description else []
        await connection.ensure_closed()
        return rows

    with ThreadPoolExecutor(1) as thread:  # in this one an event loop may be running
        return thread.submit(lambda: asyncio.run(run())).result()
