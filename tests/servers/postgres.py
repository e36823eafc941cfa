"""A PostgreSQL server of one's own: started, killed, started again, stopped by its process id."""

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from urllib.parse import quote

from tests.servers.binaries import Installation, server_user

from rota.clock.system import monotonic

PATIENCE = 120.0
"""Real seconds within which any server has started or ended, on however slow a machine."""


class PostgresServer:
    """A server in a folder, reached through a socket there; durable, as it is delivered.

    Any process that knows the folder can use the object: what it needs to know is on the disk.
    """

    def __init__(self, installation: Installation, folder: Path) -> None:
        self._installation = installation
        self.folder = folder
        self._data = folder / "data"

    @property
    def url(self) -> str:
        """The address of the database that is there from the beginning."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://rota@/{database}?host={quote(str(self.folder))}"

    @property
    def process_id(self) -> int | None:
        """Of the process all others of the server come from; None when there is none."""
        try:
            return int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def create(self) -> None:
        """Make the folder ready. It belongs to the user that the server runs as."""
        self.folder.mkdir(mode=0o700)
        user = server_user()
        if user is not None:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        options = ("--auth=trust", "--username=rota", "--encoding=UTF8", "--locale=C", "--no-sync")
        made = self._installation.run("initdb", f"--pgdata={self._data}", *options)
        assert made.returncode == 0, f"initdb ended with {made.returncode}"

    def start(self, *options: str) -> None:
        """Start and wait until connections are accepted, after a crash as well."""
        fixed = f"-c listen_addresses= -c max_connections=200 -k '{self.folder}'"
        settings = " ".join((fixed, *options))
        command = ("start", "--wait", f"--pgdata={self._data}", f"--log={self.folder / 'log'}")
        # Straight after a kill -9 the orphans of the old server may still hold its memory.
        wait_for_server(
            lambda: self._installation.run("pg_ctl", *command, "-o", settings).returncode == 0,
            lambda: f"PostgreSQL did not start:\n{self.log}",
        )

    def stop(self) -> None:
        """Have it end at once but properly; no error when it is not running."""
        for process_id in self._family()[:1]:
            _end(process_id, signal.SIGINT)

    def kill(self) -> None:
        """End all its processes with kill -9, as when the machine loses its power."""
        for process_id in self._family():
            _end(process_id, signal.SIGKILL)

    def restart(self) -> None:
        """Start it again, after ``kill`` or ``stop``."""
        self.start()

    def pause(self) -> None:
        """Let it hang without closing anything, until ``resume``."""
        for process_id in self._family():
            os.kill(process_id, signal.SIGSTOP)

    def resume(self) -> None:
        for process_id in self._family():
            os.kill(process_id, signal.SIGCONT)

    def remove(self) -> None:
        """Stop it and leave nothing on the disk."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _family(self) -> list[int]:
        """The process ids of the whole server, the one that makes the others first."""
        head = self.process_id
        if head is None or not is_running(head):
            return []
        children = Path(f"/proc/{head}/task/{head}/children")
        return [head, *map(int, children.read_text().split() if children.exists() else ())]


def _end(process_id: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process_id, number)
    wait_for_server(
        lambda: not is_running(process_id), lambda: f"PostgreSQL survives {number.name}"
    )


def is_running(process_id: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    stat = Path(f"/proc/{process_id}/stat")
    try:
        return stat.read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return not Path("/proc/self/stat").exists()


def wait_for_server(condition: Callable[[], bool], complaint: Callable[[], str]) -> None:
    """Look again and again until the condition holds, within the patience for any server."""
    gives_up_at, pause = monotonic() + PATIENCE, Event()
    while not condition():
        assert monotonic() < gives_up_at, complaint()
        pause.wait(0.02)
