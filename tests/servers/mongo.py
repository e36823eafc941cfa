"""A MongoDB server of one's own: started, killed, started again, stopped by its process id.

``mongod``, where this machine has one; else a stand-in that speaks the same protocol and keeps its
documents in an SQLite file. The stand-in needs Python 3.13 and libraries of its own, so it lives
in an environment apart, made once under ``build/`` from pinned requirements.
"""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.servers.process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).with_name("mongo_stand_in.py")
REQUIREMENTS = ROOT / "requirements/mongo-server.txt"
_OLDEST_PYTHON = (3, 13)


class MongoProgram(NamedTuple):
    """How a server is run: the command for a folder and a port."""

    name: str
    command: Callable[[Path, int], Sequence[str]]


NO_PROGRAM = MongoProgram("nothing", lambda _, __: ())
"""For servers that are only to be ended."""


class MongoServer(ServerProcess):
    def __init__(self, program: MongoProgram, folder: Path) -> None:
        super().__init__(program.name, folder)
        self._program = program

    @property
    def is_real(self) -> bool:
        """Whether it is MongoDB itself, and not a stand-in for it."""
        return self._program.name == "mongod"

    @property
    def url(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def create(self) -> None:
        """Make the folder ready, with a place of its own for what is kept."""
        super().create()
        (self.folder / "kept").mkdir()

    def _command(self) -> Sequence[str]:
        return self._program.command(self.folder / "kept", self.port)

    def _answers(self) -> bool:
        """Whether it takes connections. A client that meets nobody would leave sockets behind."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False


def find_program(*options: str) -> MongoProgram | None:
    """What this machine can run, the reference before the stand-in; None when it can run neither.

    The first time, the stand-in's environment is made, which takes a little while. ``options`` are
    for the stand-in.
    """
    mongod = shutil.which("mongod")
    if mongod is not None:
        return MongoProgram("mongod", lambda folder, port: _mongod(mongod, folder, port))
    python = _stand_in_python()
    if python is None:
        return None
    program = [str(python), str(STAND_IN)]
    return MongoProgram(
        "the stand-in for mongod",
        lambda folder, port: [*program, str(folder / "kept.db"), str(port), *options],
    )


def _mongod(program: str, folder: Path, port: int) -> list[str]:
    options = [f"--dbpath={folder}", f"--port={port}", "--bind_ip=127.0.0.1", "--nounixsocket"]
    return [program, *options]


def _stand_in_python() -> Path | None:
    """The Python of the stand-in's environment; it is made anew when the requirements change."""
    digest = sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    environment = ROOT / "build/servers" / f"mongo-{digest}"
    python, is_complete = environment / "bin/python", environment / ".complete"
    environment.parent.mkdir(parents=True, exist_ok=True)
    with environment.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_complete.exists() and not _make_environment(environment):
            return None
        is_complete.touch()
    return python


def _make_environment(environment: Path) -> bool:
    host = next(_pythons(), None)
    if host is None:
        return False
    shutil.rmtree(environment, ignore_errors=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    commands = (
        [host, "-m", "venv", str(environment)],
        [str(environment / "bin/python"), *install, "--require-hashes", "-r", str(REQUIREMENTS)],
    )
    return all(_succeeds(command, timeout=600) for command in commands)


def _pythons() -> Iterator[str]:
    """Pythons of this machine that are new enough."""
    names = [f"python3.{minor}" for minor in range(13, 20)]
    managed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [sys.executable, *filter(None, map(shutil.which, names))]
    found += [str(path) for path in sorted(managed.glob("3.*/bin/python3"))]
    found += [str(path) for path in sorted(ROOT.glob(".venv*/bin/python"))]
    for path in found:
        question = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {_OLDEST_PYTHON})"
        if _succeeds([path, "-c", question], timeout=30):
            yield path


def _succeeds(command: Sequence[str], timeout: float) -> bool:
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=timeout,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


if __name__ == "__main__":
    find_program()
