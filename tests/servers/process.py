"""A server of one's own in a folder: started, killed, started again, stopped by its process id."""

import os
import shutil
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.servers.postgres import is_running, wait_for_server


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess(ABC):
    """A server in a folder, on a port of this machine that it keeps.

    Any process that knows the folder can use the object: what it needs to know is on the disk.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self.folder = folder

    @property
    @abstractmethod
    def url(self) -> str:
        """Where a store can be opened on it."""

    @property
    def port(self) -> int:
        return int((self.folder / "port").read_text())

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
        (self.folder / "port").write_text(str(free_port()))

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
            lambda: f"{self._name} did not start:\n{self.log}",
        )
        assert process.poll() is None, f"{self._name} did not start:\n{self.log}"
        _children[process.pid] = process

    def stop(self) -> None:
        """Have it end properly; no error when it is not running."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with kill -9, as when the machine loses its power."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start it again, after ``kill`` or ``stop``."""
        self.start()

    def remove(self) -> None:
        """Stop it and leave nothing on the disk."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """How it is run."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it takes connections."""

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
            lambda: not is_running(process_id), lambda: f"{self._name} survives {number}"
        )


_children: dict[int, "subprocess.Popen[bytes]"] = {}
