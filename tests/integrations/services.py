"""Services of other frameworks, started under their real servers."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.process.fleet import wait_for

BIN = Path(sys.executable).parent
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE = 60


class HostProgram:
    """A running program, and requests to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self._log = log

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
        """The status and the body, read as JSON where it is JSON."""
        request = urllib.request.Request(self.url + path, method=method, headers=headers)  # noqa: S310 - loopback
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
                return answer.status, _read(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _read(error.read())

    def is_up(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the service ended: {self.printed}")
        try:
            self.ask("/")
        except OSError:
            return False
        return True

    @property
    def printed(self) -> str:
        return self._log.read_text(encoding="utf-8")


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str], folder: Path, port: int | None, **environ: str
) -> Iterator[HostProgram]:
    """Start a program of the environment in a folder of the examples; kill it at the end."""
    name = command[0]
    log = Path(environ.pop("LOG"))
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ROTA_")}
    with log.open("wb") as printed:
        process = subprocess.Popen(
            [str(BIN / name), *command[1:]],
            cwd=folder,
            env={**kept, "PYTHONUNBUFFERED": "1", "TZ": "UTC", **environ},
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    service = HostProgram(process, port or 0, log)
    try:
        if port is not None:
            wait_for(service.is_up, f"an answer of {name}", PATIENCE)
        yield service
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
